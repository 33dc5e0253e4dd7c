"""A question to everybody below us: it goes down from leader to leader, and the answers come up as one.

Intuition: a roll call by platoons. Every leader asks its own and waits a little less long than it has itself, so that
its report is in time with the names of those who were silent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
import trio

from subord.api.models import nodes
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.core.state.view import Edge
from subord.runtime.net.peer_query import BROKE_OFF, RUNS, Topic
from subord.wire.codec import UNREADABLE

ASKED_AT_ONCE_MAX = 32
SHARE = 0.8  # of our time for those below us
SHARE_ABOVE = 0.6  # of the time that is left for one above us, so there is some for the next
EVERYBODY = ("everybody",)  # words of a question to the root: also about those who are away
Report = TypeVar("Report")


class Heard(msgspec.Struct, Generic[Report], frozen=True):
    """What one subordinate says for its subtree of so many `nodes`, itself included; or why it says nothing."""

    address: str
    nodes: int
    report: Report | AskFailure


async def below(shown: NodeApi, topic: Topic, form: type[Report], budget_s: float) -> list[Heard[Report]]:
    """One entry for each subordinate, within `budget_s`."""
    heard: list[Heard[Report]] = []
    room = trio.Semaphore(ASKED_AT_ONCE_MAX)
    until = trio.current_time() + budget_s

    async def ask(edge: Edge) -> None:
        address = shown.settings.network.address_text_of(edge.position)
        report: Report | AskFailure = AskFailure("was not asked in time")
        with trio.move_on_at(until):  # those before us may have kept the room full
            async with room:
                left_s = max(0.0, until - trio.current_time())
                report = read(await shown.ask(address, Question(topic, (), left_s * SHARE), left_s), form)
        heard.append(Heard(address, edge.below, report))

    async with trio.open_nursery() as nursery:
        for edge in shown.snapshot().subordinates:
            nursery.start_soon(ask, edge)
    return heard


class Widest(msgspec.Struct, Generic[Report], frozen=True):
    """The report of `asked`; `note`: why it is not that of the whole tree, None if it is.

    `silent`: those above us who did not answer.
    """

    report: Report
    asked: str
    note: str | None
    silent: tuple[str, ...]


async def widest(
    shown: NodeApi, topic: Topic, form: type[Report], budget_s: float, own: Callable[[float], Awaitable[Report]]
) -> Widest[Report]:
    """What the root says of everybody; if it does not answer, who stands highest above us that does; else `own`,
    which is given the seconds that are left. The root is told that everybody is meant."""
    until = trio.current_time() + budget_s
    failures: list[str] = []
    silent: list[str] = []
    path = nodes.path(shown)
    for number, address in enumerate(path):
        words = () if number else EVERYBODY
        left_s = max(0.0, until - trio.current_time())
        report = await _asked(shown, address, Question(topic, words), form, left_s * SHARE_ABOVE)
        if not isinstance(report, AskFailure):
            return Widest(report, address, _note(failures, address), tuple(silent))
        if not report.reason.startswith((RUNS, BROKE_OFF)):  # these live
            silent.append(address)
        failures.append(f"{address}{'' if number else ' (root)'} {report.reason}")
    if not path and not shown.roster().is_root:
        failures.append(f"{shown.address} knows no root just now")
    left_s = max(0.0, until - trio.current_time()) * SHARE
    return Widest(await own(left_s), shown.address, _note(failures, shown.address), tuple(silent))


async def _asked(
    shown: NodeApi, address: str, question: Question, form: type[Report], timeout_s: float
) -> Report | AskFailure:
    question = msgspec.structs.replace(question, budget_s=timeout_s * SHARE)
    # `ask` keeps to its time by contract; a bug there must not make the command hang.
    with trio.move_on_after(timeout_s):
        return read(await shown.ask(address, question, timeout_s), form)
    return AskFailure("does not answer")


def _note(failures: list[str], asked: str) -> str | None:
    return f"{', '.join(failures)}: this is what {asked} knows" if failures else None


def read(answer: bytes | AskFailure, form: type[Report]) -> Report | AskFailure:
    """Checked against the form before anybody makes use of it."""
    if isinstance(answer, AskFailure):
        return answer
    try:
        return msgspec.json.decode(answer, type=form)
    except UNREADABLE:
        return AskFailure("answers something else than was asked")


async def is_older(shown: NodeApi, address: str, failure: AskFailure, timeout_s: float) -> bool:
    """Whether it did not know the question: it says so, or it breaks off and answers one that was always there."""
    if failure.reason.startswith(RUNS):
        return True
    if not failure.reason.startswith(BROKE_OFF):
        return False
    with trio.move_on_after(timeout_s):
        return not isinstance(await shown.ask(address, Question("status"), timeout_s), AskFailure)
    return False
