"""The bounds of reports and their times; times are seconds unless the name says otherwise."""

from __future__ import annotations

from typing import Final

COUNT_MAX: Final = 1 << 53
"""Of every number in a report. Sums of what others say stay at it, so that a lie does not make a fold unreadable."""
NAME_CHARS_MAX: Final = 64
"""Of a field."""
FIELDS_MAX: Final = 256
"""Of a record; further ones, in the order of their names, are left out."""
RECORD_BYTES_MAX: Final = 28_000
"""The fields of a record; a fold with its coverage fits a result of an order."""
SERVICES_MAX: Final = 32
"""With reports, at one node."""
HELD_BYTES_MAX: Final = 32 << 20
"""Records of subordinates that a node holds."""
CAUSES_MAX: Final = 8
"""Different causes in one coverage; nodes with others count as `no report`."""
NAMED_BYTES_MAX: Final = 300
"""Ranges of the nodes with one cause; `count` counts all."""

INTERVAL_S_MIN: Final = 0.5
INTERVAL_S_MAX: Final = 3600.0
EARLY_S: Final = 0.25
"""Between two reports when the coverage changes."""
EARLIEST_INTERVALS: Final = 0.9
"""Between two rounds; publishers need not be exact."""
SAME_ROUND_INTERVALS: Final = 0.25
"""A record that comes so soon after a round was late for it, and does not count for the next: nodes publish at about
the same time, and a leader waits for the last of them."""
LATE_INTERVALS: Final = 1.5
"""A leader waits until each subordinate has renewed its report, and no longer than this after its last round."""
STALE_INTERVALS: Final = 3
"""A record that is not replaced for so long is dropped."""


def to_ms(duration_s: float) -> int:
    """A duration on the wire."""
    return min(round(duration_s * 1000), COUNT_MAX)
