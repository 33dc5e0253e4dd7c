"""What `subord machines plan` and `policy check` read and ask before a plan is published.

Inputs are the file, the plan before, and nodes; outputs are the new plan, and what is wrong with it. Invariant:
nothing is signed here.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, ask, asked
from subord.client.errors import CommandError
from subord.client.node_sets.choice import chosen_one
from subord.client.options import socket_path
from subord.client.orders.plan_file import name_of, text_of
from subord.client.orders.publishing import NOTHING
from subord.client.text import count, printable
from subord.core.address.network import Network
from subord.core.carriage.engine.causes import UNKNOWN
from subord.services.asking import DAEMON_BUDGET_S_MAX
from subord.services.machines.commands.comparing import Compared, compared
from subord.services.machines.commands.given import FILE_BYTES_MAX, Given, GivenError, parsed
from subord.services.machines.plan import BODY_MAX, Plan, encode

PLAN_PATH: Final = "/v1/machines/plan"


class Wanted(NamedTuple):
    """`manager`: the address of the queue's node. `before`: the PlanDocument that counted until now."""

    plan: Plan
    manager: str
    network: Network
    before: Document


def wanted(arguments: argparse.Namespace, *, is_trial: bool = False) -> Wanted:
    """The plan of the file. Raises CommandError."""
    given = _given(arguments.file)
    before = asked(arguments, PLAN_PATH)
    status = asked(arguments, "/v1/status")
    network = Network.parse(status["settings"]["network"])
    manager, what = _manager(arguments, given, before["manager"] or status["address"])
    position = network.position_of(manager)
    if position is None:
        text = f"{what}: {manager} is no address of the network {network.text}; {NOTHING}"
        raise CommandError(text, exit_codes.NO_SUCH_NODE)
    plan = msgspec.structs.replace(given.plan, manager=position, is_trial=is_trial)
    size = len(encode(plan))
    if size > BODY_MAX:
        text = f"the plan has {size} bytes, and at most {BODY_MAX} have room: give fewer types or names; {NOTHING}"
        raise CommandError(text, exit_codes.USAGE)
    return Wanted(plan, manager, network, before)


def _given(path: str) -> Given:
    """Raises CommandError."""
    try:
        return parsed(text_of(path, FILE_BYTES_MAX))
    except GivenError as error:
        raise several(f"{name_of(path)}: ", error.faults, NOTHING, exit_codes.USAGE) from None


def several(head: str, faults: Sequence[str], tail: str, exit_code: int) -> CommandError:
    """One fault stands in the line; of several ones each has a line of its own. `tail`: what was not done."""
    texts = [printable(each) for each in faults]
    if len(texts) == 1:
        return CommandError(f"{head}{texts[0]}; {tail}", exit_code)
    return CommandError(f"{head}{count(len(texts), 'fault')}; {tail}", exit_code, texts)


def _manager(arguments: argparse.Namespace, given: Given, otherwise: str) -> tuple[str, str]:
    """The address of the queue's node, and what names it. Raises CommandError."""
    in_file = f"manager of {name_of(arguments.file)}"
    word, what = (arguments.manager, "--manager") if arguments.manager is not None else (given.manager, in_file)
    if not word:
        return otherwise, "the queue's node of the plan before"
    try:
        return chosen_one(arguments, word), what
    except CommandError as error:
        raise CommandError(f"{what}: {error}; {NOTHING}", error.exit_code) from None


# -- nodes ----------------------------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """`batch`: of the queue's node, "": it has none, None: it has not answered, and `why` says why. `is_member`: a
    node has this address. `listed`: a ListDocument of all nodes."""

    batch: str | None
    why: str
    is_member: bool
    queues: tuple[str, ...] | None
    listed: Document


def heard(arguments: argparse.Namespace, found: Wanted) -> Heard:
    """What the queue's node and all servers say. Raises CommandError."""
    position = found.network.position_of(found.manager)
    told = _asked(arguments, f"/v1/machines?nodes={position}&")
    listed = _asked(arguments, "/v1/machines/servers?")
    if not told["states"]:
        causes = [each["text"] for each in told["missing"]]
        why = causes[0] if causes else "its answer cannot be read: it is of another release"
        is_member = all(each["cause"] != UNKNOWN for each in told["missing"])
        return Heard(None, printable(why), is_member, None, listed)
    batch = str(told["queues"][0]["batch"]) if told["queues"] else ""
    last = told["round"]
    queues = None if last is None or last["queues"] is None else tuple(last["queues"])
    return Heard(batch, "", is_member=True, queues=queues, listed=listed)


def _asked(arguments: argparse.Namespace, target: str) -> Document:
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    return ask(socket_path(arguments), f"{target}budget={budget_s:.3f}", arguments.timeout + DAEMON_GRACE_S)


def lacking(found: Wanted, said: Heard, names: Mapping[str, str]) -> Compared:
    """What nodes lack for the plan, the queue's node first."""
    faults, warnings = compared(found.plan, said.listed, said.queues, names)
    name = names.get(found.manager, found.manager)
    if said.batch is None:
        warnings = (f"whether {name} has a batch system is not known: {said.why}", *warnings)
    elif not said.batch:
        text = "set machines.batch in its configuration and restart its daemon and agent"
        faults = (f"{name} has no batch system: {text}, or name another node as manager", *faults)
    return Compared(faults, warnings)
