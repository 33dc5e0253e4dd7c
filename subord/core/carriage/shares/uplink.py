"""What one node tells its leader of shares, and the row that a leader has given it.

Inputs are links to leaders, reports to send, and rows; outputs are frames to the present leader. Invariants: a leader
that has not had the last report gets it at once; one that has never answered with a row gets one in
UNANSWERED_PAUSE_S at most, because it may run a release that knows no shares.
"""

from __future__ import annotations

from math import inf

from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.shares import bounds
from subord.core.carriage.shares.bodies import Given, ReportFrame
from subord.core.carriage.shares.interface import Branches
from subord.core.carriage.shares.plan import Plan
from subord.core.view import Position


class Uplink:
    """The way from one node to its leader."""

    def __init__(self, tree: Branches) -> None:
        self._tree = tree
        self._links: dict[Position, LinkState] = {}
        self._told: LinkState | None = None  # where reports go
        self._has_answered = False  # the far end of that link, with a row
        self.begin(None)

    def begin(self, plan: Plan | None) -> None:
        """Another plan: what was said before counts no more."""
        self.row: Given | None = None
        """The last one of a leader, whichever it was."""
        self.row_nodes = 0.0
        """It is over so many nodes: those that this node had reported."""
        self._row_at = self._sent_at = self._reported_at = -inf
        self._report: ReportFrame | None = None
        self._report_nodes = inf
        self._kept_s = 0.0 if plan is None else max(bounds.STALE_ROUNDS * plan.round_s, bounds.STALE_S_MIN)
        self._unanswered = 0

    def open(self, link: LinkState) -> None:
        """A link to a leader that knows the engine, maybe for the second time."""
        self._links[link.peer] = link

    def close(self, link: LinkState) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer]

    def _present(self) -> LinkState | None:
        leader = self._tree.leader
        return None if leader is None else self._links.get(leader)

    def is_leader(self, link: LinkState) -> bool:
        """Whether the link leads to the present leader."""
        return self._present() is link

    @property
    def is_new(self) -> bool:
        """Whether the leader has not had a report yet."""
        return self._report is not None and self._present() not in (None, self._told)

    # -- rows ---------------------------------------------------------------------------------------------

    def take(self, row: Given, now: float) -> None:
        """A row of the leader."""
        self.row, self.row_nodes, self._row_at = row, self._report_nodes, now
        self._has_answered = True

    def age_s(self, now: float) -> float:
        """Of the row."""
        return now - self._row_at

    # -- reports ------------------------------------------------------------------------------------------

    def report(self, frame: ReportFrame, nodes: float, now: float) -> None:
        """What is to be sent, of so many nodes."""
        self._report, self._report_nodes, self._reported_at = frame, nodes, now

    def send(self, links: Links, now: float) -> None:
        """To the present leader, if there is one."""
        link = self._present()
        if link is None or self._report is None or now >= self._reported_at + self._kept_s:
            return
        if link is not self._told:
            self._told, self._unanswered, self._has_answered = link, 0, False
        elif (
            not self._has_answered
            and self._unanswered >= bounds.UNANSWERED_REPORTS
            and now < self._sent_at + bounds.UNANSWERED_PAUSE_S
        ):
            return
        links.send(link, self._report)
        self._unanswered += 1
        self._sent_at = now
