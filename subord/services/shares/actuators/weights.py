"""The weight of a group, from the whole tickets of its class.

All tickets of a node weigh as much as ten groups that nobody has set: weights of single groups are then in the exact
proportion of their tickets, and a group beside the classes, with what is needed to reach the node, is not starved.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Scale(NamedTuple):
    """`whole`: of all tickets together; a multiple of the tickets of a node (tickets.py)."""

    whole: int
    low: int
    high: int


SHARES: Final = Scale(10_000, 2, 262_144)
"""cpu.shares of cgroup v1; a group that nobody has set has 1024."""
WEIGHT: Final = Scale(1_000, 1, 10_000)
"""cpu.weight of cgroup v2, and CPUWeight= of systemd; a group that nobody has set has 100."""


def weight_of(tickets: int, of: int, groups: int, scale: Scale) -> int:
    """The weight of one of the `groups` that divide `tickets` of `of` among themselves; it is exact for one group."""
    exact = scale.whole * tickets / (of * groups)
    return min(scale.high, max(scale.low, round(exact)))
