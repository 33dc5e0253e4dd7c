"""What preparing touches of a machine: its commands, its programs, its /proc, and the rights of the agent there.

Inputs are words of commands; outputs are what they printed. Invariants: a command has a session of its own and limits
of time and of output (services/batch/running.py); what a function of `in_thread` waits for, such as a file system of
the network that does not answer, holds up a thread only.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import trio

from subord.services.batch.records import Fault, Unavailable
from subord.services.batch.running import PATH, Commands, Ran
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.rights import Need, lacking

LIMIT_S: Final = 20.0
FILE_S_MAX: Final = 10.0
OUTPUT_BYTES_MAX: Final = 16 << 20
"""Of `exportfs -s` with 10,000 nodes and several directories."""
NFS: Final = frozenset({"nfs", "nfs4"})
_THREADS: Final = trio.CapacityLimiter(8)
"""Of their own: those that a dead server holds up are none of the agent's others."""
_Result = TypeVar("_Result")


class Run(Protocol):
    def __call__(
        self, *words: str, limit_s: float = LIMIT_S, environment: Sequence[str] | None = None
    ) -> Awaitable[Ran]:
        """`environment`: NAME=VALUE, all that the command gets besides a path; None: what the commands of batch
        systems get. Raises PreparingError: it has not ended by itself."""


async def run(*words: str, limit_s: float = LIMIT_S, environment: Sequence[str] | None = None) -> Ran:
    """Raises PreparingError."""
    prefix = () if environment is None else ("env", "-i", f"PATH={PATH}", "LANG=C.UTF-8", "HOME=/", *environment)
    ran = await Commands({}, prefix, limit_s).run(*words, bytes_max=OUTPUT_BYTES_MAX)
    if not isinstance(ran, Unavailable):
        return ran
    if ran.fault is Fault.SLOW:
        raise PreparingError(f"{words[0]} has not ended in {limit_s:g} s on this node, and was killed")
    if ran.fault is Fault.LARGE:
        raise PreparingError(f"{words[0]} prints more than {OUTPUT_BYTES_MAX} bytes on this node, and was killed")
    raise PreparingError(f"{words[0]} is not on this node, or cannot be started there")


def find(program: str) -> str | None:
    """Its path."""
    return shutil.which(program, path=PATH)


class Machine(NamedTuple):
    """`nfs`: the types of file systems that count as mounts of NFS. `lacks`: why the agent may not do something."""

    run: Run = run
    find: Callable[[str], str | None] = find
    lacks: Callable[[Iterable[Need]], str] = lacking
    proc: str = "/proc"
    nfs: frozenset[str] = NFS

    async def read(self, name: str) -> str:
        """A file of /proc; "": there is none."""

        def text() -> str:
            try:
                with open(f"{self.proc}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                    return file.read()
            except OSError:
                return ""

        return await trio.to_thread.run_sync(text)

    def demand(self, *needs: Need) -> None:
        """Raises PreparingError."""
        if fault := self.lacks(needs):
            raise PreparingError(fault)

    def demand_program(self, program: str, packages: str) -> None:
        """Raises PreparingError."""
        if self.find(program) is None:
            raise PreparingError(f"{program} is not on this node; nothing was changed: install {packages}")


REAL: Final = Machine()


class Turn:
    """Works that are carried out one after the other, in the order in which they begin."""

    def __init__(self, name: str) -> None:
        self._lock: trio.lowlevel.RunVar[trio.Lock] = trio.lowlevel.RunVar(name)
        """Of each run of trio: the module lives longer."""

    def lock(self) -> trio.Lock:
        try:
            return self._lock.get()
        except LookupError:
            self._lock.set(trio.Lock())
            return self._lock.get()


async def in_thread(work: Callable[[], _Result], what: str) -> _Result:
    """Raises PreparingError if it takes too long; then the thread is left to itself."""
    with trio.move_on_after(FILE_S_MAX):
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_THREADS)
    raise PreparingError(f"{what} does not answer in {FILE_S_MAX:g} s: is it on a file system whose server is gone")
