"""One round of reading: what each source has told until its end, and what was wrong.

Input is what reads a source; outputs are samples with the time at which they were read, and failures. Invariants: all
of a round ends at one time; a source that hangs has one thread, and none is started for it until that one has ended,
so it takes no thread from others.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final, NamedTuple, TypeVar

import trio

from subord.runtime.jobs.readings import ReadingError
from subord.services.metrics.kernel import Samples
from subord.services.metrics.texts import TextError

SOURCE_S_MAX: Final = 3.0
THREADS_MAX: Final = 8
SLOW: Final = f"is not read within {SOURCE_S_MAX:g} s"
_unbounded: Final = trio.CapacityLimiter(inf)
Found = TypeVar("Found")


class Wrong(NamedTuple):
    """A source that gave nothing, or not all. `reason` is a label of metrics."""

    source: str
    reason: str
    text: str


class Told(NamedTuple):
    """Of two sources with one name, that with the lower rank has it. `at`: by the monotonic clock."""

    rank: int
    source: str
    at: float
    samples: Samples


class Round:
    """`until`: by the clock of trio."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.told: list[Told] = []
        self.wrong: list[Wrong] = []

    async def take(self, source: str, read: Callable[[], Awaitable[Found]]) -> Found | None:
        """What a source has; None: the reason is among `wrong`."""
        try:
            with trio.fail_at(self.until):
                return await read()
        except trio.TooSlowError:
            self.wrong.append(Wrong(source, "slow", SLOW))
        except (TextError, ReadingError) as error:
            self.wrong.append(Wrong(source, error.reason, str(error)))
        except OSError as error:
            self.wrong.append(Wrong(source, "unreadable", f"cannot be read: {error.strerror}"))
        return None

    async def sample(self, rank: int, source: str, read: Callable[[], Awaitable[Samples]]) -> None:
        """The samples of one source."""
        samples = await self.take(source, read)
        if samples is not None:
            self.told.append(Told(rank, source, time.monotonic(), samples))


class Threads:
    """The threads of one node: THREADS_MAX at once, and those that hang."""

    def __init__(self) -> None:
        self._turns = trio.Semaphore(THREADS_MAX)
        self._under_way = set[str]()

    async def run(self, source: str, read: Callable[[], Found]) -> Found:
        """Run what blocks. Raises TextError when a thread of this source still runs: it cannot be ended."""
        if source in self._under_way:
            raise TextError("slow", SLOW)
        has_begun = False

        def run() -> Found:
            nonlocal has_begun
            has_begun = True
            try:
                return read()
            finally:
                self._under_way.discard(source)

        async with self._turns:
            self._under_way.add(source)
            try:
                return await trio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=_unbounded)
            finally:
                if not has_begun:
                    self._under_way.discard(source)
