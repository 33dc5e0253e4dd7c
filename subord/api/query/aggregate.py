"""A question to all nodes below this one: it travels down from leader to leader, and the answers come up as one.

Every leader gives its subordinates less time than it has itself, so its report is in time and names the subordinates
that were silent. The number of subordinates that are asked at once is bounded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
import trio

from subord.api.models import nodes
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.peer import BUDGET_SHARE, TreeReport, Walk, ask
from subord.core.view import Edge
from subord.runtime.net.peer_query import Topic

ASKED_AT_ONCE_MAX = 32
SHARE_ABOVE = 0.6  # of the time that is left, for one node above; the rest is for the next one
WHOLE_TREE = ("everybody",)  # the words of a question to the root: include nodes that are away
ALIVE = ("older", "broken_off")  # failures of nodes that live
Report = TypeVar("Report")


class BranchReport(msgspec.Struct, Generic[Report], frozen=True):
    """What one subordinate reports for its subtree of `nodes` nodes, itself included; or why it reports nothing."""

    address: str
    nodes: int
    report: Report | AskFailure


async def below(node: NodeApi, topic: Topic, form: type[Report], budget_s: float) -> list[BranchReport[Report]]:
    """One report for each subordinate, within `budget_s`."""
    reports: list[BranchReport[Report]] = []
    slots = trio.Semaphore(ASKED_AT_ONCE_MAX)
    until = trio.current_time() + budget_s

    async def ask_one(edge: Edge) -> None:
        address = node.settings.network.address_text_of(edge.position)
        report: Report | AskFailure = AskFailure("was not asked in time")
        with trio.move_on_at(until):  # it may wait for a slot that long
            async with slots:
                report = await ask(node, address, topic, form, max(0.0, until - trio.current_time()))
        reports.append(BranchReport(address, edge.below, report))

    async with trio.open_nursery() as nursery:
        for edge in node.snapshot().subordinates:
            nursery.start_soon(ask_one, edge)
    return reports


async def of_tree(
    node: NodeApi, topic: Topic, form: type[Report], budget_s: float, own: Callable[[float], Awaitable[Report]]
) -> TreeReport[Report]:
    """The report of the root; else that of the highest node above this one that answers; else `own`.

    `own` gets the seconds that are left. The question to the root asks for the whole tree.
    """
    path = nodes.path(node)
    root = path[0] if path else None
    walk = Walk(node, root, budget_s, SHARE_ABOVE)
    for address in path:
        report = await walk.ask(address, topic, form, WHOLE_TREE if address == root else ())
        if report is not None:
            return _tree_report(report, address, walk)
    found = _tree_report(await own(walk.left_s * BUDGET_SHARE), node.address, walk)
    if root is None and not node.roster().is_root:
        note = f"{node.address} knows no root just now: this is what {node.address} knows"
        return msgspec.structs.replace(found, note=note)
    return found


def _tree_report(report: Report, asked: str, walk: Walk) -> TreeReport[Report]:
    reasons = ", ".join(failure.reason for failure in walk.failures.values())
    silent = tuple(address for address, failure in walk.failures.items() if failure.kind not in ALIVE)
    return TreeReport(report, asked, f"{reasons}: this is what {asked} knows" if reasons else None, silent)


async def is_older(node: NodeApi, address: str, failure: AskFailure, timeout_s: float) -> bool:
    """Whether a node did not know the question: it says so, or breaks off and answers one that all versions know."""
    if failure.kind != "broken_off":
        return failure.kind == "older"
    return not isinstance(await ask(node, address, "status", object, timeout_s), AskFailure)
