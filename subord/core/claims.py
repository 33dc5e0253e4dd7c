"""A claim: what one subordinate reports of one node, and which of several claims on a node is its row.

Inputs are the rows of beats; output is the order of claims, which all nodes share (docs/protocol.md, section 5).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from subord.core.messages import Change

Weight: TypeAlias = tuple[int, bool, int, int]


class Claim(msgspec.Struct, gc=False):
    """One node as one subordinate reports it. `since`: by this node's clock. `session`: the number of that
    subordinate's session (`Roster.sessions`) in which it last reported the node."""

    change: Change
    since: float
    digest: int = 0
    session: int = 0

    def is_same_as(self, other: Claim | None) -> bool:
        if other is None:
            return False
        mine, its = self.change, other.change
        classes = mine.performance, mine.standing, mine.round_trip, mine.proof
        if classes != (its.performance, its.standing, its.round_trip, its.proof):
            return False
        return (mine.leader, mine.place, mine.incarnation, mine.moves, mine.missing) == (
            its.leader,
            its.place,
            its.incarnation,
            its.moves,
            its.missing,
        )

    @property
    def weight(self) -> Weight:
        """The order of claims: the later incarnation, then the living before the missing, then what the node signed
        (its row before its proposal), then the later move."""
        change = self.change
        return change.incarnation, not change.missing, bool(change.key) * (2 - bool(change.exchange)), change.moves
