"""The handlers of the control socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from loops import over
from trio.testing import MockClock

from subord.api.handlers.control import control_app, control_changes
from subord.config.schema import NodeConfig
from tests.api.fake_node_api import World


async def ask(world: World, position: int, path: str, **query: str) -> tuple[int, dict[str, Any]]:
    response = await control_app(world.node(position))[path](query)
    return response.status, json.loads(response.body)


async def test_status_and_counters_are_of_the_asked_node() -> None:
    world = World()
    status, document = await ask(world, 5, "/v1/status")
    assert (status, document["address"], document["real_level"]) == (200, "10.0.0.5", 2)
    status, document = await ask(world, 5, "/v1/counters")
    assert (status, document["exchanges"], document["messages_sent"]) == (200, 2, 0)
    assert world.asked == []


async def test_the_tree_comes_nested_or_as_rows() -> None:
    world = World()
    _, document = await ask(world, 11, "/v1/tree")
    assert (document["asked"], document["nodes"], document["roots"][0]["address"]) == ("10.0.0.1", 11, "10.0.0.1")
    _, document = await ask(world, 11, "/v1/tree", form="rows")
    assert [row["real_level"] for row in document["rows"]] == [0, 1, 2, 3, 3, 2, 3, 3, 1, 2, 2]


@pytest.mark.parametrize(
    ("address", "status", "owner"),
    [(None, 200, "10.0.0.5"), ("10.0.0.5", 200, "10.0.0.5"), ("10.0.0.9", 200, "10.0.0.9")],
)
async def test_why_of_any_node(address: str | None, status: int, owner: str) -> None:
    got, document = await ask(World(), 5, "/v1/why", **({"address": address} if address else {}))
    assert (got, document["address"]) == (status, owner)


@pytest.mark.parametrize("answer", [b'{"address": "\xff"}', b"[" * 200_000, b'{"position": 1e999}'])
async def test_bad_answers_of_other_nodes_become_failures(answer: bytes) -> None:
    world = World()
    world.lying |= {1: answer, 9: answer}
    status, _ = await ask(world, 5, "/v1/why", address="10.0.0.9")
    assert status == 502
    status, tree = await ask(world, 5, "/v1/tree")
    assert (status, tree["complete"]) == (200, False)


@pytest.mark.parametrize(
    ("address", "how", "status", "sentence"),
    [
        ("192.0.2.1", "", 404, "'192.0.2.1' is not an address of the network 10.0.0.0/16: no node was asked"),
        ("nonsense", "", 404, "'nonsense' is not an address of the network 10.0.0.0/16: no node was asked"),
        ("10.0.0.9", "gone", 504, "10.0.0.9 does not answer"),
        ("10.0.0.9", "hung", 504, "10.0.0.9 does not answer"),
        ("10.0.0.9", "lying", 502, "10.0.0.9 answers something else than was asked (does it run this version?)"),
    ],
)
async def test_why_without_an_answer(
    address: str, how: str, status: int, sentence: str, autojump_clock: MockClock
) -> None:
    world = World()
    world.gone |= {9} if how == "gone" else set()
    world.hung |= {9} if how == "hung" else set()
    world.lying |= {9: b"[]"} if how == "lying" else {}
    with trio.fail_after(1):
        assert await ask(world, 5, "/v1/why", address=address) == (status, {"error": sentence})


@over(
    ("query", "status", "jobs"),
    [
        ({}, 200, 1),
        ({"weight": "2.5"}, 200, 2.5),
        ({"weight": "1000000"}, 200, 1e6),
        ({"weight": "x"}, 400, 0),
        ({"weight": ""}, 400, 0),
        ({"weight": "9" * 10_000}, 409, 0),
        ({"weight": "nan"}, 409, 0),
        ({"weight": "-1"}, 409, 0),
        ({"weight": "0"}, 409, 0),
    ],
)
async def test_a_job_is_counted_by_its_weight(query: dict[str, str], status: int, jobs: float) -> None:
    node = World().node(5)
    response = await control_changes(node)["/v1/job-done"](query)
    document = json.loads(response.body)
    assert (response.status, node.counters.jobs_done) == (status, jobs)
    if status == 200:
        assert document == {"schema_version": 1, "jobs_done": jobs, "jobs_per_hour": None}
    else:
        assert document["error"].endswith("nothing was counted")


async def test_a_job_is_refused_where_there_is_another_source() -> None:
    world = World()
    world.given = NodeConfig(performance=3.0)
    node = world.node(5)
    response = await control_changes(node)["/v1/job-done"]({})
    assert (response.status, node.counters.jobs_done) == (409, 0)
    assert "node.performance" in json.loads(response.body)["error"]
    _, counters = await ask(world, 5, "/v1/counters")
    assert (counters["jobs_done"], counters["jobs_per_hour"]) == (0, None)


@pytest.mark.parametrize("query", [{}, {"level": ""}, {"level": "loud"}, {"level": "INFO"}])
async def test_an_unknown_log_level_is_refused(query: dict[str, str]) -> None:
    node = World().node(4)
    response = await control_changes(node)["/v1/log-level"](query)
    assert response.status == 400
    assert json.loads(response.body)["error"] == (
        "the level must be one of debug, info, warning, error: nothing was changed"
    )
    assert node.log.source == "node.log_level"
