"""The row that a node reports of itself, from its place, leader and measurements (docs/protocol.md, section 5)."""

from __future__ import annotations

from subord.core.edges.leader import Leader
from subord.core.messages import Change
from subord.core.state.context import Context
from subord.core.view import PLACE_CODES, Place


def own_row(
    context: Context, leader: Leader | None, place: Place | None, *, moves: int, placed_at: float, round_trip: int
) -> Change:
    return Change(
        context.position,
        leader.position if leader else 0,
        PLACE_CODES[place or Place.ROOT] if leader else 0,
        context.incarnation,
        moves,
        int(context.now - placed_at),
        False,
        context.performance,
        context.mapping.rank_classes.own,
        round_trip,
    )
