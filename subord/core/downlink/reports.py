"""Which rows of a subordinate's beat are taken? (protocol section 5)

Decided from the mapping, the roster and the trials of the subordinate. Whatever stands below a subordinate ranks
above it, so it cannot report a position that may not stand there; one subordinate reports no more than
ROWS_OF_ONE_MAX rows; and the nodes that it reports must exist, as far as samples tell (verification.py).

Invariant: what is dropped is counted by reason, and rows that were dropped for want of room do not make the leader
ask for all rows again.
"""

from __future__ import annotations

from collections.abc import Container

from subord.core.downlink import agreement
from subord.core.downlink.slots import Subordinate
from subord.core.downlink.verification import ROWS_ABSENT, Verification
from subord.core.events import Dropped
from subord.core.messages import Beat, Change
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Position
from subord.core.uplink.leader import Uplink

ROWS_MAX = 1 << 20  # nodes of a subtree: more is a mistake, or malice
ROWS_OF_ONE_MAX = 1 << 17  # of one subordinate; clusters of 100,000 nodes are the aim
ROW_NOT_BELOW, ROWS_OF_ONE, ROSTER_FULL = "row_not_below", "rows_of_one", "roster_full"
FALSE_REPORTS = (ROW_NOT_BELOW, ROWS_OF_ONE, ROWS_ABSENT)
"""Reasons that an honest subordinate gives no cause for."""


class Reports:
    """What the subordinates of one node report."""

    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self.verification = Verification(context, roster, uplink)

    def take(self, known: Subordinate, beat: Beat) -> None:
        """The rows of a beat that is in order."""
        now, via = self._context.now, known.position
        for change in beat.changes:
            if (reason := self._reason_to_drop(via, change)) is not None:
                self._context.note(Dropped(reason))
                continue
            if not change.missing and self.verification.is_kept_back(via, change.position):
                self._roster.keep(via, change.position)
            self._roster.state(via, change, now)
            if change.position == via:
                known.report(change.standing)
        for position in beat.gone:
            self._roster.retract(via, position, now)
        self.verification.follow(via)
        # A restarted subordinate reports itself first and its branch a moment later: sweep after that moment.
        settled = known.is_settled(now, self._context.timing.answer_s) and not beat.more
        repeated = self._is_full(via) or not agreement.counts_differ(known, beat, self._roster)
        if settled and not known.swept and repeated:
            known.swept = True
            self._roster.sweep(via, now)

    def differ(self, known: Subordinate, beat: Beat) -> bool:
        """Do we list other rows than the subordinate, though all was reported and nothing withheld?"""
        settled = known.is_settled(self._context.now, self._context.timing.answer_s)
        return settled and not self._is_full(known.position) and agreement.rows_differ(known, beat, self._roster)

    def _is_full(self, via: Position) -> bool:
        """Rows of this subordinate were perhaps dropped for want of room."""
        roster = self._roster
        if len(roster.rows) >= ROWS_MAX or len(roster.claims.get(via, ())) >= ROWS_OF_ONE_MAX:
            return True
        return self.verification.withholds(via)

    def _reason_to_drop(self, via: Position, change: Change) -> str | None:
        """None: this row is taken. Of a node that lived the claim ends when no further missing one is taken."""
        position, mapping, path = change.position, self._context.mapping, self._uplink.path
        if mapping.by_performance:  # what is reported of ranks may be a moment old
            if position == self._roster.owner or position in path:
                return "row_of_path"
        elif position != via and not mapping.may_lead(via, position):
            return ROW_NOT_BELOW
        claims = self._roster.claims[via]
        if (reason := _full(self._roster, claims, position, len(claims))) is not None:
            return reason
        reason = self.verification.reason_to_drop(via, position, missing=change.missing)
        if reason is not None and change.missing:
            self._roster.retract(via, position, self._context.now)
        return reason


def _full(roster: Roster, claims: Container[Position], position: Position, count: int) -> str | None:
    if count >= ROWS_OF_ONE_MAX and position not in claims:
        return ROWS_OF_ONE
    return ROSTER_FULL if len(roster.rows) >= ROWS_MAX and position not in roster.rows else None
