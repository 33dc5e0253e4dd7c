"""The tree of eleven nodes with shares: each leader has decided by the bank from made-up reports."""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.carriage.documents import SHARES as NAME
from subord.core.carriage.shares.interface import DOCUMENT, LEADER, Branch, LeftOut, OfBranch, Overview
from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.runtime.shares.state import State
from subord.services.shares.bank import Bank
from subord.services.shares.folding import folded
from tests.api.fake_node_api import FakeNode
from tests.api.tree_nodes import AT_MS, TreeNodes

SHARES = (("web", 60_000), ("batch", 30_000), ("rest", 10_000))
USED = {"web": (70.0, True), "batch": (25.0, False), "rest": (4.0, False)}
"""Usage of a node, and whether work is left over; another class uses nothing."""


class SharedNodes(TreeNodes):
    """`node` is asked by the commands."""

    service = "shares"
    document = NAME

    def nodes(self, positions: Iterable[int] = ()) -> list[FakeNode]:
        """Those, or all."""
        return [self.world.known[each] for each in positions or sorted(self.world.leaders)]

    def hold(self, version: int, *shares: tuple[str, int], principal: str = "ann", round_ms: int = 1000) -> Plan:
        """The asked node has this document. Of no shares: they are off."""
        order = order_of(version, AT_MS + version, round_ms, shares)
        self.take(order, principal)
        plan = read(order)
        assert plan is not None
        return plan

    def say(self, word: str, *positions: int, detail: str = "", notes: tuple[str, ...] = ()) -> None:
        """How these nodes follow; without positions all."""
        for each in self.nodes(positions):
            each.shares.state = State(word, detail, notes)

    def know(self, *classes: str, positions: Iterable[int] = ()) -> None:
        """The classes of these nodes, or of all."""
        for each in self.nodes(positions):
            each.shares.classes = classes

    def divide(self, plan: Plan, left_out: Iterable[LeftOut] = ()) -> None:
        """All leaders have decided; `left_out`: branches without part in it."""
        self._absent = {each.position: each for each in left_out}
        self._decide(plan, 1, plan.wanted)

    def off(self, plan: Plan) -> None:
        """All nodes have a document that says so."""
        for each in self.nodes():
            each.shares.found = each.shares.found._replace(plan=plan)

    def _subordinates(self, position: int) -> list[int]:
        return [each for each, leader in self.world.leaders.items() if leader == position]

    def _report(self, plan: Plan, position: int) -> Branch:
        used = [USED.get(name, (0.0, False)) for name in plan.classes]
        own = Branch(plan.wanted, [usage for usage, _ in used], [needy for _, needy in used], 1)
        below = [each for each in self._subordinates(position) if each not in self._absent]
        return folded([own, *(self._report(plan, each) for each in below)]) if below else own

    def _decide(self, plan: Plan, position: int, wanted: tuple[float, ...]) -> None:
        below = self._subordinates(position)
        order = (position, *(each for each in below if each not in self._absent))
        alone = self._report(plan, 11)._replace(nodes=1)
        reports = [alone, *(self._report(plan, each) for each in order[1:])]
        decided = Bank().decide(reports, wanted, [0.0] * len(wanted)) if len(order) > 1 else None
        rows = [tuple(wanted)] if decided is None else [tuple(each) for each in decided.rows]
        branches = tuple(
            OfBranch(each, report, int(report.nodes), 4, 0.25, () if decided is None else row)
            for each, report, row in zip(order, reports, rows, strict=True)
        )
        self.world.known[position].shares.found = Overview(
            plan=plan,
            round=5,
            wanted=wanted,
            wanted_from=DOCUMENT if position == 1 else LEADER,
            row_round=0 if position == 1 else 4,
            row_age_s=None if position == 1 else 0.5,
            obeyed=rows[0],
            asked=len(self.world.below(position)),
            told=sum(int(each.nodes) for each in reports),
            branches=branches,
            left_out=tuple(each for each in self._absent.values() if each.position in below),
            order=order if decided is not None else (),
            decided=decided,
            decided_age_s=None if decided is None else 0.125,
            undecided="",
            dropped={},
        )
        for each, row in zip(order[1:], rows[1:], strict=True):
            self._decide(plan, each, row)
        for each in set(below) & self._absent.keys():
            self._decide(plan, each, plan.wanted)
