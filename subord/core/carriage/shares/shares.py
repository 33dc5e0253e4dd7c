"""The shares of one node: what it reports to its leader, what it decides for its branches, and what it obeys itself.

Inputs are the plan, what the node has used, reports of subordinates, rows of the leader, links, and wakeups; outputs
are a report to the leader and a row for each branch, once in a round. A round is over when every branch has reported
anew, so the rounds of all levels follow those of the leaves. Invariants: a row counts only from the present leader,
and for a bounded time; a root divides by the document; nothing is sent, and nothing held, while shares are off.
"""

from __future__ import annotations

from collections import Counter
from math import inf

import msgspec

from subord.core.carriage.engine.interface import PartEvent, Role
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.shares import bodies, bounds
from subord.core.carriage.shares.bodies import Body, Given, Told
from subord.core.carriage.shares.branches import Held, Reported
from subord.core.carriage.shares.interface import (
    DOCUMENT,
    KEPT,
    LEADER,
    NO_ROW,
    Arithmetic,
    Branch,
    Branches,
    Decision,
    Measure,
    Measured,
    Obey,
    OfBranch,
    Overview,
    Planned,
    Row,
    UndecidedError,
)
from subord.core.carriage.shares.plan import Plan
from subord.core.carriage.shares.uplink import Uplink
from subord.core.view import Position


