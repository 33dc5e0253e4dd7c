"""Collects the samples of one node from all its sources, each within its own limit of time.

Inputs are the kernel's files, file systems, pages of exporters, text files and programs; outputs are the samples of
this moment, counters as rates, and what is wrong with a source. Invariants: a source that hangs, or tells nonsense,
costs its own samples and no other; what a source has told is never used again in a later round.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import trio

from subord.config.performance import place_of
from subord.runtime.jobs.fetching import file_text, page_text
from subord.runtime.jobs.readings import ReadingError
from subord.services.metrics import kernel, programs
from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import Counters, rated
from subord.services.metrics.texts import TextError, samples_of
from subord.services.metrics.wanted import chosen, is_wanted

SOURCE_S_MAX: Final = 3.0
TEXTS_MAX: Final = 32
SENSORS: Final = "/sys/class/hwmon/*/temp*_input"
MOUNTS: Final = "/proc/self/mounts"
LOCAL: Final = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay")
"""File systems that cannot hang on a server."""
MOUNTS_MAX: Final = 8
_threads: Final = trio.CapacityLimiter(8)
Found = TypeVar("Found")
Reader = Callable[[], Awaitable[Samples]]


class Sources(NamedTuple):
    """Beside the kernel: URLs on this machine, a directory of *.prom, and one of programs."""

    pages: tuple[str, ...] = ()
    texts: str = ""
    sensors: str = ""


class Wrong(NamedTuple):
    """A source that gave nothing. `reason` is a label of metrics."""

    source: str
    reason: str
    text: str


class Sampled(NamedTuple):
    """What a node tells in one round. `left_out`: wanted samples without room."""

    samples: Samples
    wrong: list[Wrong]
    left_out: int = 0


class Collector:
    """The samples of one node, round by round. `patterns`: of names that are wanted, rates by their own names."""

    def __init__(self, sources: Sources, patterns: Sequence[str]) -> None:
        self.patterns = patterns
        self._sources = sources
        self._before: Counters | None = None

    async def collect(self) -> Sampled:
        """Takes SOURCE_S_MAX at most."""
        found: dict[str, float] = {}
        wrong: list[Wrong] = []

        async def take(name: str, read: Reader) -> None:
            try:
                with trio.fail_after(SOURCE_S_MAX):
                    samples = await read()
            except trio.TooSlowError:
                wrong.append(Wrong(name, "slow", f"is not read within {SOURCE_S_MAX:g} s"))
            except (TextError, ReadingError) as error:
                wrong.append(Wrong(name, error.reason, str(error)))
            except OSError as error:
                wrong.append(Wrong(name, "unreadable", f"cannot be read: {error.strerror}"))
            else:
                found.update({each: value for each, value in samples.items() if each not in found})

        async with trio.open_nursery() as nursery:
            for name, read in await self._readers(wrong):
                nursery.start_soon(take, name, read)
        samples, self._before = rated(found, self._before, trio.current_time())
        kept, left_out = chosen(samples, self.patterns)
        return Sampled(kept, sorted(wrong), left_out)

    async def _readers(self, wrong: list[Wrong]) -> list[tuple[str, Reader]]:
        """Each source with what reads it."""
        texts = await self._listed(self._sources.texts, _texts_in, wrong)
        sensors = await self._listed(self._sources.sensors, programs.programs_in, wrong)
        return [
            ("the kernel", partial(_in_thread, _kernel)),
            ("file systems", partial(_in_thread, _file_systems)),
            *((url, partial(_in_thread, self._page, url)) for url in self._sources.pages),
            *((path, partial(_in_thread, self._text, path)) for path in texts),
            *((path, partial(self._program, path)) for path in sensors),
        ]

    @staticmethod
    async def _listed(directory: str, files: Callable[[str], list[str]], wrong: list[Wrong]) -> list[str]:
        try:
            return await _in_thread(files, directory) if directory else []
        except OSError as error:
            wrong.append(Wrong(directory, "unreadable", f"cannot be read: {error.strerror}"))
            return []

    def _wants(self, name: str) -> bool:
        """By the name without labels: patterns may name labels, and rates instead of counters."""
        patterns = [each.partition("{")[0] for each in self.patterns]
        return is_wanted(name, patterns) or is_wanted(name.removesuffix("_total") + "_per_second", patterns)

    def _page(self, url: str) -> Samples:
        place = place_of(url)
        if place is None:
            raise TextError("unreadable", "is no http address of this machine")
        return samples_of(page_text(place), self._wants)

    def _text(self, path: str) -> Samples:
        return samples_of(file_text(path), self._wants)

    async def _program(self, path: str) -> Samples:
        return samples_of(await programs.page_of(path), self._wants)


async def _in_thread(read: Callable[..., Found], *words: object) -> Found:
    """A thread cannot be ended: one that hangs keeps its place among the eight."""
    return await trio.to_thread.run_sync(read, *words, abandon_on_cancel=True, limiter=_threads)


def _kernel() -> Samples:
    """All files of the kernel; blocks. Raises OSError if one that every kernel has cannot be read."""
    found: dict[str, float] = {}
    for each in kernel.FILES:
        try:
            with open(each.path, encoding="utf-8") as file:
                found.update(each.parse(file.read()))
        except OSError:
            if not each.is_optional:
                raise
    texts = []
    for path in sorted(glob.glob(SENSORS))[:TEXTS_MAX]:
        try:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        except OSError:
            continue  # a sensor that is asleep has no value
    return {**found, **kernel.temperature(texts), "node_time_seconds": time.time()}


def _file_systems() -> Samples:
    """The first local file systems, each once; blocks."""
    found: dict[str, float] = {}
    devices = set[str]()
    with open(MOUNTS, encoding="utf-8") as file:
        for line in file:
            device, place, kind, *_ = line.split()
            if kind not in LOCAL or device in devices or "\\" in place or len(devices) == MOUNTS_MAX:
                continue
            devices.add(device)
            status = os.statvfs(place)
            found[f'node_filesystem_size_bytes{{mountpoint="{place}"}}'] = float(status.f_blocks * status.f_frsize)
            found[f'node_filesystem_avail_bytes{{mountpoint="{place}"}}'] = float(status.f_bavail * status.f_frsize)
    return found


def _texts_in(directory: str) -> list[str]:
    """The first TEXTS_MAX text files. Raises OSError."""
    with os.scandir(directory) as entries:
        return sorted(each.path for each in entries if each.name.endswith(".prom"))[:TEXTS_MAX]
