"""What the page shows of elastic growth: what the queue's node answers, and the document of any node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.elastic.state import (
    MANAGES,
    OTHER_NODE,
    SENTENCES,
    STAGES,
    TEXT_CHARS_MAX,
    UNKNOWN,
    NodeState,
    Poll,
    State,
)
from subord.services.elastic.past.answering import FAULT_CHARS_MAX, SPAN_S, answer, said
from subord.services.elastic.past.public import KEPT_S, PATH, paths
from subord.services.elastic.past.words import POINTS_MAX, AskPast, decode_said, encode
from subord.services.elastic.plan import Plan
from tests.api.elastic_nodes import ElasticNodes
from tests.api.fake_node_api import FakeNode
from tests.api.served_node import document_by

NOW = 1_800_000_000.0


def poll(age_s: float, queued: int = 5) -> Poll:
    return Poll(NOW - age_s, 3, 8, queued, 12, 60.0, 30.0, 0.5)


def node(stage: str, since: float = NOW - 60, fault: str = "", tries: int = 0) -> NodeState:
    return NodeState(name="node001", stage=stage, since=since, fault=fault, tries=tries)


async def document_of(node: FakeNode) -> dict[str, Any]:
    return await document_by(paths(node)[PATH])


# -- the answer ----------------------------------------------------------------------------------------------------


def test_nodes_under_way_are_counted_by_stage() -> None:
    nodes = (
        node("serving"),
        node(""),
        node("mounting", NOW - 90, "no route", 2),
        node("mounting", NOW - 30, "timed out", 5),
        node("stopping"),
        node(UNKNOWN, 0.0),
    )
    found = said(State(word=MANAGES, nodes=nodes), (), NOW)
    assert [tuple(each.__getattribute__(name) for name in each.__struct_fields__) for each in found.stages] == [
        ("mounting", 2, 90, "timed out"),
        ("stopping", 1, 60, ""),
        (UNKNOWN, 1, 0, ""),
    ]


def test_figures_are_told_once_a_poll_has_succeeded() -> None:
    assert said(State(word=MANAGES, fault="no qmaster"), (), NOW).figures is None
    found = said(State(word=MANAGES, at=NOW - 12.7, size=4, blocked_since=NOW - 100), (), NOW).figures
    assert found is not None
    assert (found.age_s, found.size, found.blocked_s) == (12, 4, 100)


def test_of_many_polls_no_rush_is_lost() -> None:
    polls = [poll(5.0 * each, 900 if each == 777 else 5) for each in reversed(range(2000))]
    found = said(State(word=MANAGES), polls, NOW)
    assert len(found.ages_s) <= POINTS_MAX
    assert max(found.queued) == 900
    assert found.ages_s == tuple(sorted(found.ages_s, reverse=True))
    assert found.ages_s[-1] == 0


def test_only_polls_of_the_last_hours_are_shown() -> None:
    polls = [poll(SPAN_S + 60), poll(SPAN_S - 60), poll(0), poll(-3600)]
    assert said(State(word=MANAGES), polls, NOW).ages_s == (SPAN_S - 60, 0)


def test_the_largest_answer_fits_an_order() -> None:
    text = "\U0001f40c" * TEXT_CHARS_MAX
    nodes = tuple(node(stage, NOW - 1e12, text) for stage in (*STAGES, UNKNOWN))
    state = State(
        word=max(SENTENCES, key=len), detail=text, fault=text, why=(text,) * 40, nodes=nodes, at=1.0, size=COUNT_MAX
    )
    polls = [Poll(NOW - 9_000 + each, *(COUNT_MAX,) * 4, 1.0, 1.0, 1.0) for each in range(2000)]
    found = encode(said(state, polls, NOW))
    assert RESULT_BYTES_MAX // 2 < len(found) < RESULT_BYTES_MAX
    read = decode_said(found)
    assert read is not None
    assert {len(each.fault) for each in read.stages} == {FAULT_CHARS_MAX}


async def test_other_questions_are_not_answered() -> None:
    nodes = ElasticNodes()
    for payload in (b"", b"x", msgspec.msgpack.encode(["other"])):
        assert await answer(nodes.node, payload) == b""
    assert decode_said(await answer(nodes.node, encode(AskPast()))) is not None


# -- the document --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "version"),
    [(None, None), (Plan(manager=0), 3), (b"of a later release", 3), (b'{"manager":99999999}', 3)],
)
async def test_without_a_plan_in_force_no_node_is_asked(plan: Plan | bytes | None, version: int | None) -> None:
    nodes = ElasticNodes()
    if plan is not None:
        nodes.hold(3, plan)
    found = await document_of(nodes.node)
    assert (found["version"], found["off"], found["address"], found["asked"]) == (version, True, None, 0)
    assert not nodes.world.asked


async def test_any_node_shows_what_the_queues_node_says() -> None:
    nodes = ElasticNodes()
    nodes.manage(size=4, needed=5, why=("jobs wait",), nodes=[node("joining", nodes.now - 60)])
    nodes.world.known[1].elastic.polls = [Poll(nodes.now - 12, 3, 8, 5, 12, 60.0, 30.0, 0.5)]
    found = await document_of(nodes.node)
    assert (found["address"], found["state"], found["text"]) == ("10.0.0.1", MANAGES, SENTENCES[MANAGES])
    assert (found["figures"]["size"], found["figures"]["needed"], found["figures"]["max_nodes"]) == (4, 5, 20)
    assert found["why"] == ["jobs wait"]
    assert found["stages"] == [{"stage": "joining", "nodes": 1, "longest_s": 60, "fault": None}]
    assert (found["ages_s"], found["num_hosts"], found["running"], found["queued"]) == ([12], [3], [8], [5])
    assert (found["asked"], found["told"], found["complete"], found["off"]) == (1, 1, True, False)


async def test_a_node_that_does_not_manage_says_so() -> None:
    nodes = ElasticNodes()
    nodes.hold(2)
    nodes.say(State(word=OTHER_NODE, version=2))
    found = await document_of(nodes.node)
    assert (found["state"], found["figures"], found["ages_s"]) == (OTHER_NODE, None, [])


@pytest.mark.slow
async def test_a_queues_node_that_does_not_answer_is_named_with_the_cause() -> None:
    nodes = ElasticNodes()
    nodes.manage()
    nodes.world.hung = {1}
    found = await document_of(nodes.node)
    assert (found["address"], found["state"], found["complete"], found["told"]) == ("10.0.0.1", None, False, 0)
    assert found["missing"][0]["addresses"] == ["10.0.0.1"]


async def test_the_queues_node_is_asked_rarely(autojump_clock: trio.abc.Clock) -> None:
    nodes = ElasticNodes()
    nodes.manage()
    handler = paths(nodes.node)[PATH]
    for _ in range(5):
        await handler({})
    before = nodes.world.known[1].elastic.state
    nodes.say(msgspec.structs.replace(before, why=("other",)), 1)
    assert (await document_by(handler))["why"] == []
    await trio.sleep(KEPT_S)
    assert (await document_by(handler))["why"] == ["other"]
