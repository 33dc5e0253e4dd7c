"""`subord transfer setup` on a node with Slurm: lines of slurm.conf to print, and files of the transfer host.

Inputs are the plan and the configuration of this node, and options; outputs are text, or files. slurm.conf is left to
the administrator; whether slurmctld has what it needs is asked. Invariant: without --apply and --remove nothing is
changed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.text import printable
from subord.services.batch.adapter import environment_of
from subord.services.batch.records import Unavailable
from subord.services.batch.running import Commands
from subord.services.batch.slurm.adapter import ENVIRONMENT
from subord.services.transfer.cells.slurm.settings import CONFIGURATION, Settings, files, own_configuration

IN_FORCE: Final = "slurmctld has the partition {0} with the node {1}"
MISSING: Final = "slurmctld does not have the partition {0} with the node {1} in service: {2}"
ADD: Final = "add the lines of slurm.conf that `subord transfer setup` prints, and restart slurmctld"
START: Final = "start slurmd on {0}: slurmd -N {1} -f {2}"


def settings_of(arguments: argparse.Namespace, plan: Document, site: Document, program: tuple[str, ...]) -> Settings:
    environment = environment_of(site["batch_environment"])
    return Settings(
        host=arguments.host or os.uname().nodename,
        socket=site["socket"],
        program=(sys.executable, *program),
        partitions=tuple(each["name"] for each in plan["queues"]),
        slots=arguments.slots,
        folder=arguments.folder,
        configuration=environment.get("SLURM_CONF", CONFIGURATION),
    )


def written(own: Settings) -> bool:
    """Whether something was changed. Raises CommandError."""
    is_changed = False
    try:
        Path(own.folder).mkdir(parents=True, exist_ok=True)
        for path, (text, mode) in files(own).items():
            file = Path(path)
            if file.is_file() and file.read_text() == text and file.stat().st_mode & 0o777 == mode:
                continue
            new = file.with_suffix(".new")  # a starter may begin meanwhile
            new.write_text(text)
            new.chmod(mode)
            new.replace(file)
            is_changed = True
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{own.folder} cannot be written to: {error}", exit_codes.NOT_REACHED) from None
    return is_changed


def removed(own: Settings) -> bool:
    """Whether there was something. Raises CommandError."""
    found = [Path(each) for each in files(own) if Path(each).exists()]
    try:
        for each in found:
            with suppress(FileNotFoundError):
                each.unlink()
    except OSError as error:
        raise CommandError(f"{own.folder} cannot be written to: {error}", exit_codes.NOT_REACHED) from None
    return bool(found)


def in_force(own: Settings, site: Document) -> Iterator[str]:
    """A line for each partition: what slurmctld has."""
    commands = Commands(ENVIRONMENT | environment_of(site["batch_environment"]))
    for each in own.partitions:
        partition = _told(commands, "partition", each)
        if f"Nodes={own.node} " not in f"{partition} ":
            yield MISSING.format(each, own.node, ADD)
            continue
        node = re.search(r"\bState=(\S+)", _told(commands, "node", own.node))
        state = node[1] if node else "UNKNOWN"
        if re.search(r"DOWN|UNKNOWN|NOT_RESPONDING|INVAL|FAIL|\*", state):
            start = START.format(own.host, own.node, own_configuration(own))
            yield MISSING.format(each, own.node, f"its state is {printable(state)}: {start}")
        else:
            yield IN_FORCE.format(each, own.node)


def _told(commands: Commands, what: str, name: str) -> str:
    async def asked() -> str:
        ran = await commands.run("scontrol", "--oneliner", "show", what, name)
        return "" if isinstance(ran, Unavailable) or ran.code else ran.text

    return trio.run(asked)
