"""By which class does everybody stand in the tree? (protocol section 7, mapping `performance`)

Intuition: a rank badge. What counts on the parade ground is the badge that somebody wears, not what he has earned
since; and a badge is changed only where it cannot put anybody in front of one who outranks him:

- *Upwards* in the moment in which a leader accepts us with the better badge, or when nobody is above us.
- *Downwards* when all have left us who would outrank the worse one (sinking.py).

So at every instant each leader's badge outranks those of all who follow it, whatever happened meanwhile elsewhere,
and no circle of leaders can close: that is S1, without a table that all would have to agree on.
"""

from __future__ import annotations

from collections.abc import Mapping

from subord.core.messages import Advice, Announce, Ask, Meet, Message, Propose, Refuse
from subord.core.placement.quantize import CLASS_MAX, UNKNOWN
from subord.core.state.roster import Claim
from subord.core.state.view import Position
from subord.core.tables import BoundedMap

HEARD_MAX = 1024
NOBODY = -1  # below every class: whoever leads by it leads nobody


class RankClasses:
    """Classes by position: our own, those of our subtree, and those of others who said so, the oldest out."""

    def __init__(self, owner: Position) -> None:
        self._owner = owner
        self.own = UNKNOWN
        self.sinks_to = CLASS_MAX  # the worse one that we shall stand by; CLASS_MAX: we do not sink
        self.rows: Mapping[Position, tuple[Position, Claim]] = {}  # of our roster
        self._heard: BoundedMap[Position, int] = BoundedMap(HEARD_MAX)

    def heard(self, position: Position, standing: int) -> None:
        """Somebody said by which class `position` stands."""
        self._heard[position] = standing

    def told(self, position: Position, standing: int) -> None:
        """Somebody else said so; who does not know it himself says UNKNOWN."""
        if standing != UNKNOWN:
            self.heard(position, standing)

    def knows(self, position: Position) -> bool:
        return position == self._owner or position in self.rows or position in self._heard

    def of(self, position: Position) -> int:
        """UNKNOWN also for somebody of whom we have not heard."""
        if position == self._owner:
            return self.own
        row = self.rows.get(position)
        if row is None or row[1].change.missing:  # the row of a missing node is that of a former place
            return self._heard.get(position, UNKNOWN)
        return row[1].change.standing

    def __len__(self) -> int:
        return len(self._heard)


def learn(rank_classes: RankClasses, source: Position, message: Message) -> None:
    """What a message says of classes."""
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
