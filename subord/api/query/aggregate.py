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
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.view import Edge
from subord.runtime.net.peer_query import BROKE_OFF, RUNS, Topic
from subord.wire.codec import UNREADABLE

ASKED_AT_ONCE_MAX = 32
SHARE = 0.8  # of the time of this node, for its subordinates
SHARE_ABOVE = 0.6  # of the time that is left, for one node above; the rest is for the next one
WHOLE_TREE = ("everybody",)  # the words of a question to the root: include nodes that are away
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

    async def ask(edge: Edge) -> None:
        address = node.settings.network.address_text_of(edge.position)
        report: Report | AskFailure = AskFailure("was not asked in time")
        with trio.move_on_at(until):  # it may wait for a slot that long
            async with slots:
                left_s = max(0.0, until - trio.current_time())
                report = read(await node.ask(address, Question(topic, (), left_s * SHARE), left_s), form)
        reports.append(BranchReport(address, edge.below, report))

    async with trio.open_nursery() as nursery:
        for edge in node.snapshot().subordinates:
            nursery.start_soon(ask, edge)
    return reports


class TreeReport(msgspec.Struct, Generic[Report], frozen=True):
    """The report of `asked`; `note`: why it is not that of the whole tree, None if it is.

    `silent`: nodes above this one that did not answer.
    """

    report: Report
    asked: str
    note: str | None
    silent: tuple[str, ...]


async def of_tree(
    node: NodeApi, topic: Topic, form: type[Report], budget_s: float, own: Callable[[float], Awaitable[Report]]
) -> TreeReport[Report]:
    """The report of the root; else that of the highest node above this one that answers; else `own`.

    `own` gets the seconds that are left. The question to the root asks for the whole tree.
    """
    until = trio.current_time() + budget_s
    failures: list[str] = []
    silent: list[str] = []
    path = nodes.path(node)
    for number, address in enumerate(path):
        words = () if number else WHOLE_TREE
        left_s = max(0.0, until - trio.current_time())
        report = await _asked(node, address, Question(topic, words), form, left_s * SHARE_ABOVE)
        if not isinstance(report, AskFailure):
            return TreeReport(report, address, _note(failures, address), tuple(silent))
        if not report.reason.startswith((RUNS, BROKE_OFF)):  # these nodes live
            silent.append(address)
        failures.append(f"{address}{'' if number else ' (root)'} {report.reason}")
    if not path and not node.roster().is_root:
        failures.append(f"{node.address} knows no root just now")
    left_s = max(0.0, until - trio.current_time()) * SHARE
    return TreeReport(await own(left_s), node.address, _note(failures, node.address), tuple(silent))


async def _asked(
    node: NodeApi, address: str, question: Question, form: type[Report], timeout_s: float
) -> Report | AskFailure:
    question = msgspec.structs.replace(question, budget_s=timeout_s * SHARE)
    # `ask` keeps to its time by contract; a bug there must not block the command.
    with trio.move_on_after(timeout_s):
        return read(await node.ask(address, question, timeout_s), form)
    return AskFailure("does not answer")


def _note(failures: list[str], asked: str) -> str | None:
    return f"{', '.join(failures)}: this is what {asked} knows" if failures else None


def read(answer: bytes | AskFailure, form: type[Report]) -> Report | AskFailure:
    """The answer, decoded and checked."""
    if isinstance(answer, AskFailure):
        return answer
    try:
        return msgspec.json.decode(answer, type=form)
    except UNREADABLE:
        return AskFailure("answers something else than was asked")


async def is_older(node: NodeApi, address: str, failure: AskFailure, timeout_s: float) -> bool:
    """Whether a node did not know the question: it says so, or breaks off and answers one that all versions know."""
    if failure.reason.startswith(RUNS):
        return True
    if not failure.reason.startswith(BROKE_OFF):
        return False
    with trio.move_on_after(timeout_s):
        return not isinstance(await node.ask(address, Question("status"), timeout_s), AskFailure)
    return False
