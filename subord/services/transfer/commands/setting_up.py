"""`subord transfer setup`: what the batch system needs for the transfer queues of the plan, printed or applied.

Inputs are the plan and the configuration of this node, and options; outputs are text, or changes of the cell.
Invariant: without --apply and --remove nothing is changed.
"""

from __future__ import annotations

import argparse
import grp
import json
import pwd
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.text import printable
from subord.services.batch.adapter import environment_of
from subord.services.batch.gridengine.adapter import ENVIRONMENT
from subord.services.batch.records import Done, Outcome
from subord.services.batch.running import Commands
from subord.services.transfer.cells.gridengine import setup
from subord.services.transfer.cells.gridengine.settings import Settings, printed, ranges_in
from subord.services.transfer.checking import SET
from subord.services.transfer.commands.key import SITE
from subord.services.transfer.commands.publishing import PATH
from subord.services.transfer.thresholds import threshold_of

GRIDENGINE: Final = "gridengine"
SLURM: Final = "slurm"
COMMAND: Final = ("-I", "-m", "subord", "transfer")
"""`subord transfer`, without what a user has in the environment."""
RESTART: Final = "restart the execd of {host} now, so that it starts the load sensor; until then the queue is closed"
NOTHING: Final = "nothing was changed"


def run(arguments: argparse.Namespace) -> int:
    """Raises CommandError."""
    plan, site = asked(arguments, PATH), asked(arguments, SITE)
    _demand(plan, site)
    if site["batch"] == SLURM:
        return _of_slurm(arguments, plan, site)
    if arguments.apply and arguments.gids:
        _demand_free(ranges_in(arguments.gids) or ())
    own = [settings_of(arguments, plan, site, queue["name"]) for queue in plan["queues"]]
    queues = [each.queue for each in own]
    if not (arguments.apply or arguments.remove):
        text = "\n".join(map(printed, own))
        return _said(arguments, queues, text=text, lines=[text])
    act = setup.set_up if arguments.apply else setup.take_away
    commands = Commands(ENVIRONMENT | environment_of(site["batch_environment"]))
    changed = [_applied(act, commands, each) for each in own]
    lines = [_outcome(each.queue, is_changed, arguments) for each, is_changed in zip(own, changed, strict=True)]
    if arguments.apply and any(changed):
        lines.append(RESTART.format(host=own[0].host))
    return _said(arguments, queues, is_changed=any(changed), lines=lines)


def _of_slurm(arguments: argparse.Namespace, plan: Document, site: Document) -> int:
    """Raises CommandError."""
    from subord.services.transfer.cells.slurm import settings
    from subord.services.transfer.commands import setting_up_slurm

    own = setting_up_slurm.settings_of(arguments, plan, site, COMMAND)
    if not (arguments.apply or arguments.remove):
        text = settings.printed(own)
        return _said(arguments, own.partitions, text=text, lines=[text])
    is_changed = setting_up_slurm.written(own) if arguments.apply else setting_up_slurm.removed(own)
    lines = [_outcome(each, is_changed, arguments) for each in own.partitions]
    if arguments.apply:
        lines += setting_up_slurm.in_force(own, site)
    return _said(arguments, own.partitions, is_changed=is_changed, lines=lines)


def _demand(plan: Document, site: Document) -> None:
    """Raises CommandError."""
    if not plan["queues"]:
        text = "there is no plan with transfer queues: publish one with `subord transfer plan`"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.CONFIGURATION)
    if site["batch"] not in (GRIDENGINE, SLURM):
        text = f"transfer.batch was empty when the daemon of this node started: {SET}, or use the transfer host"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.CONFIGURATION)


def _demand_free(gids: Sequence[range]) -> None:
    """Jobs would have the rights of these groups, and the end of a job would kill their processes. Raises
    CommandError."""
    named = {each.gr_gid: each.gr_name for each in grp.getgrall()}
    of_users = {each.pw_gid: f"that of {each.pw_name}" for each in pwd.getpwall()}
    taken = {gid: name for gid, name in (of_users | named).items() if any(gid in each for each in gids)}
    if taken:
        first = min(taken)
        more = f", and {len(taken) - 1} more" if len(taken) > 1 else ""
        text = f"--gids has numbers of groups that are in use: {first} ({taken[first]}){more}; name free ones"
        raise CommandError(f"{printable(text)}; {NOTHING}", exit_codes.CONFIGURATION)


def settings_of(arguments: argparse.Namespace, plan: Document, site: Document, queue: str) -> Settings:
    """Of one transfer queue; each of several has scripts of its own, which name it, but for the sensor."""
    several = len(plan["queues"]) > 1
    idle = plan["idle_pending_max"] if arguments.idle is None else arguments.idle
    transfer = {each["name"] for each in plan["queues"]}
    return Settings(
        host=arguments.host or socket.gethostname(),
        socket=site["socket"],
        queue=queue,
        slots=arguments.slots,
        threshold=None if plan["high_throughput"] else threshold_of(idle),
        value=plan["sensor"],
        remote=plan["opt_out"],
        others=tuple(each for each in arguments.others or ("all.q",) if each not in transfer),
        parallel=tuple(arguments.parallel),
        folder=f"{arguments.folder}/{queue}" if several else arguments.folder,
        sensor=f"{arguments.folder}/sensor",
        program=(sys.executable, *COMMAND),
        gids=arguments.gids or "",
        together=arguments.slots * len(plan["queues"]),
    )


def _applied(act: Callable[[Commands, Settings], Awaitable[Outcome]], commands: Commands, own: Settings) -> bool:
    """Whether something was changed. Raises CommandError."""

    async def acted() -> Outcome:
        return await act(commands, own)

    outcome = trio.run(acted)
    if isinstance(outcome, Done):
        return outcome.is_changed
    raise CommandError(f"{own.queue}: {printable(outcome.reason)}", exit_codes.NOT_REACHED)


def _outcome(queue: str, is_changed: bool, arguments: argparse.Namespace) -> str:
    if not is_changed:
        return f"{queue}: nothing was to be done"
    return f"{queue}: set up" if arguments.apply else f"{queue}: taken away"


def _said(
    arguments: argparse.Namespace,
    queues: Sequence[str],
    *,
    lines: list[str],
    text: str = "",
    is_changed: bool = False,
) -> int:
    if arguments.json:
        found: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "applied": not text,
            "changed": is_changed,
            "queues": list(queues),
            "text": text,
        }
        print(json.dumps(found))
        return exit_codes.OK
    for line in lines:
        print(line)
    return exit_codes.OK
