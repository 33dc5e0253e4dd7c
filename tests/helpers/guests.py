"""A guest as its leader lists it."""

from __future__ import annotations

from subord.core.edges.slots import Subordinate
from subord.core.view import Place, Position


def listed(position: Position, standing: int) -> Subordinate:
    """A guest accepted at 0 s with this reported class."""
    return Subordinate(
        position=position,
        place=Place.GUEST,
        incarnation=1,
        exchange=1,
        since=0.0,
        session_at=0.0,
        heard_at=0.0,
        due_at=0.0,
        standing=standing,
    )
