"""This node's performance: jobs completed an hour, from the one source that the operator chose.

Intuition: the foreman's slate. Either people call out each finished piece, or he looks at a meter now and then, or
the owner has chalked a figure on it once and for all. What stands there is told to the office as it changes; when
the meter cannot be read the figure stays, and he grumbles about it once an hour, not at every round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import trio

from subord.config.performance import place_of, selector_of
from subord.config.schema import NodeConfig
from subord.runtime.counters import Counters
from subord.runtime.jobs.fetching import FETCH_S_MAX, file_text, page_text
from subord.runtime.jobs.rates import Followed, Rate, Reading
from subord.runtime.jobs.readings import ReadingError, counter_of, metric_of

logger = logging.getLogger("subord")

WEIGHT_MAX = 1e6
PAUSE_S_MAX = 10.0
PAUSE_HALF_LIVES = 0.05
COMPLAIN_AGAIN_S = 3600.0


class Source(NamedTuple):
    """What of the configuration decides about the number."""

    fixed: float
    file: str
    url: str
    metric: str
    half_life_s: float

    @classmethod
    def of(cls, given: NodeConfig) -> Source:
        return cls(
            given.performance,
            given.performance_file,
            given.performance_url,
            given.performance_metric,
            given.performance_half_life_s,
        )

    @property
    def key(self) -> str:
        """The key that names it; empty: jobs are reported."""
        keys = {"performance": self.fixed, "performance_file": self.file, "performance_url": self.url}
        return next((f"node.{key}" for key, value in keys.items() if value), "")

    def read(self) -> Reading:
        """It blocks. Raises ReadingError."""
        place, wanted = place_of(self.url), selector_of(self.metric)
        text = file_text(self.file) if place is None else page_text(place)
        return counter_of(text) if wanted is None else metric_of(text, wanted)


class PerformanceMeter:
    """One per daemon. `tell` takes the number, in jobs an hour and above 0, whenever it changed."""

    def __init__(
        self,
        given: NodeConfig,
        counters: Counters,
        tell: Callable[[float], None],
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self.jobs_per_hour: float | None = None
        """As last told; None: nothing is known yet."""
        self._counters = counters
        self._tell = tell
        self._clock = clock
        self._changed = trio.Event()
        self._threads = trio.CapacityLimiter(1)  # one that hangs keeps its place until it comes back
        self._complained: dict[str, float] = {}  # when, by reason
        self._source: Source
        self._reported: Rate
        self._followed: Followed | None
        self._begin(Source.of(given))

    def replace(self, given: NodeConfig) -> None:
        """Measure so from now on (SIGHUP). What was told stands until there is something new to tell."""
        source = Source.of(given)
        if source != self._source:
            self._begin(source)
            self._changed.set()
            self.tell_fixed()

    def tell_fixed(self) -> None:
        """A number that the operator gives needs no measuring: it can be told before the node looks for a place."""
        if self._source.fixed:
            self._say(self._source.fixed)

    def job_done(self, weight: float) -> str | None:
        """A job was completed here. What is wrong, in one sentence; None: it was counted."""
        if not 0 < weight <= WEIGHT_MAX:
            return f"a weight must be above 0 and at most {WEIGHT_MAX:g}: nothing was counted"
        if self._source.key:
            return f"the performance of this node comes from {self._source.key}: nothing was counted"
        self._counters.jobs_done += weight
        self._reported = self._reported.after_job(weight, self._clock())
        return None

    async def measure_forever(self) -> NoReturn:
        """Look again and again, at the source or at how long ago jobs were reported."""
        while True:
            self._changed = trio.Event()
            if self._source.fixed:
                await self._changed.wait()
                continue
            await self.look()
            with trio.move_on_after(min(PAUSE_S_MAX, PAUSE_HALF_LIVES * self._source.half_life_s)):
                await self._changed.wait()

    def _begin(self, source: Source) -> None:
        self._source = source
        self._reported = Rate.begun(source.half_life_s, self._clock())
        self._followed = None
        self._complained.clear()

    async def look(self) -> None:
        """Once, and tell what changed."""
        if not self._source.key:
            self._reported = self._reported.after_steady(0, self._clock())
            self._say(self._reported.per_hour)
            return
        source = self._source
        reading = await self._read(source)
        if source is not self._source:
            return  # another one was chosen meanwhile
        if isinstance(reading, ReadingError):
            self._complain(reading)
            return
        now = self._clock()
        if self._followed is None:
            self._followed = Followed.begun(source.half_life_s, reading, now)
        else:
            self._followed = self._followed.after(reading, now)
        self._say(self._followed.rate.per_hour)

    async def _read(self, source: Source) -> Reading | ReadingError:
        """In a thread, and the one before must have come back."""
        with trio.move_on_after(2 * FETCH_S_MAX):
            try:
                return await trio.to_thread.run_sync(source.read, abandon_on_cancel=True, limiter=self._threads)
            except ReadingError as error:
                return error
        return ReadingError("slow", f"is not read within {2 * FETCH_S_MAX:g} s")

    def _say(self, jobs_per_hour: float | None) -> None:
        if jobs_per_hour is not None and jobs_per_hour != self.jobs_per_hour:
            self.jobs_per_hour = jobs_per_hour
            self._tell(jobs_per_hour)

    def _complain(self, error: ReadingError) -> None:
        self._counters.readings_failed[error.reason] += 1
        self._counters.lately.note("performance", f"its jobs cannot be counted: {error.reason}")
        now = self._clock()
        if now - self._complained.get(error.reason, -COMPLAIN_AGAIN_S) >= COMPLAIN_AGAIN_S:
            self._complained[error.reason] = now
            source = self._source
            stays = "unknown" if self.jobs_per_hour is None else f"{self.jobs_per_hour:.3g} jobs an hour"
            words = "%s %s; the performance stays %s: correct %s, or what writes there"
            logger.warning(words, source.file or source.url, error, stays, source.key)
