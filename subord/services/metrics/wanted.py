"""Which metrics the nodes of a cluster carry: names, and patterns of names.

Input is a plan, which an operator has signed as a document; output is whether a sample is carried, and in which order
of preference. Invariant: at most CARRIED_MAX samples of a node are carried, the same ones on equal nodes: those of
earlier patterns first, then in the order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from subord.services.metrics.kernel import Samples

CARRIED_MAX: Final = 40
"""Each takes five of the 256 fields of a report, and its quantiles most of the bytes."""
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
    "node_filesystem_avail_bytes*",
    "node_filesystem_size_bytes*",
    "node_network_receive_bytes_per_second",
    "node_network_transmit_bytes_per_second",
    "node_network_*_errs_per_second",
    "node_pressure_*_per_second",
    "node_hwmon_temp_celsius",
)
"""Without a plan."""
USUAL_GROUP: Final = "@usual"
"""In a plan: all of USUAL, as the release of each node has them. No name of a metric begins like that."""


def expanded(patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns of a plan, each once, with those of USUAL_GROUP in its place."""
    found = (name for each in patterns for name in (USUAL if each == USUAL_GROUP else (each,)))
    return tuple(dict.fromkeys(found))


def is_wanted(name: str, patterns: Sequence[str]) -> bool:
    """Whether a sample is carried, if there is room."""
    return any(fits(name, each) for each in patterns)


def fits(name: str, pattern: str) -> bool:
    """Patterns have `*`; brackets and question marks stand for themselves, as they do in labels."""
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


def chosen(samples: Samples, patterns: Sequence[str]) -> tuple[Samples, int]:
    """What a node carries, and how many wanted samples had no room."""
    found: dict[str, float] = {}
    for pattern in patterns:
        for name in sorted(samples):
            if name not in found and fits(name, pattern):
                found[name] = samples[name]
    kept = dict(list(found.items())[:CARRIED_MAX])
    return kept, len(found) - len(kept)