class Shares:
    """A part (core/carriage/engine/parts.py) of the engine of one node."""

    numbers = bodies.NUMBERS
    events: tuple[type[PartEvent], ...] = (Planned, Measured)

    def __init__(self, tree: Branches, arithmetic: Arithmetic) -> None:
        self.dropped: Counter[str] = Counter()
        self._tree = tree
        self._arithmetic = arithmetic
        self._links: Links
        self._all_dropped: Counter[str] = Counter()
        self._plan: Plan | None = None  # None: off, or no document
        self._held: Plan | None = None  # the document, also when it says that shares are off
        self._reported = Reported()
        self._uplink = Uplink(tree)
        self._obeyed: tuple[float, ...] = ()
        self._clear(0.0)

    def _clear(self, now: float) -> None:
        """Before the first decision by a plan."""
        self._round = 0
        self._round_at = now
        self._awaited = 0  # reports of this round, at the last look
        self._measure_at = self._decide_at = inf
        self._accounts: Row = ()
        self._order: tuple[Position, ...] = ()
        self._decided: Decision | None = None
        self._decided_at = -inf
        self._undecided = ""
        self._nodes = 1.0  # that count in this round

    # -- the part -----------------------------------------------------------------------------------------

    def join(self, links: Links) -> None:
        self._links = links

    @staticmethod
    def decode(body: msgspec.Raw) -> Body:
        return bodies.decode(body)

    @property
    def deadline(self) -> float:
        return min(self._measure_at, self._decide_at)

    @property
    def sizes(self) -> dict[str, int]:
        return {"shares branches": len(self._reported.held), "shares faults": len(self._reported.faults)}

    def opened(self, link: LinkState, now: float) -> None:
        """A new leader gets the last report at once."""
        if link.role is Role.SUBORDINATE:
            self._reported.open(link, now)
        elif link.role is Role.LEADER and link.knows_orders:
            self._uplink.open(link)

    def closed(self, link: LinkState, now: float) -> None:
        """What the other end has reported counts no more; its row does, for a while."""
        if link.role is Role.SUBORDINATE:
            self._reported.close(link)
            self._look(now)
        elif link.role is Role.LEADER:
            self._uplink.close(link)

    def heard(self, link: LinkState, body: Body, now: float) -> None:
        plan = self._plan
        if plan is None:
            self._drop("shares no plan")
        elif (body.plan, body.mark) != (plan.version, plan.mark):
            self._drop("shares another plan")
        elif isinstance(body, Told):
            self._hear_report(link, body, plan, now)
        else:
            self._hear_row(link, body, plan, now)

    def take(self, event: Planned | Measured, now: float) -> None:
        match event:
            case Planned():
                self._take_plan(event.plan, now)
            case Measured():
                self._take_own(event, now)

    def wake(self, now: float) -> None:
        """Do what is due."""
        plan = self._plan
        if plan is None:
            return
        if self._measure_at <= now:
            self._measure_at += plan.round_s
            if self._measure_at <= now:
                self._measure_at = now + plan.round_s
            self._links.actions.append(Measure(plan))
        if self._decide_at <= now:
            self._end_round(plan, now)
        elif self._uplink.is_new:
            self._uplink.send(self._links, now)

    def _drop(self, word: str) -> None:
        self.dropped[word] += 1
        self._all_dropped[word] += 1

    # -- what comes ---------------------------------------------------------------------------------------

    def _take_plan(self, held: Plan | None, now: float) -> None:
        """All that was said under another plan counts no more: it may be of other classes."""
        self._held = held
        plan = None if held is None or held.is_off else held
        if plan == self._plan:
            return
        self._plan = plan
        self._clear(now)
        self._reported.begin(0.0 if plan is None else plan.round_s, now)
        self._uplink.begin(plan)
        if plan is None:
            self._obeyed = ()
            self._links.actions.append(Obey(None))
            return
        self._accounts = (0.0,) * len(plan.classes)
        self._measure_at = now + plan.round_s
        self._obeyed = ()
        self._obey(plan, plan.wanted)

    def _take_own(self, event: Measured, now: float) -> None:
        """What this node alone has used; it is one branch more."""
        if event.plan != self._plan:
            self._drop("shares another plan")
        elif event.own is None:
            self._reported.forget(self._tree.position)
            self._look(now)
        else:
            self._put(self._tree.position, Held(event.own, now), event.plan)

    def _hear_report(self, link: LinkState, told: Told, plan: Plan, now: float) -> None:
        if link.role is not Role.SUBORDINATE:
            self._drop("shares report of no subordinate")
        else:
            self._put(link.peer, Held(told.branch, now, told.round), plan)

    def _put(self, position: Position, held: Held, plan: Plan) -> None:
        fault = self._arithmetic.fault_of(held.branch, len(plan.classes))
        if fault:
            self._reported.faults[position] = fault
            self._drop("shares nonsense")
        elif not self._reported.put(position, held):
            self._drop("shares branches full")
        elif self._decide_at == inf or len(self._reported.renewed) >= self._awaited:
            self._look(held.at)

    def _hear_row(self, link: LinkState, given: Given, plan: Plan, now: float) -> None:
        """A leader of others divides by it in its next round; another node obeys it at once."""
        if not self._uplink.is_leader(link):
            self._drop("shares row of no leader")
        elif len(given.row) != len(plan.classes):
            self._drop("shares row of other classes")
        else:
            self._uplink.take(given, now)
            if self._decided is None:
                self._obey(plan, given.row)

    # -- rounds -------------------------------------------------------------------------------------------

    def _listed(self) -> dict[Position, int]:
        """The living nodes of each branch, this node included."""
        return {self._tree.position: 1, **self._tree.branches()}

    def _look(self, now: float) -> None:
        """When the round ends. To ask it for each report would cost a leader the square of its fan-out."""
        if self._plan is None or not self._reported.renewed:
            self._decide_at = inf
            return
        to_come = self._reported.to_come(self._listed(), now)
        self._awaited = len(self._reported.renewed) + to_come
        rounds = bounds.LATE_ROUNDS if to_come else bounds.EARLIEST_ROUNDS
        self._decide_at = max(now, self._round_at + rounds * self._plan.round_s)

    def _end_round(self, plan: Plan, now: float) -> None:
        """Divide, and report."""
        listed = self._listed()
        counted = self._reported.counted(listed, now)
        for each, branch in counted.items():
            if branch.nodes < self._reported.held[each].branch.nodes:
                self._drop("shares more nodes than listed")
        self._round_at, self._decide_at = now, inf
        self._round = (self._round + 1) % bounds.ROUNDS
        self._reported.renewed.clear()
        self._nodes = sum(branch.nodes for branch in counted.values())
        if counted.keys() - {self._tree.position}:
            self._decide(plan, counted, now)
        else:
            self._decided, self._order, self._undecided = None, (), ""
            self._obey(plan, self.wanted(now)[0])
        if counted:
            told = self._folded(counted)
            self._uplink.report(bodies.report_frame(plan, self._round, told), told.nodes, now)
            self._uplink.send(self._links, now)

    def _folded(self, counted: dict[Position, Branch]) -> Branch:
        branches = list(counted.values())
        return branches[0] if len(branches) == 1 else self._arithmetic.folded(branches)

    def _decide(self, plan: Plan, counted: dict[Position, Branch], now: float) -> None:
        """Rows for all branches that count, from their last reports."""
        try:
            decided = self._arithmetic.decide(list(counted.values()), self.wanted(now)[0], self._accounts)
        except UndecidedError as error:
            self._undecided = str(error)
            self._drop("shares undecided")
            return
        self._undecided = ""
        self._accounts = decided.accounts
        self._order, self._decided, self._decided_at = tuple(counted), decided, now
        for position, row in zip(counted, decided.rows, strict=True):
            link = self._reported.link_to(position)
            if link is not None:
                self._links.send(link, bodies.row_frame(plan, self._round, row))
            elif position == self._tree.position:
                self._obey(plan, row)

    def _obey(self, plan: Plan, row: Row) -> None:
        rounded = bodies.percents(bodies.thousandths(row))
        if rounded != self._obeyed:
            self._obeyed = rounded
            self._links.actions.append(Obey(plan, rounded))

    def wanted(self, now: float) -> tuple[Row, str]:
        """The shares over all nodes of the branch, and where they come from."""
        assert self._plan is not None
        if self._tree.is_root:
            return self._plan.wanted, DOCUMENT
        row, age_s = self._uplink.row, self._uplink.age_s(now)
        if row is None or age_s >= max(bounds.KEPT_ROUNDS * self._plan.round_s, bounds.KEPT_S_MIN):
            return self._plan.wanted, NO_ROW
        return self._over_all(self._plan, row.row), LEADER if age_s < self._reported.stale_s else KEPT

    def _over_all(self, plan: Plan, row: Row) -> Row:
        """A row over the nodes that it is for; nodes that have come since, from elsewhere, get what the document says
        until the leader has counted them. Else an orphan with a row for itself alone would give it to all that join
        it."""
        known, nodes = self._uplink.row_nodes, self._nodes
        if nodes <= known:
            return row
        part = known / nodes
        return [part * each + (1 - part) * share for each, share in zip(row, plan.wanted, strict=True)]

    # -- what a node can say --------------------------------------------------------------------------------

    def overview(self, now: float) -> Overview:
        """The shares of this node and its branch."""
        listed = self._listed()
        counted = {} if self._plan is None else self._reported.counted(listed, now)
        rows = {} if self._decided is None else dict(zip(self._order, self._decided.rows, strict=True))
        held = self._reported.held
        branches = tuple(
            OfBranch(
                position=each,
                report=branch,
                said_nodes=int(held[each].branch.nodes),
                round=held[each].round,
                age_s=now - held[each].at,
                row=rows.get(each, ()),
            )
            for each, branch in counted.items()
        )
        wanted, wanted_from = ((), "") if self._plan is None else self.wanted(now)
        row = self._uplink.row
        return Overview(
            plan=self._held,
            round=self._round,
            wanted=wanted,
            wanted_from=wanted_from,
            row_round=0 if row is None else row.round,
            row_age_s=None if row is None else self._uplink.age_s(now),
            obeyed=self._obeyed,
            asked=sum(listed.values()),
            told=int(sum(branch.nodes for branch in counted.values())),
            branches=branches,
            left_out=() if self._plan is None else tuple(self._reported.left_out(listed, now)),
            order=self._order,
            decided=self._decided,
            decided_age_s=None if self._decided is None else now - self._decided_at,
            undecided=self._undecided,
            dropped=dict(self._all_dropped),
        )
