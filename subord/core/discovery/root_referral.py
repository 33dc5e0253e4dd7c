"""Two trees side by side, and somebody who knows people in both (protocol section 3).

Intuition: two villages whose last houses share a fence. Neither mayor has heard of the other, but whoever moves into
a house by the fence greets the neighbours on both sides, and tells the mayor of higher rank where the other lives.

A word goes to the higher root only, and from somebody who is root no longer on to the higher of the other two: every
step leads to a lower rank, so it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.events import Dropped
from subord.core.messages import Meet
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.uplink.leader import Uplink

MEETINGS_PER_S = 10.0


class RootReferral:
    """What one node tells roots about each other."""

    def __init__(self, context: Context, uplink: Uplink, ask_soon: Callable[[Position], None]) -> None:
        """`ask_soon` is told of a root to ask."""
        self._ask_soon = ask_soon
        self._context = context
        self._uplink = uplink
        self._bucket = TokenBucket(MEETINGS_PER_S, context.now)

    def introduce(self, other: Position) -> bool:
        """We, who have a leader, heard of the root `other`; False: it is our own, or none."""
        path, may_lead = self._uplink.path, self._context.mapping.may_lead
        if not path or other in (path[0], self._context.position, 0):
            return False
        root = path[0]
        lower, higher = (other, root) if may_lead(other, root) else (root, other)
        self._context.send(higher, self._meet(lower))
        rank_classes = self._context.mapping.rank_classes
        if self._context.mapping.by_performance and not (rank_classes.knows(root) and rank_classes.knows(other)):
            self._context.send(lower, self._meet(higher))  # it may be the other way round
        return True

    def _meet(self, root: Position) -> Meet:
        return Meet(self._context.incarnation, root, self._context.mapping.rank_classes.of(root))

    def on_meet(self, root: Position) -> None:
        """Somebody told us of a root. Whether it is root still, and suits us, it says itself."""
        if not self._context.mapping.might_lead(root):
            self._context.note(Dropped("unexpected"))
        elif not self._bucket.admit(self._context.now):
            self._context.note(Dropped("meet_too_soon"))  # each may cost an ARP request
        elif self._uplink.path:
            self.introduce(root)
        else:
            self._ask_soon(root)
