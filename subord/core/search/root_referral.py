"""Root referral: a node that knows two roots tells the higher one of the lower one (docs/protocol.md, section 3).

Inputs are a path, advice and referrals; outputs are referrals. A receiver that has a leader passes the referral on to
the higher of both roots. Each step leads to a lower rank, so the chain ends. At most REFERRALS_PER_S referrals are
handled in a second.
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.edges.leader import Uplink
from subord.core.events import Dropped
from subord.core.messages import Meet
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.context import Context
from subord.core.view import Position

REFERRALS_PER_S = 10.0


class RootReferral:
    def __init__(self, context: Context, uplink: Uplink, ask_soon: Callable[[Position], None]) -> None:
        """`ask_soon` is called with a root to ask."""
        self._ask_soon = ask_soon
        self._context = context
        self._uplink = uplink
        self._bucket = TokenBucket(REFERRALS_PER_S, context.now)

    def refer(self, other: Position) -> bool:
        """Handle the root `other`, heard by a node with a leader; False: it is the node's own root, or none."""
        path, may_lead = self._uplink.path, self._context.mapping.may_lead
        if not path or other in (path[0], self._context.position, 0):
            return False
        root = path[0]
        lower, higher = (other, root) if may_lead(other, root) else (root, other)
        self._context.send(higher, self._meet(lower))
        knows_rank = self._context.mapping.knows_rank
        if not (knows_rank(root) and knows_rank(other)):
            self._context.send(lower, self._meet(higher))  # an unknown rank: either root may be the lower one
        return True

    def _meet(self, root: Position) -> Meet:
        return Meet(self._context.incarnation, root, self._context.mapping.rank_classes.of(root))

    def on_meet(self, root: Position) -> None:
        """A node referred this one to `root`, which says itself whether it is still root and may lead."""
        if not self._context.mapping.might_lead(root):
            self._context.note(Dropped("unexpected"))
        elif not self._bucket.admit(self._context.now):
            self._context.note(Dropped("meet_too_soon"))  # each question may cost an ARP request
        elif self._uplink.path:
            self.refer(root)
        else:
            self._ask_soon(root)
