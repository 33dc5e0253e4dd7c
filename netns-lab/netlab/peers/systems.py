"""What the systems under comparison (subord.py, serf.py, etcd.py) report of themselves to experiment.py.

Each is a class with the same methods. Times are monotonic seconds; any method may raise LabError.

    settings, meaning       program, version and options; what converged, known and a new leader mean: in words
    start()                 start all nodes, as fast as possible
    started_at()            when the first and the last process were started
    converged_at()          since when every node knows all the others it should; None: not now
    victims()               two ordinary nodes: one to be killed, one to be cut off
    end(position)           kill -9
    noticed(victim)         the nodes that have noticed that it is gone
    must_notice(victim)     the nodes that have to notice until its death is known
    costs()                 of all processes that should run
    groups()                positions whose costs are reported apart, such as servers and clients

A system with a leader also has:

    leader()                its position
    leader_since(other)     since when all that live agree on another leader; None: not yet
    restore(position)       start a node again that was ended, and wait for it
"""

from __future__ import annotations

import time
from typing import NamedTuple

Noticed = dict[int, float]
"""Positions of the nodes that have noticed something, and since when (monotonic seconds)."""


class Costs(NamedTuple):
    """What processes have used and hold, by position."""

    cpu_s: dict[int, float]
    pss_mib: dict[int, float]
    resident_mib: dict[int, float]


class Since:
    """Since when a condition has held at every look."""

    def __init__(self) -> None:
        self._at: float | None = None

    def look(self, *, holds: bool) -> float | None:
        """None: it does not hold now."""
        if not holds:
            self._at = None
        elif self._at is None:
            self._at = time.monotonic()
        return self._at
