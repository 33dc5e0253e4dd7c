"""What the systems under comparison (subord.py, serf.py, etcd.py) report of themselves to experiment.py.

Each is a class with the same methods. Times are monotonic seconds; any method may raise LabError.

    settings, meaning       program, version and options; what converged, known and a new leader mean: in words
    start()                 start all nodes, as fast as possible
    started_at()            when the first and the last process were started
    converged_at()          since when every node knows all the others it should; None: not now
    victims()               ordinary nodes, in the order of their positions: some will be killed or cut off
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
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

Noticed = dict[int, float]
"""Positions of the nodes that have noticed something, and since when (monotonic seconds)."""


class Costs(NamedTuple):
    """What processes have used and hold, by position."""

    cpu_s: dict[int, float]
    pss_mib: dict[int, float]
    resident_mib: dict[int, float]


class Sightings:
    """What the nodes print of each other: which ones each lists, and since when it has given one up."""

    def __init__(self) -> None:
        self._listed: defaultdict[int, set[int]] = defaultdict(set)
        self._complete_at: float | None = None
        self.gone: defaultdict[int, Noticed] = defaultdict(dict)

    def note(self, observer: int, node: int, now: float, *, present: bool) -> None:
        if present:
            self._listed[observer].add(node)
            self.gone[node].pop(observer, None)
        else:
            self._listed[observer].discard(node)
            self.gone[node].setdefault(observer, now)

    def complete_at(self, nodes: Iterable[int]) -> float | None:
        """Since when, at every look, each of these nodes has listed them all; None: not now."""
        every = set(nodes)
        if any(self._listed[observer] != every for observer in every):
            self._complete_at = None
        elif self._complete_at is None:
            self._complete_at = time.monotonic()
        return self._complete_at
