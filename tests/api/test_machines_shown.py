"""What the page shows of virtual machines: what the queue's node answers, and the document of any node."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio

from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.machines.state import (
    KINDS_MAX,
    MANAGES,
    NAME_CHARS_MAX,
    OTHER_NODE,
    SENTENCES,
    SERVERS_MAX,
    TEXT_CHARS_MAX,
    Amount,
    JobState,
    KindCount,
    SeenServer,
    State,
)
from subord.services.machines.core import SERVICE
from subord.services.machines.deciding.iteration import Decision
from subord.services.machines.managing.telling import with_decision
from subord.services.machines.model import Job
from subord.services.machines.plan import Plan
from subord.services.machines.shown.answering import FAULT_CHARS_MAX, answer, said
from subord.services.machines.shown.public import KEPT_S, PATH, paths
from subord.services.machines.shown.words import (
    NOTES_MAX,
    AskShown,
    SaidPart,
    SaidWhy,
    decode_said,
    encode,
)
from subord.services.machines.telling.words import decode_told
from tests.api.fake_node_api import FakeNode
from tests.api.machines_nodes import PLAN, MachinesNodes
from tests.api.served_node import document_by

NOW = 1_800_000_000.0
KINDS = (KindCount(type="alma", on=3, off=1, open=1, busy=2, coming=1), KindCount(type="", on=1, left_alone=1))


def seen(name: str = "10.0.0.2", **fields: Any) -> SeenServer:
    given: dict[str, Any] = {
        "asked_at": NOW - 7.9,
        "have": Amount(16, 30_720, 0, 64),
        "used": Amount(9, 18_432, 0, 3),
        "kinds": (KindCount(type="alma", on=2, cores=8, memory=16_384), KindCount(type="", on=0, off=3)),
    }
    return SeenServer(name=name, **{**given, **fields})


def managing(**fields: Any) -> State:
    return State(word=MANAGES, **{"at": NOW - 4.2, "kinds": KINDS, "servers": (seen(),), "servers_all": 1, **fields})


async def document_of(node: FakeNode) -> dict[str, Any]:
    return await document_by(paths(node)[PATH])


# -- the answer ----------------------------------------------------------------------------------------------------


def test_a_server_is_told_by_the_types_that_are_on() -> None:
    (found,) = said(managing(), NOW).servers
    assert (found.name, found.have.cores, found.used.memory, found.age_s) == ("10.0.0.2", 16, 18_432, 7)
    assert found.parts == (SaidPart(0, 2, 8, 16_384),)
    assert (found.is_over, found.is_drained, found.fault) == (False, False, "")


@pytest.mark.parametrize("part", range(4))
def test_a_server_is_overbooked_by_whatever_it_lacks(part: int) -> None:
    excess = Amount(*(int(each == part) for each in range(4)))
    (found,) = said(managing(servers=(seen(excess=excess),)), NOW).servers
    assert found.is_over


def test_a_server_that_never_answered_has_no_age() -> None:
    (found,) = said(managing(servers=(SeenServer(name="x", fault="is silent"),)), NOW).servers
    assert (found.age_s, found.fault, found.parts) == (None, "is silent", ())


def test_jobs_that_get_nothing_are_counted_by_reason() -> None:
    jobs = (
        JobState(id="1", why="it starts", tasks=50),
        JobState(id="2", why="no room", is_unmet=True),
        JobState(id="3", why="6 are the most", tasks=7, is_unmet=True),
        JobState(id="4", why="no room", tasks=2, is_unmet=True),
    )
    found = said(managing(jobs=jobs, unmet=15), NOW)
    assert found.whys == (SaidWhy("6 are the most", 7), SaidWhy("no room", 3))
    assert found.whys_left_out == 5


def test_the_manager_says_which_jobs_get_nothing() -> None:
    waiting = (Job("1", "long"), Job("2", "long", tasks=3))
    decision = Decision((), {"1": "it starts", "2": "no room"}, (), frozenset({"2"}))
    found = said(with_decision(managing(), waiting, decision, (), PLAN), NOW)
    assert found.whys == (SaidWhy("no room", 3),)
    assert found.whys_left_out == 0


def test_figures_are_told_once_there_was_a_round() -> None:
    assert said(State(word=MANAGES), NOW).figures is None
    assert said(managing(is_unread=True, round=1), NOW).figures is None, "the numbers of jobs would be false"
    found = said(managing(round=12, waiting=4, unmet=2, overbooked=1), NOW).figures
    assert found is not None
    assert (found.age_s, found.round, found.waiting, found.unmet, found.servers) == (4, 12, 4, 2, 1)


def test_types_that_have_no_room_are_one_part() -> None:
    names = ["\U0001f40c" * (NAME_CHARS_MAX - 3) + f"{number}" for number in range(KINDS_MAX)]
    kinds = tuple(KindCount(type=name, on=1, cores=2, memory=3) for name in names)
    found = said(managing(kinds=kinds, servers=(seen(kinds=kinds),)), NOW)
    told = len(found.kinds)
    assert 0 < told < KINDS_MAX
    (server,) = found.servers
    rest = KINDS_MAX - told
    assert server.parts[-1] == SaidPart(told, rest, 2 * rest, 3 * rest)
    assert sum(each.on for each in server.parts) == KINDS_MAX


def test_a_hundred_servers_with_five_types_have_room() -> None:
    kinds = tuple(KindCount(type=f"type-{number}", on=4, cores=16, memory=65_536) for number in range(5))
    servers = tuple(seen(f"10.0.{number}.200", kinds=kinds) for number in range(100))
    found = said(managing(kinds=kinds, servers=servers), NOW)
    assert (len(found.servers), found.servers_left_out) == (100, 0)


def test_the_largest_answer_fits_an_order_and_counts_what_is_left_out() -> None:
    text = "\U0001f40c" * TEXT_CHARS_MAX
    name = "\U0001f40c" * (NAME_CHARS_MAX - 3)
    kinds = tuple(
        KindCount(type=f"{name}{number}", **dict.fromkeys(KindCount.__struct_fields__[1:], COUNT_MAX))
        for number in range(KINDS_MAX + 1)
    )
    most = Amount(*(COUNT_MAX,) * 4)
    server = SeenServer(name=name, fault=text, have=most, used=most, excess=most, asked_at=1.0, kinds=kinds)
    state = State(
        word=max(SENTENCES, key=len),
        detail=text,
        hindrance=text,
        fault=text,
        at=1.0,
        round=COUNT_MAX,
        unmet=COUNT_MAX,
        jobs=tuple(
            JobState(id="1", why=f"{text[:-3]}{number}", tasks=COUNT_MAX, is_unmet=True) for number in range(99)
        ),
        notes=(text,) * 40,
        kinds=kinds,
        have=most,
        used=most,
        servers=(server,) * SERVERS_MAX,
        servers_left_out=COUNT_MAX,
    )
    data = encode(said(state, NOW))
    assert RESULT_BYTES_MAX // 2 < len(data) <= RESULT_BYTES_MAX
    found = decode_said(data)
    assert found is not None
    assert 0 < len(found.servers) < SERVERS_MAX
    assert {len(each.fault) for each in found.servers} == {FAULT_CHARS_MAX}
    assert found.notes_left_out == 40 - len(found.notes) >= 40 - NOTES_MAX
    left_out = said(msgspec.structs.replace(state, servers_left_out=7), NOW)
    assert left_out.servers_left_out == 7 + SERVERS_MAX - len(left_out.servers)


async def test_other_questions_are_not_of_the_page() -> None:
    nodes = MachinesNodes()
    for payload in (b"", b"x", msgspec.msgpack.encode(["other"])):
        assert await answer(nodes.node, payload) == b""
        assert decode_told(await SERVICE.answer(nodes.node, payload)) is not None
    assert decode_said(await SERVICE.answer(nodes.node, encode(AskShown()))) is not None


# -- the document --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "version"),
    [(None, None), (Plan(manager=0), 3), (b"of a later release", 3), (b'{"manager":99999999}', 3)],
)
async def test_without_a_plan_in_force_no_node_is_asked(plan: Plan | bytes | None, version: int | None) -> None:
    nodes = MachinesNodes()
    if plan is not None:
        nodes.hold(3, plan)
    found = await document_of(nodes.node)
    assert (found["version"], found["off"], found["address"], found["asked"]) == (version, True, None, 0)
    assert not nodes.world.asked


async def test_any_node_shows_what_the_queues_node_says() -> None:
    nodes = MachinesNodes()
    server = seen(asked_at=nodes.now - 7, excess=Amount(0, 1, 0, 0), fault="is silent")
    nodes.manage(
        kinds=KINDS,
        servers=(server, SeenServer(name="10.0.0.3", is_drained=True)),
        servers_all=2,
        waiting=3,
        unmet=2,
        jobs=(JobState(id="4711", why="no room", tasks=2, is_unmet=True),),
        notes=("a note",),
        hindrance="servers are asked first",
    )
    found = await document_of(nodes.node)
    assert (found["address"], found["state"], found["text"]) == ("10.0.0.1", MANAGES, SENTENCES[MANAGES])
    assert (found["figures"]["waiting"], found["figures"]["servers"], found["figures"]["round"]) == (3, 2, 12)
    assert found["whys"] == [{"why": "no room", "jobs": 2}]
    assert (found["notes"], found["hindrance"], found["fault"]) == (["a note"], "servers are asked first", None)
    assert [each["type"] for each in found["types"]] == ["alma", ""]
    first, second = found["servers"]
    assert first == {
        "name": "10.0.0.2",
        "have": {"cores": 16, "memory_mb": 30_720},
        "used": {"cores": 9, "memory_mb": 18_432},
        "overbooked": True,
        "drained": False,
        "fault": "is silent",
        "age_s": 7,
        "parts": [{"type": "alma", "on": 2, "cores": 8, "memory_mb": 16_384}],
    }
    assert (second["drained"], second["fault"], second["age_s"]) == (True, None, None)
    assert (found["asked"], found["told"], found["complete"], found["off"]) == (1, 1, True, False)
    assert "4711" not in json.dumps(found)


async def test_a_node_that_does_not_decide_says_so() -> None:
    nodes = MachinesNodes()
    nodes.hold(2)
    nodes.say(State(word=OTHER_NODE, version=2))
    found = await document_of(nodes.node)
    assert (found["state"], found["figures"], found["servers"]) == (OTHER_NODE, None, [])


@pytest.mark.slow
async def test_a_queues_node_that_does_not_answer_is_named_with_the_cause() -> None:
    nodes = MachinesNodes()
    nodes.manage()
    nodes.world.hung = {1}
    found = await document_of(nodes.node)
    assert (found["address"], found["state"], found["complete"], found["told"]) == ("10.0.0.1", None, False, 0)
    assert found["missing"][0]["addresses"] == ["10.0.0.1"]


async def test_the_queues_node_is_asked_rarely(autojump_clock: trio.abc.Clock) -> None:
    nodes = MachinesNodes()
    nodes.manage()
    handler = paths(nodes.node)[PATH]
    for _ in range(5):
        await handler({})
    nodes.manage(notes=("other",))
    assert (await document_by(handler))["notes"] == []
    await trio.sleep(KEPT_S)
    assert (await document_by(handler))["notes"] == ["other"]
