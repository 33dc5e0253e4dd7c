"""What every system under comparison must be able to report of itself (experiment.py)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

Noticed = dict[int, float]
"""Positions of the nodes that have noticed something, and since when (monotonic seconds)."""


class Costs(NamedTuple):
    """What processes have used and hold, by position."""

    cpu_s: dict[int, float]
    pss_mib: dict[int, float]
    resident_mib: dict[int, float]


class System(Protocol):
    """One system on all nodes of one lab. Times are monotonic seconds. Any method may raise LabError."""

    settings: str  # program, version and options, in words
    meaning: str  # what converged, known and a new leader mean here

    def start(self) -> None:
        """Start all nodes, as fast as possible."""

    def started_at(self) -> tuple[float, float]:
        """When the first and the last process were started."""

    def converged_at(self) -> float | None:
        """Since when every node knows all the others it should; None: not now."""

    def victims(self) -> tuple[int, int]:
        """Two ordinary nodes: one to be killed, one to be cut off."""

    def end(self, position: int) -> None:
        """kill -9."""

    def noticed(self, victim: int) -> Noticed:
        """The nodes that have noticed that it is gone."""

    def must_notice(self, victim: int) -> frozenset[int]:
        """The nodes that have to notice until its death is known."""

    def costs(self) -> Costs:
        """Of all processes that should run. Raises LabError when one does not."""

    def groups(self) -> dict[str, Iterable[int]]:
        """Positions whose costs are reported apart, such as servers and clients."""


@runtime_checkable
class Led(System, Protocol):
    """One that has a leader."""

    def leader(self) -> int:
        """Its position."""

    def leader_since(self, other_than: int) -> float | None:
        """Since when all that live agree on another leader; None: not yet."""

    def restore(self, position: int) -> None:
        """Start a node again that was ended, and wait for it."""


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
