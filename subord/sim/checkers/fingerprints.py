"""The state of a node that an invalid message must not change, as one comparable value."""

from __future__ import annotations

import msgspec

from subord.core.messages import Change, Guidance
from subord.core.node import Node
from subord.core.state.states import State
from subord.core.view import Incarnation, Place, Position

OWN = 0  # the claims of a node itself

Above = tuple[Position, Incarnation, Guidance, bool]
Below = dict[Position, tuple[Incarnation, Place, int]]
Claims = dict[Position, dict[Position, tuple[Change, bool]]]


class Fingerprint(msgspec.Struct, frozen=True):
    """Phase and place, the leader with path and alternates, the subordinates, and the whole roster."""

    phase: str
    place: Place | None
    above: Above | None
    below: Below
    promised: tuple[tuple[float, bool], ...]  # when the next beat of each subordinate is due
    claims: Claims
    rows: dict[Position, Position]  # position -> the subordinate that claims it
    leader_changes: int

    @classmethod
    def of(cls, node: Node) -> Fingerprint:
        leader, taken = node.uplink.leader, node.downlink.slots.taken
        return cls(
            node.phase.value,
            node.place,
            None
            if leader is None
            else (leader.position, leader.incarnation, leader.guidance, node.context.state is State.LEADER_LEAVING),
            {p: (each.incarnation, each.place, each.number) for p, each in taken.items()},
            tuple((each.due_at, each.cut) for each in taken.values()),
            {via: claims_of(node, via) for via in node.roster.claims},
            {p: via for p, (via, _) in node.roster.rows.items()},
            node.leader_changes,
        )

    def lacks(self, later: Fingerprint) -> bool:
        """Whether `later` holds anything that a timer cannot have added.

        A timer only removes: the leader, a subordinate, and the claims of that subordinate.
        """
        if later.above not in (None, self.above):
            return True
        if not later.below.items() <= self.below.items():
            return True
        claimed = ((via, each) for via, each in later.claims.items() if via != OWN)
        return any(each != self.claims.get(via) for via, each in claimed)


def claims_of(node: Node, via: Position) -> dict[Position, tuple[Change, bool]]:
    """The claims of one subordinate, and whether it has confirmed each in its present session."""
    session = node.roster.sessions[via]
    return {p: (claim.change, claim.session == session) for p, claim in node.roster.claims.get(via, {}).items()}


def is_changed(before: Fingerprint, node: Node, *, was_due: bool) -> bool:
    """By more than the timer, if that was due."""
    after = Fingerprint.of(node)
    return before.lacks(after) if was_due else before != after
