"""Which rows of a subordinate's beat are taken (docs/protocol.md, section 5).

Inputs are beats, the mapping, the roster, pins and the trials of the subordinate; outputs are claims in the roster. A
row below a subordinate ranks above it, its node has signed it (core/identity/identity.py), one subordinate reports at
most ROWS_OF_ONE_MAX rows, and its nodes must exist as far as samples tell (verification.py). Drops are counted by
reason; a drop for lack of room, or for other pins, requests no new report.
"""

from __future__ import annotations

from collections.abc import Container

from subord.core.edges import agreement
from subord.core.edges.leader import Uplink
from subord.core.edges.slots import Subordinate
from subord.core.edges.verification import ROWS_ABSENT, Verification
from subord.core.events import Dropped
from subord.core.identity.identity import ROW_BAD_PROOF, UNPROVEN
from subord.core.messages import Beat, Change, bare
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.view import Position

ROWS_MAX = 1 << 20  # in the whole subtree; more is an error or an attack
ROWS_OF_ONE_MAX = 1 << 17  # of one subordinate; the design limit is 100,000 nodes
ROW_NOT_BELOW, ROWS_OF_ONE, ROSTER_FULL = "row_not_below", "rows_of_one", "roster_full"
FALSE_REPORTS = (ROW_NOT_BELOW, ROWS_OF_ONE, ROWS_ABSENT, ROW_BAD_PROOF)
"""Reasons that a correct subordinate never causes."""


class Reports:
    """The reports of the subordinates of one node."""

    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self.verification = Verification(context, roster, uplink)

    def take(self, known: Subordinate, beat: Beat) -> None:
        """Take the rows of a valid beat."""
        now, via, has_identity = self._context.now, known.position, self._context.identity.is_on
        for row in beat.changes:
            change = row if has_identity else bare(row)
            known.unproven.discard(change.position)
            if (reason := self._reason_to_drop(via, change)) is not None:
                self._context.note(Dropped(reason))
                if reason in UNPROVEN:
                    self._refuse(known, change.position)
                continue
            if not change.missing and self.verification.is_kept_back(via, change.position):
                self._roster.keep(via, change.position)
            self._roster.state(via, change, now)
            if change.position == via:
                known.report(change.standing)
        for position in beat.gone:
            self._roster.retract(via, position, now)
            known.unproven.discard(position)
        self.verification.follow(via)
        # A restarted subordinate reports itself first and its branch after a moment: sweep after that.
        settled = known.is_settled(now, self._context.timing.answer_s) and not beat.more
        repeated = self._is_full(via) or not agreement.counts_differ(known, beat, self._roster)
        if settled and not known.swept and repeated:
            known.swept = True
            self._roster.sweep(via, now)

    def differ(self, known: Subordinate, beat: Beat) -> bool:
        """Whether the rows differ from the subordinate's after a complete report without drops."""
        settled = known.is_settled(self._context.now, self._context.timing.answer_s)
        return settled and not self._is_full(known.position) and agreement.rows_differ(known, beat, self._roster)

    def _is_full(self, via: Position) -> bool:
        """Whether rows of this subordinate may have been dropped for lack of room."""
        roster = self._roster
        if len(roster.rows) >= ROWS_MAX or len(roster.claims.get(via, ())) >= ROWS_OF_ONE_MAX:
            return True
        return self.verification.withholds(via)

    def _refuse(self, known: Subordinate, position: Position) -> None:
        """The subordinate now says something else of the node than before, so its former claim ends."""
        self._roster.retract(known.position, position, self._context.now)
        known.refuse_row(position)

    def _reason_to_distrust(self, via: Position, change: Change) -> str | None:
        """The verified rows of a node are compared first: most reports repeat one of them."""
        position, roster = change.position, self._roster
        claim, row = roster.claims[via].get(position), roster.rows.get(position)
        held = [each.change for each in (claim, None if row is None else row[1]) if each is not None]
        return self._context.identity.reason_to_drop(change, held)

    def _reason_to_drop(self, via: Position, change: Change) -> str | None:
        """None: the row is taken. A living claim ends when its missing row is not taken."""
        position, mapping, path = change.position, self._context.mapping, self._uplink.path
        if mapping.ranks_change:  # reported ranks may be outdated
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
        # Last, because it costs most: the signatures of a flood of rows without room are not verified.
        return reason or self._reason_to_distrust(via, change)


def _full(roster: Roster, claims: Container[Position], position: Position, count: int) -> str | None:
    if count >= ROWS_OF_ONE_MAX and position not in claims:
        return ROWS_OF_ONE
    return ROSTER_FULL if len(roster.rows) >= ROWS_MAX and position not in roster.rows else None
