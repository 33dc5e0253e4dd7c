"""Runs the commands of a batch system, with limits of time and of output.

Inputs are the words of a command and its standard input; output is what it printed, or Unavailable with a sentence
that names whose fault it is. Invariants: nothing is raised for what a command does; a command whose time is over, or
that prints too much, leaves no process of its session, unless the kernel cannot end it; at most twice
OUTPUT_BYTES_MAX are kept of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Final, NamedTuple

import trio

from subord.services.batch.records import Fault, Unavailable
from subord.services.exec import session

RUN_S_MAX: Final = 20.0
OUTPUT_BYTES_MAX: Final = 64 << 20
"""Of Slurm about 18,000 jobs, whose controller has 10,000 by default; of Grid Engine about 100,000."""
ERRORS_BYTES_MAX: Final = 64 << 10
RUNS_MAX: Final = 4
"""Commands that run at once, so that a batch system that hangs does not collect processes."""
CLOSE_S: Final = 0.2
"""For output of processes that a command has left in the background."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT: Final = {"PATH": PATH, "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": "/"}
"""In UTC no hour comes twice. Both systems print the times of their own clock in the zone of the one that asks."""


UMASK: Final = 0o022
"""That of the agent is stricter; sbatch gives its own to the job."""


class Ran(NamedTuple):
    """A command that has ended by itself."""

    code: int
    """Negative: the signal that ended it."""
    output: bytes
    errors: str
    is_cut: bool = False
    """The begin of the output is missing."""

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    @property
    def words(self) -> str:
        """What it has complained of, in one line: some programs do so on standard output."""
        said = " ".join((self.errors or self.text[:1000]).split())
        return said[:300] or "it printed nothing"


class Commands:
    """`prefix`: words before each command, such as those of a program that runs it on another host."""

    def __init__(
        self,
        environment: Mapping[str, str],
        prefix: tuple[str, ...] = (),
        time_s: float = RUN_S_MAX,
        runs_max: int = RUNS_MAX,
    ) -> None:
        self._environment = ENVIRONMENT | dict(environment)
        self._prefix = prefix
        self._time_s = time_s
        self._running = trio.CapacityLimiter(runs_max)

    async def run(
        self,
        *words: str,
        given: bytes = b"",
        bytes_max: int = OUTPUT_BYTES_MAX,
        keeps_last: bool = False,
        source: int | None = None,
        sink: int | None = None,
    ) -> Ran | Unavailable:
        """`keeps_last`: of more than `bytes_max` the end is kept, otherwise such output is Unavailable. `source`,
        `sink`: descriptors in place of `given` and of the output that is kept; they stay open."""
        with trio.move_on_after(self._time_s) as limit:
            async with self._running:
                kept = Kept(bytes_max, keeps_last=keeps_last)
                ran = await self._ran(words, given, kept, source, sink)
        if limit.cancelled_caught:
            return Unavailable(
                Fault.SLOW,
                f"{words[0]} has not ended in {self._time_s:g} s, and was killed: the batch system is busy or hangs",
            )
        return ran

    async def _ran(
        self, words: tuple[str, ...], given: bytes, output: Kept, source: int | None, sink: int | None
    ) -> Ran | Unavailable:
        try:
            file = _file_of(given) if source is None else os.dup(source)
        except OSError as error:
            return _not_started(words[0], error)
        try:
            process = await trio.lowlevel.open_process(
                [*self._prefix, *words],
                stdin=file,
                stdout=subprocess.PIPE if sink is None else sink,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd="/",
                start_new_session=True,
                umask=UMASK,
            )
        except OSError as error:
            return _not_started(words[0], error)
        except ValueError:  # a zero byte, or half a character; its text would quote the word
            return Unavailable(
                Fault.FAILED,
                f"{words[0]} cannot be given its words, and was not started: one has a character that no word of a "
                "command can have",
            )
        finally:
            os.close(file)
        errors = Kept(ERRORS_BYTES_MAX, keeps_last=True)
        try:
            await _served(process, output, errors)
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)
        if output.is_full:
            return Unavailable(
                Fault.LARGE, f"{words[0]} printed more than {output.bytes_max} bytes, and was killed: too many jobs"
            )
        text = errors.value().decode("utf-8", "replace")
        return Ran(process.returncode or 0, output.value(), text, output.is_cut)


class Kept:
    """The bytes of one stream."""

    def __init__(self, bytes_max: int, *, keeps_last: bool) -> None:
        self.bytes_max = bytes_max
        self.is_full = self.is_cut = False
        self._keeps_last = keeps_last
        self._bytes = bytearray()

    def take(self, part: bytes | bytearray) -> bool:
        """False: no more is wanted."""
        self._bytes += part
        if len(self._bytes) <= self.bytes_max:
            return True
        if not self._keeps_last:
            self._bytes.clear()
            self.is_full = True
            return False
        self.is_cut = True
        if len(self._bytes) > 2 * self.bytes_max:  # not at each part: the rest has to be moved
            del self._bytes[: -self.bytes_max]
        return True

    @property
    def held(self) -> int:
        """Bytes in memory."""
        return len(self._bytes)

    def value(self) -> bytes:
        return bytes(self._bytes[-self.bytes_max :])


async def _served(process: trio.Process, output: Kept, errors: Kept) -> None:
    """Until it has ended, or prints too much."""
    assert process.stderr is not None
    async with trio.open_nursery() as nursery:
        if process.stdout is not None:
            nursery.start_soon(_read, process.stdout, output, nursery.cancel_scope)
        nursery.start_soon(_read, process.stderr, errors, nursery.cancel_scope)
        await process.wait()
        nursery.cancel_scope.deadline = trio.current_time() + CLOSE_S


async def _read(stream: trio.abc.ReceiveStream, kept: Kept, scope: trio.CancelScope) -> None:
    async with stream:
        async for part in stream:
            if not kept.take(part):
                scope.cancel()
                return


def _file_of(given: bytes) -> int:
    """A file in memory. qconf reads what it is given twice, which it cannot do from a pipe."""
    if not given:
        return os.open(os.devnull, os.O_RDONLY)
    file = os.memfd_create("given", os.MFD_CLOEXEC)
    os.write(file, given)
    os.lseek(file, 0, os.SEEK_SET)
    return file


async def _end(process: trio.Process) -> None:
    """The caller shields it."""
    if process.returncode is None:
        with trio.move_on_after(session.END_S_MAX):
            await session.end(process.pid)
            await process.wait()


def _not_started(program: str, error: OSError) -> Unavailable:
    if isinstance(error, FileNotFoundError):
        return Unavailable(
            Fault.MISSING,
            f"{program} is not on this node: install the commands of the batch system, or ask a node that has them",
        )
    detail = error.strerror or os.strerror(error.errno or 0)
    return Unavailable(Fault.MISSING, f"{program} cannot be started on this node: {detail}")
