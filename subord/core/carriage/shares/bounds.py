"""The bounds of shares and their times; times are seconds unless the name says otherwise."""

from __future__ import annotations

from typing import Final

# -- sizes ------------------------------------------------------------------------------------------------

CLASSES_MAX: Final = 126
"""The content of a report, 9 + 8 * classes bytes, is below 1 KiB."""
CLASS_CHARS_MAX: Final = 32
THOUSANDTHS: Final = 100_000
"""Of a ticket, in a row: a node has 100 tickets."""
FLOOR_THOUSANDTHS: Final = 1_000
FLOORS_SUM_MAX: Final = THOUSANDTHS // 2
"""No class has less than FLOOR_THOUSANDTHS, or, with many classes, than an equal part of half a node."""
NODES_MAX: Final = (1 << 32) - 1
ROUNDS: Final = 1 << 32
"""Numbers of rounds begin anew after so many."""
BRANCHES_MAX: Final = 2_048
"""Reports that a leader holds: a fan-out of 1,024, and as many guests."""

# -- times ------------------------------------------------------------------------------------------------

ROUND_MS_MIN: Final = 300
ROUND_MS_MAX: Final = 600_000
EARLIEST_ROUNDS: Final = 0.5
"""A leader does not decide sooner after its last decision, however often its branches report."""
LATE_ROUNDS: Final = 1.5
"""A leader waits for a new report of each branch, and no longer than this after its last decision."""
STALE_ROUNDS: Final = 3
STALE_S_MIN: Final = 2.0
"""A report that is not renewed counts for so long; with short rounds a daemon may pause for some of them."""
KEPT_ROUNDS: Final = 4
KEPT_S_MIN: Final = 30.0
"""The last row of a leader counts for so long: a node finds its next leader meanwhile."""
UNANSWERED_REPORTS: Final = 8
UNANSWERED_PAUSE_S: Final = 10.0
"""After so many reports without a row the leader seems to know no shares, and gets a report in this time at most."""
