"""The rows that a node states: of itself, of a node that it has just accepted, and of one that vanished.

Inputs are the places and what the other node has signed; outputs are rows (docs/protocol.md, section 5). Invariant:
the row of another node carries what that node has signed, if it has an identity.
"""

from __future__ import annotations

import msgspec

from subord.core.edges.leader import Leader
from subord.core.edges.slots import Subordinate
from subord.core.messages import Change, Propose
from subord.core.state.context import Context
from subord.core.view import PLACE_CODES, Place, Position


def own_row(
    context: Context, leader: Leader | None, place: Place | None, *, moves: int, placed_at: float, round_trip: int
) -> Change:
    row = Change(
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
    return context.identity.signed_row(row)


def provisional_row(propose: Propose, source: Position, context: Context, place: Place) -> Change:
    """Of a node that was just accepted, until it reports itself."""
    code, standing = PLACE_CODES[place], propose.standing
    row = Change(source, context.position, code, propose.incarnation, 0, 0, standing=standing)
    if not (propose.key and context.identity.is_on):
        return row
    return msgspec.structs.replace(
        row, key=propose.key, proof=propose.proof, exchange=propose.exchange, wish=propose.wish
    )


def missing_row(known: Subordinate, context: Context, last: Change | None) -> Change:
    """Of a subordinate that vanished: its last signed row, or what it proposed, or what its leader knows."""
    signed = last if last is not None and last.key and last.incarnation == known.incarnation else known.proposed
    if signed is not None and signed.key:
        return msgspec.structs.replace(signed, missing=True, age_s=0)
    return Change(known.position, context.position, PLACE_CODES[known.place], known.incarnation, 0, 0, missing=True)
