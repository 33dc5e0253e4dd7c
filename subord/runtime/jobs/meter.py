"""Measures the performance of this node in jobs an hour, from the one source that the operator chose.

In: a fixed number, a file or page read at intervals, or reports by `subord job-done`. Out: the number, whenever it
changes. While the source cannot be read, the number stays; each reason is logged once in WARN_AGAIN_S.
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
from subord.runtime.jobs.rates import Rate, Reading, SampledRate
from subord.runtime.jobs.readings import ReadingError, counter_of, metric_of

logger = logging.getLogger("subord")

WEIGHT_MAX = 1e6
INTERVAL_S_MAX = 10.0
INTERVAL_HALF_LIVES = 0.05
WARN_AGAIN_S = 3600.0


class Source(NamedTuple):
    """The keys of the configuration that determine the number."""

    fixed: float
    file: str
    url: str
    metric: str
    half_life_s: float

    @classmethod
    def of(cls, config: NodeConfig) -> Source:
        return cls(
            config.performance,
            config.performance_file,
            config.performance_url,
            config.performance_metric,
            config.performance_half_life_s,
        )

    @property
    def key(self) -> str:
        """The key of the source; empty: jobs are reported by `subord job-done`."""
        keys = {"performance": self.fixed, "performance_file": self.file, "performance_url": self.url}
        return next((f"node.{key}" for key, value in keys.items() if value), "")

    def read(self) -> Reading:
        """Read the source. Blocks. Raises ReadingError."""
        place, wanted = place_of(self.url), selector_of(self.metric)
        text = file_text(self.file) if place is None else page_text(place)
        return counter_of(text) if wanted is None else metric_of(text, wanted)


class PerformanceMeter:
    """The meter of one daemon. `tell` receives the number, in jobs an hour and above 0, whenever it changes."""

    def __init__(
        self,
        config: NodeConfig,
        counters: Counters,
        tell: Callable[[float], None],
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self.jobs_per_hour: float | None = None
        """The last number; None: not known yet."""
        self._counters = counters
        self._tell = tell
        self._clock = clock
        self._changed = trio.Event()
        self._threads = trio.CapacityLimiter(1)  # no second read starts while one hangs
        self._warned: dict[str, float] = {}  # time by reason
        self._source: Source
        self._reported: Rate
        self._sampled: SampledRate | None
        self._begin(Source.of(config))

    def replace(self, config: NodeConfig) -> None:
        """Use the source of `config` from now on (SIGHUP). The last number stays until there is a new one."""
        source = Source.of(config)
        if source != self._source:
            self._begin(source)
            self._changed.set()
            self.tell_fixed()

    def tell_fixed(self) -> None:
        """Report a fixed number at once, before the node looks for a place."""
        if self._source.fixed:
            self._report(self._source.fixed)

    def job_done(self, weight: float) -> str | None:
        """Count a completed job; the error in one sentence, or None."""
        if not 0 < weight <= WEIGHT_MAX:
            return f"a weight must be above 0 and at most {WEIGHT_MAX:g}: nothing was counted"
        if self._source.key:
            return f"the performance of this node comes from {self._source.key}: nothing was counted"
        self._counters.jobs_done += weight
        self._reported = self._reported.after_job(weight, self._clock())
        return None

    async def measure_forever(self) -> NoReturn:
        """Update the number at intervals, from the source or from the reported jobs."""
        while True:
            self._changed = trio.Event()
            if self._source.fixed:
                await self._changed.wait()
                continue
            await self.look()
            with trio.move_on_after(min(INTERVAL_S_MAX, INTERVAL_HALF_LIVES * self._source.half_life_s)):
                await self._changed.wait()

    def _begin(self, source: Source) -> None:
        self._source = source
        self._reported = Rate.begun(source.half_life_s, self._clock())
        self._sampled = None
        self._warned.clear()

    async def look(self) -> None:
        """Update the number once."""
        if not self._source.key:
            self._reported = self._reported.after_steady(0, self._clock())
            self._report(self._reported.per_hour)
            return
        source = self._source
        reading = await self._read(source)
        if source is not self._source:
            return  # it was replaced during the read
        if isinstance(reading, ReadingError):
            self._warn(reading)
            return
        now = self._clock()
        if self._sampled is None:
            self._sampled = SampledRate.begun(source.half_life_s, reading, now)
        else:
            self._sampled = self._sampled.after(reading, now)
        self._report(self._sampled.rate.per_hour)

    async def _read(self, source: Source) -> Reading | ReadingError:
        """Read in a thread, after an earlier read has returned."""
        with trio.move_on_after(2 * FETCH_S_MAX):
            try:
                return await trio.to_thread.run_sync(source.read, abandon_on_cancel=True, limiter=self._threads)
            except ReadingError as error:
                return error
        return ReadingError("slow", f"is not read within {2 * FETCH_S_MAX:g} s")

    def _report(self, jobs_per_hour: float | None) -> None:
        if jobs_per_hour is not None and jobs_per_hour != self.jobs_per_hour:
            self.jobs_per_hour = jobs_per_hour
            self._tell(jobs_per_hour)

    def _warn(self, error: ReadingError) -> None:
        self._counters.readings_failed[error.reason] += 1
        self._counters.problems.note("performance", f"its jobs cannot be counted: {error.reason}")
        now = self._clock()
        if now - self._warned.get(error.reason, -WARN_AGAIN_S) >= WARN_AGAIN_S:
            self._warned[error.reason] = now
            source = self._source
            stays = "unknown" if self.jobs_per_hour is None else f"{self.jobs_per_hour:.3g} jobs an hour"
            words = "%s %s; the performance stays %s: correct %s or its contents"
            logger.warning(words, source.file or source.url, error, stays, source.key)
