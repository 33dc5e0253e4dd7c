"""What every system under comparison must be able to say of itself (peers/experiment.py).

Intuition: the entry form of a race. Whoever wants to run names who is on the team, when it stands, and who has
noticed that somebody is missing; how it does that is its own affair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

Knowers = dict[int, float]
"""Who knows of something, and since when (monotonic seconds)."""


class Meters(NamedTuple):
    """What processes have used and hold, by position."""

    cpu_s: dict[int, float]
    pss_mib: dict[int, float]
    resident_mib: dict[int, float]


class Rival(Protocol):
    """One system on all nodes of one lab. Times are monotonic seconds. Any method may raise LabError."""

    settings: str  # program, version and options, in words
    meaning: str  # what converged, known and a new leader mean here

    def start(self) -> None:
        """Start everybody, as fast as possible."""

    def started_at(self) -> tuple[float, float]:
        """When the first and the last process were started."""

    def converged_at(self) -> float | None:
        """Since when everybody who should knows everybody; None: not now."""

    def victims(self) -> tuple[int, int]:
        """Two ordinary nodes: one whose process is killed, one whose cable is pulled."""

    def end(self, position: int) -> None:
        """kill -9."""

    def knowers(self, victim: int) -> Knowers:
        """Who has noticed that it is gone."""

    def must_know(self, victim: int) -> frozenset[int]:
        """Who has to notice until the news is out."""

    def meters(self) -> Meters:
        """Of all who should live. Raises LabError when one does not."""

    def groups(self) -> dict[str, Iterable[int]]:
        """Whose costs are told apart, such as servers and clients."""


@runtime_checkable
class Led(Rival, Protocol):
    """One that has a leader."""

    def leader(self) -> int:
        """Who leads."""

    def leader_since(self, other_than: int) -> float | None:
        """Since when all who live agree on another leader; None: not yet."""

    def restore(self, position: int) -> None:
        """Start again who was ended, and wait for it."""
