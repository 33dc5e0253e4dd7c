"""What a guest does with advice: return home, move to a better place, or refer two roots to each other.

Inputs are advice and measured round trips; outputs are proposals and questions of the search. The old place is kept
until the new leader accepts (docs/protocol.md, sections 2 and 7).
"""

from __future__ import annotations

from subord.core.edges.leader import Uplink
from subord.core.mapping.mapping import Move
from subord.core.messages import Advice
from subord.core.placement.optimizer import Optimizer
from subord.core.search.joining import Joining
from subord.core.search.root_referral import RootReferral
from subord.core.state.context import Context
from subord.core.state.states import Aim
from subord.core.view import Position


class Moving:
    """The moves of one guest; by choice, or home."""

    def __init__(
        self, context: Context, uplink: Uplink, optimizer: Optimizer, joining: Joining, referral: RootReferral
    ) -> None:
        self._context = context
        self._uplink = uplink
        self._optimizer = optimizer
        self._joining = joining
        self._search = joining.search
        self._referral = referral

    def on_advice(self, source: Position, advice: Advice) -> None:
        home, is_own_root = self._search.return_home.elsewhere, source in self._uplink.path[:1]
        if home is not None and (home in advice.hints or (source == home and advice.room)):
            self._joining.on_home_alive()
        elif is_own_root and not advice.wanted and self._context.mapping.may_lead(advice.root, source):
            self._search.requests.ask(advice.root)  # the root has lost that role
        elif self._search.prober.is_beside(source) and self._referral.refer(advice.root):
            pass
        elif self._context.mapping.keeps_homes or is_own_root:
            move = self._optimizer.choose(advice)
            if move is not None:
                self._move(move)
            elif self._optimizer.looks_soon(advice):
                self._search.rest.shorten_next()
            elif self._optimizer.stands_well(advice):
                self._search.rest.lengthen_next()
        self._search.advance()

    def on_measured(self) -> None:
        """Measured round trips may have named a nearer leader."""
        move = self._optimizer.take_chosen()
        if move is not None and self._context.state.aim is Aim.BETTER and not self._search.requests.has_proposal:
            self._move(move)

    def _move(self, move: Move) -> None:
        if move.leader:
            self._search.propose(move.leader, move.wish, standing=move.standing)
            return
        root = self._uplink.path[0]
        self._optimizer.budget.spend(self._context.now)
        self._optimizer.rank_change.stand(move.standing)
        self._search.requests.clear()
        self._joining.become_root()
        self._search.prober.ask_soon(root)
