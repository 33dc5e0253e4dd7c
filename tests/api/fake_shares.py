"""Nodes that hold a plan of shares, with made-up figures of their branches."""

from __future__ import annotations

from collections.abc import Sequence

from subord.core.carriage.shares.interface import DOCUMENT, Branch, Decision, LeftOut, OfBranch, Overview, Row
from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.runtime.shares.state import OBEYS, OFF, State
from tests.api.fake_node_api import FakeNode

THREE = (("web", 60_000), ("batch", 30_000), ("test", 10_000))


def plan_of(shares: Sequence[tuple[str, int]] = THREE, version: int = 7, round_s: float = 2.0) -> Plan:
    found = read(order_of(version, 0, round(1000 * round_s), shares))
    assert found is not None
    return found


def branch_of(position: int, got: Row, used: Row, nodes: int = 1, needy: Sequence[bool] = ()) -> OfBranch:
    report = Branch(got, used, needy or [False] * len(got), nodes)
    return OfBranch(position, report, nodes, round=5, age_s=1.5, row=got)


def overview_of(
    plan: Plan | None,
    branches: Sequence[OfBranch] = (),
    *,
    wanted_from: str = DOCUMENT,
    asked: int | None = None,
    left_out: Sequence[LeftOut] = (),
    undecided: str = "",
) -> Overview:
    """Of a node that decides for its branches, if it has any beside itself."""
    told = int(sum(each.report.nodes for each in branches))
    is_on = plan is not None and not plan.is_off
    decided = Decision([each.row for each in branches], ()) if len(branches) > 1 else None
    return Overview(
        plan,
        round=42 if is_on else 0,
        wanted=plan.wanted if plan is not None else (),
        wanted_from=wanted_from if is_on else "",
        row_round=0,
        row_age_s=None,
        obeyed=plan.wanted if plan is not None else (),
        asked=told if asked is None else asked,
        told=told,
        branches=tuple(branches),
        left_out=tuple(left_out),
        order=tuple(each.position for each in branches),
        decided=decided,
        decided_age_s=None if decided is None else 0.5,
        undecided=undecided,
        dropped={},
    )


def hold(node: FakeNode, found: Overview) -> None:
    """The node holds this plan, and its world goes on with this node."""
    node.world.known[node.position] = node
    node.shares.found = found
    node.shares.state = State(OFF if found.plan is not None and found.plan.is_off else OBEYS)
