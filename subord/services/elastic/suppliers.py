"""Suppliers of nodes: what starts, ends and lists them, by the commands of the configuration.

Inputs are names and kinds of nodes; outputs are addresses, or the reason why there is none. Invariants: nothing is
raised for what a command does; at most RUNS_MAX run at once, each for a limited time in a session of its own, of
which no process is left; a command that other users can change is not run.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import trio

from subord.config.schema import ElasticConfig
from subord.services.batch.records import Fault, Unavailable
from subord.services.batch.running import PATH, Commands, Ran
from subord.services.metrics.programs import demand_safe
from subord.services.metrics.texts import TextError

RUNS_MAX: Final = 8
LIST_S_MAX: Final = 30.0
"""A poll waits for it."""
OUTPUT_BYTES_MAX: Final = 1 << 20
NODES_MAX: Final = 10_000
WORD_CHARS_MAX: Final = 100


class Started(NamedTuple):
    address: str


class Failed(NamedTuple):
    """`reason`: whose fault it is, what is unchanged, what to do."""

    reason: str


class Supplier(Protocol):
    async def start(self, name: str, kind: str) -> Started | Failed:
        """Of a name that is started already no second node is, and the address is that of the first."""

    async def stop(self, name: str) -> Failed | None:
        """The node is ended for good. Without effect if there is no such node."""

    async def list(self) -> Mapping[str, str] | Failed | None:
        """Addresses by name of the nodes that exist; None: this supplier does not tell."""


class CommandSupplier:
    """The commands elastic.start, elastic.stop and elastic.list."""

    def __init__(self, config: ElasticConfig) -> None:
        self._config = config
        self._commands = Commands({}, time_s=config.wait_s, runs_max=RUNS_MAX)
        self._looks = Commands({}, time_s=min(config.wait_s, LIST_S_MAX))
        self._turn = trio.CapacityLimiter(RUNS_MAX)

    async def start(self, name: str, kind: str) -> Started | Failed:
        words = (*self._config.start, name, *((kind,) if kind else ()))
        ran = await self._run("start", self._config.start, words)
        if isinstance(ran, Failed):
            return ran
        last = ran.text.rstrip().rpartition("\n")[2].strip()
        address = address_of(last)
        if address is None:
            return Failed(
                f"elastic.start for {name} printed {_quoted(last)} in its last line, which is no address; it is run "
                "again: correct the command so that its last line is the address of the node"
            )
        return Started(address)

    async def stop(self, name: str) -> Failed | None:
        ran = await self._run("stop", self._config.stop, (*self._config.stop, name))
        return ran if isinstance(ran, Failed) else None

    async def list(self) -> Mapping[str, str] | Failed | None:
        if not self._config.list:
            return None
        ran = await self._run("list", self._config.list, self._config.list)
        return ran if isinstance(ran, Failed) else listed(ran.text)

    async def _run(self, setting: str, command: tuple[str, ...], words: tuple[str, ...]) -> Ran | Failed:
        """Of a command that has ended with 0."""
        if not command:
            return Failed(f"elastic.{setting} is not set; nothing was done: set it in the configuration of this node")
        async with self._turn:
            wrong = await trio.to_thread.run_sync(unsafe, command, abandon_on_cancel=True)
            if wrong:
                return Failed(f"elastic.{setting} is not run: {wrong}")
            commands = self._looks if setting == "list" else self._commands
            ran = await commands.run(*words, bytes_max=OUTPUT_BYTES_MAX, keeps_last=setting != "list")
        if isinstance(ran, Unavailable):
            return Failed(f"elastic.{setting}: {self._unavailable(ran, setting, command[0])}")
        if ran.code != 0:
            how = f"ended with {ran.code}" if ran.code > 0 else f"was ended by signal {-ran.code}"
            return Failed(f"elastic.{setting} {how}: {ran.words}")
        return ran

    def _unavailable(self, ran: Unavailable, setting: str, program: str) -> str:
        """Words of the runner are about a batch system."""
        match ran.fault:
            case Fault.SLOW:
                limit = min(self._config.wait_s, LIST_S_MAX) if setting == "list" else self._config.wait_s
                return f"{program} has not ended in {limit:g} s, and was killed; it is run again"
            case Fault.LARGE:
                return f"{program} printed more than {OUTPUT_BYTES_MAX} bytes, and was killed"
        return f"{program} cannot be started on this node: correct the configuration, or install it"


def listed(text: str) -> dict[str, str] | Failed:
    """The answer of elastic.list. Pure."""
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, _, text = line.strip().partition(" ")
        address = address_of(text.strip())
        if address is None:
            return Failed(
                f"elastic.list printed {_quoted(line)}; its answer is left out: correct the command so that each "
                "line is a name and an address"
            )
        found[name] = address
        if len(found) > NODES_MAX:
            return Failed(f"elastic.list printed more than {NODES_MAX} nodes; its answer is left out")
    return found


def address_of(text: str) -> str | None:
    """As it is written everywhere else, so that equal ones are equal; None: it is none by which nodes reach it."""
    try:
        return None if "%" in text else str(ipaddress.ip_address(text))
    except ValueError:
        return None


def unsafe(command: Sequence[str]) -> str:
    """Why a command is not to be run: other users can change its program, or a file among its words; "": they cannot.
    Blocks."""
    program = command[0] if "/" in command[0] else shutil.which(command[0], path=PATH) or command[0]
    for path in (program, *(word for word in command[1:] if word.startswith("/") and os.path.exists(word))):
        if not path.startswith("/"):
            return f"{path} was not found in {PATH}: write its whole path"
        try:
            demand_safe(path)
        except TextError as error:
            return f"{path} {error}; correct its owner and mode, and those of the directories above it"
    return ""


def _quoted(text: str) -> str:
    return repr(text[:WORD_CHARS_MAX])
