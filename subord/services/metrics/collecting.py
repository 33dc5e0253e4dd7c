"""Collects the samples of one node from all its sources, all within one limit of time.

Inputs are the kernel's files, file systems, sensors, pages of exporters, text files and programs; outputs are the
samples of this moment, counters as rates, and what is wrong with a source. Invariants: a source that hangs, or tells
nonsense, costs its own samples and no other; what two sources tell under one name is that of the first one in the
order above, in every round; what a source has told is never used again in a later round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from subord.client.text import printable
from subord.config.performance import place_of
from subord.runtime.jobs.fetching import file_text, page_text
from subord.services.metrics import reading
from subord.services.metrics.kernel import Samples
from subord.services.metrics.programs import PROGRAMS_MAX, Programs, demand_safe, programs_in
from subord.services.metrics.rates import APART_S_MAX, Counters, rated
from subord.services.metrics.rounds import SOURCE_S_MAX, Round, Threads, Wrong
from subord.services.metrics.texts import TextError, name_of, samples_of
from subord.services.metrics.wanted import CARRIED_MAX, Wanted

TEXTS_MAX: Final = 32
SAMPLES_MAX: Final = 4_096
"""Of all sources together."""
SOURCE_CHARS_MAX: Final = 100
MTIME: Final = "node_textfile_mtime_seconds"
KERNEL, FILE_SYSTEMS, SENSORS = "the kernel", "file systems", "sensors of the kernel"
BUILT_IN: Final = (KERNEL, FILE_SYSTEMS, SENSORS)
OF_PAGES, OF_TEXTS, OF_PROGRAMS = 10, 20, 30
"""Ranks of sources."""


class Sources(NamedTuple):
    """Beside the kernel: URLs on this machine, a directory of *.prom, and one of programs."""

    pages: tuple[str, ...] = ()
    texts: str = ""
    sensors: str = ""


class Sampled(NamedTuple):
    """What a node tells in one round. `left_out`: wanted samples without room."""

    samples: Samples
    wrong: list[Wrong]
    left_out: int = 0


class Collector:
    """The samples of one node, round by round. `patterns`: of names that are wanted, rates by their own names."""

    def __init__(self, sources: Sources, patterns: Sequence[str]) -> None:
        self._patterns: Sequence[str] = ()
        self.patterns = patterns
        self._sources = sources
        self._kernel = reading.Kernel()
        self._programs = Programs()
        self._threads = Threads()
        self._before: dict[str, Counters] = {}
        """The counters of each source."""
        self._said: dict[tuple[str, str], str] = {}
        """What was wrong in the last round."""

    @property
    def patterns(self) -> Sequence[str]:
        return self._patterns

    @patterns.setter
    def patterns(self, patterns: Sequence[str]) -> None:
        if patterns != self._patterns:
            self._patterns, self._wanted = patterns, Wanted(patterns)

    async def collect(self) -> Sampled:
        """Takes little more than SOURCE_S_MAX at most."""
        this = Round(trio.current_time() + SOURCE_S_MAX)
        await this.sample(0, KERNEL, self._read_kernel)
        async with trio.open_nursery() as nursery:
            if self._wanted.has_family("node_filesystem_avail_bytes"):
                nursery.start_soon(self._read, this, 1, FILE_SYSTEMS, reading.file_systems)
            if self._wanted.has_family("node_hwmon_temp_celsius") and reading.has_sensors():
                nursery.start_soon(self._read, this, 2, SENSORS, self._kernel.temperature)
            for at, url in enumerate(self._sources.pages, OF_PAGES):
                nursery.start_soon(self._read, this, at, url, partial(self._page, url))
            if self._sources.texts:
                nursery.start_soon(self._texts, this, self._sources.texts)
            if self._sources.sensors:
                nursery.start_soon(self._sensors, this, self._sources.sensors)
        kept, left_out = self._wanted.chosen(self._merged(this))
        if left_out:
            text = f"has no room for {left_out} metrics: a node carries {CARRIED_MAX}, with names of 64 characters"
            this.wrong.append(Wrong("the plan", "too_many", text))
        return Sampled(kept, self._steady(this.wrong), left_out)

    def _merged(self, this: Round) -> Samples:
        """The samples of all sources, counters as rates."""
        now = time.monotonic()
        self._before = {source: each for source, each in self._before.items() if now - each.at <= APART_S_MAX}
        found: dict[str, float] = {}
        owners: dict[str, str] = {}
        for told in sorted(this.told, key=lambda each: each[:2]):
            if len(found) + len(told.samples) > SAMPLES_MAX:
                text = f"is not used: the sources of this node have more than {SAMPLES_MAX} samples"
                this.wrong.append(Wrong(told.source, "too_large", text))
                continue
            samples, counters = rated(told.samples, self._before.get(told.source), told.at)
            if counters is not None:
                self._before[told.source] = counters
            twice = min((name for name in samples if owners.get(name, KERNEL) not in BUILT_IN), default="")
            if twice:
                text = f"has {twice} like {owners[twice]}, whose value is told"
                this.wrong.append(Wrong(told.source, "collides", text))
            for name in samples.keys() - found.keys():
                found[name], owners[name] = samples[name], told.source
        return found

    def _steady(self, wrong: list[Wrong]) -> list[Wrong]:
        """A source that fails in every round in another way is one problem, with the words of the first time. Names
        of files may have any characters."""
        self._said = {each[:2]: self._said.get(each[:2], each.text) for each in sorted(wrong)}
        return [
            Wrong(_shown(source)[:SOURCE_CHARS_MAX], reason, _shown(text))
            for (source, reason), text in self._said.items()
        ]

    # -- sources ------------------------------------------------------------------------------------------

    async def _read_kernel(self) -> Samples:
        """Without a thread: these files are made of what the kernel has in memory, so none of them hangs, and a
        thread would cost as much as reading them."""
        return self._kernel.read()

    async def _read(self, this: Round, rank: int, source: str, read: Callable[[], Samples]) -> None:
        await this.sample(rank, source, partial(self._threads.run, source, read))

    async def _texts(self, this: Round, directory: str) -> None:
        paths = await self._listed(this, directory, _texts_in, TEXTS_MAX)
        async with trio.open_nursery() as nursery:
            for path in paths:
                nursery.start_soon(self._read, this, OF_TEXTS, path, partial(self._text, path))

    async def _sensors(self, this: Round, directory: str) -> None:
        paths = await self._listed(this, directory, programs_in, PROGRAMS_MAX)
        async with trio.open_nursery() as nursery:
            for path in paths:
                nursery.start_soon(this.sample, OF_PROGRAMS, path, partial(self._program, path))

    async def _listed(self, this: Round, directory: str, files: Callable[[str], list[str]], most: int) -> list[str]:
        """The first files of a directory."""
        found = await this.take(directory, partial(self._threads.run, directory, partial(files, directory))) or []
        if len(found) > most:
            text = f"has {len(found)} files: only the first {most} are used"
            this.wrong.append(Wrong(directory, "too_many", text))
        return found[:most]

    def _samples(self, text: str) -> Samples:
        return samples_of(text, self._wanted.has_family, lambda name: self._wanted.place(name) is not None)

    def _page(self, url: str) -> Samples:
        place = place_of(url)
        if place is None:
            raise TextError("unreadable", "is no http address of this machine")
        return self._samples(page_text(place))

    def _text(self, path: str) -> Samples:
        """The time of the file shows whether something still writes it; a plan may want it."""
        found = dict(self._samples(file_text(path)))
        name = name_of(MTIME, [("file", os.path.basename(path))])
        if self._wanted.place(name) is not None:
            found[name] = os.stat(path).st_mtime
        return found

    async def _program(self, path: str) -> Samples:
        await self._threads.run(path, partial(demand_safe, path))
        text = await self._programs.page_of(path)
        return await self._threads.run(path, partial(self._samples, text))


def _shown(text: str) -> str:
    return printable(os.fsencode(text).decode("utf-8", "replace"))


def _texts_in(directory: str) -> list[str]:
    """The text files. Raises OSError."""
    with os.scandir(directory) as entries:
        return sorted(each.path for each in entries if each.name.endswith(".prom"))
