"""Which rows may a subordinate report? (protocol section 5)

Whatever stands below a subordinate ranks above it, so it cannot report a position that may not stand there; and one
subordinate reports no more than ROWS_OF_ONE_MAX rows, so that no single one fills the list of everything above it.
"""

from __future__ import annotations

from collections.abc import Container

from subord.core.mapping import Mapping
from subord.core.messages import Change
from subord.core.roster import Roster
from subord.core.view import Position

ROWS_MAX = 1 << 20  # nodes of a subtree: more is a mistake, or malice
ROWS_OF_ONE_MAX = 1 << 17  # of one subordinate; clusters of 100,000 nodes are the aim
ROW_NOT_BELOW, ROWS_OF_ONE, ROSTER_FULL = "row_not_below", "rows_of_one", "roster_full"
FALSE_REPORTS = (ROW_NOT_BELOW, ROWS_OF_ONE)
"""Reasons that an honest subordinate gives no cause for."""


def reason_to_drop(
    mapping: Mapping, roster: Roster, path: Container[Position], via: Position, change: Change
) -> str | None:
    """Why this row of the subordinate `via` is not taken; None: it is."""
    position, claims = change.position, roster.claims.get(via, {})
    if mapping.by_performance:  # what is reported of ranks may be a moment old
        if position == roster.owner or position in path:
            return "row_of_path"
    elif position != via and not mapping.may_lead(via, position):
        return ROW_NOT_BELOW
    return _full(roster, claims, position, len(claims))


def is_full(roster: Roster, via: Position) -> bool:
    """Rows of this subordinate were perhaps dropped for want of room."""
    return len(roster.rows) >= ROWS_MAX or len(roster.claims.get(via, ())) >= ROWS_OF_ONE_MAX


def _full(roster: Roster, claims: Container[Position], position: Position, count: int) -> str | None:
    if count >= ROWS_OF_ONE_MAX and position not in claims:
        return ROWS_OF_ONE
    return ROSTER_FULL if len(roster.rows) >= ROWS_MAX and position not in roster.rows else None
