"""The classes by which nodes stand (docs/protocol.md, section 7, mapping `performance`).

Inputs are statements of nodes and the rows of the roster; output is the class of a position. The class of a node is
its statement, not what it measured since: it rises when a leader accepts the better one, and falls when no
subordinate outranks the worse one (rank_change.py). Invariant: each leader outranks its subordinates at every
instant, without a common table, so no cycle can close (S1).
"""

from __future__ import annotations

from collections.abc import Mapping

from subord.core.claims import Claim
from subord.core.messages import Advice, Announce, Ask, Meet, Message, Propose, Refuse
from subord.core.quantize import CLASS_MAX, UNKNOWN
from subord.core.tables import BoundedMap
from subord.core.view import Position

HEARD_MAX = 1024
NO_CLASS = -1  # below every class: a leader that stands by it accepts no node


class RankClasses:
    """Classes by position: the owner's, those of its subtree, and at most HEARD_MAX others."""

    def __init__(self, owner: Position) -> None:
        self._owner = owner
        self.own = UNKNOWN
        self.sinks_to = CLASS_MAX  # the worse class to come; CLASS_MAX: none
        self.rows: Mapping[Position, tuple[Position, Claim]] = {}  # of the owner's roster
        self._heard: BoundedMap[Position, int] = BoundedMap(HEARD_MAX)

    def heard(self, position: Position, standing: int) -> None:
        """`position` has stated its class."""
        self._heard[position] = standing

    def told(self, position: Position, standing: int) -> None:
        """Another node stated the class of `position`; UNKNOWN if it does not know it."""
        if standing != UNKNOWN:
            self.heard(position, standing)

    def knows(self, position: Position) -> bool:
        return position == self._owner or position in self.rows or position in self._heard

    def of(self, position: Position) -> int:
        """UNKNOWN also without any statement."""
        if position == self._owner:
            return self.own
        row = self.rows.get(position)
        if row is None or row[1].change.missing:  # the row of a missing node describes its former place
            return self._heard.get(position, UNKNOWN)
        return row[1].change.standing

    def __len__(self) -> int:
        return len(self._heard)


def learn(rank_classes: RankClasses, source: Position, message: Message) -> None:
    """Take the classes that a message states."""
    match message:
        case Propose() | Refuse() | Announce():
            rank_classes.heard(source, message.standing)
        case Ask():
            rank_classes.heard(source, message.standing) if not message.asker else rank_classes.told(
                message.asker, message.standing
            )
        case Advice():
            rank_classes.heard(source, message.standing)
            if message.root not in (0, source):
                rank_classes.told(message.root, message.root_standing)
        case Meet():
            rank_classes.told(message.root, message.standing)
        case _:
            pass
