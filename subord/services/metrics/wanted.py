"""Which metrics the nodes of a cluster carry: names, and patterns of names.

Input is a plan, which an operator has signed as a document; output is whether a sample is carried, and in which order
of preference. Invariant: at most CARRIED_MAX samples of a node are carried, the same ones on equal nodes: those of
earlier patterns first, then in the order of the alphabet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Final

from subord.core.carriage.reports.bounds import NAME_CHARS_MAX
from subord.services.metrics.kernel import Samples
from subord.services.metrics.rates import COUNTER, RATE

CARRIED_MAX: Final = 40
"""Each is one of the 256 fields of a report, and its quantiles take most of the bytes."""
USUAL: Final = (
    "node_load1",
    "node_cpus",
    'node_cpu_seconds_per_second{mode="idle"}',
    'node_cpu_seconds_per_second{mode="iowait"}',
    "node_memory_MemTotal_bytes",
    "node_memory_MemAvailable_bytes",
    "node_memory_SwapFree_bytes",
    "node_disk_read_bytes_per_second",
    "node_disk_written_bytes_per_second",
    "node_filesystem_avail_bytes{mountpoint=*",
    "node_filesystem_size_bytes{mountpoint=*",
    "node_network_receive_bytes_per_second",
    "node_network_transmit_bytes_per_second",
    "node_network_*_errs_per_second",
    "node_pressure_*_per_second",
    "node_hwmon_temp_celsius",
)
"""Without a plan. Of file systems those that a node reads itself: node_exporter puts the device before the mount
point, and would tell the same ones again, with names that have no room."""
PLACES_MAX: Final = 8_192
USUAL_GROUP: Final = "@usual"
"""In a plan: all of USUAL, as the release of each node has them. No name of a metric begins like that."""


def expanded(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns of a plan, each once, with those of USUAL_GROUP in its place."""
    found = (name for each in patterns for name in (USUAL if each == USUAL_GROUP else (each,)))
    return tuple(dict.fromkeys(found))


class Wanted:
    """The patterns of a plan. What was found for a name is kept, because the same names come in every round."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_compiled(each) for each in patterns]
        self._families = [_compiled(each) for each in dict.fromkeys(each.partition("{")[0] for each in patterns)]
        self._places: dict[str, int | None] = {}
        self._wanted: dict[str, bool] = {}

    def has_family(self, name: str) -> bool:
        """By the name without labels: patterns may name labels, and rates instead of counters."""
        if name not in self._wanted:
            _bound(self._wanted)
            names = name, name.removesuffix(COUNTER) + RATE
            self._wanted[name] = any(each.fullmatch(one) for one in names for each in self._families)
        return self._wanted[name]

    def place(self, name: str) -> int | None:
        """Of the first pattern that a sample fits; None: it is not wanted."""
        if name not in self._places:
            _bound(self._places)
            found = (at for at, each in enumerate(self._patterns) if each.fullmatch(name))
            self._places[name] = next(found, None)
        return self._places[name]

    def chosen(self, samples: Samples) -> tuple[Samples, int]:
        """What a node carries, and how many wanted samples had no room, or have a name that is too long."""
        places = [(place, name) for name in samples if (place := self.place(name)) is not None]
        kept = sorted(each for each in places if len(each[1]) <= NAME_CHARS_MAX)[:CARRIED_MAX]
        return {name: samples[name] for _, name in kept}, len(places) - len(kept)


def fits(name: str, pattern: str) -> bool:
    """Patterns have `*`; all other characters stand for themselves."""
    return _compiled(pattern).fullmatch(name) is not None


def chosen(samples: Samples, patterns: Sequence[str]) -> tuple[Samples, int]:
    """What a node carries by these patterns, and how many wanted samples had no room."""
    return Wanted(patterns).chosen(samples)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """`translate` makes an expression that does not go back over several `*`."""
    return re.compile(translate(re.sub(r"([\[?])", r"[\1]", pattern)))


def _bound(found: dict[str, int | None] | dict[str, bool]) -> None:
    if len(found) >= PLACES_MAX:
        found.clear()
