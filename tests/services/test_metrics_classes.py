"""The classes of values, by which the page colours nodes: what a node answers, and whom the document covers."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import msgspec
import pytest
import trio
from loops import over
from trio.testing import MockClock

from subord.api.handlers.control import control_app
from subord.api.handlers.web import web_app
from subord.api.http.server import Handler, Response
from subord.api.query.orders import YOUNG_NOTE, Answered, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.answer import encode_fold
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.reports.spread import Spread
from subord.core.view import Liveness
from subord.services.metrics import core
from subord.services.metrics.classes import answering, public
from subord.services.metrics.classes.answering import ClassQuestion, class_in
from subord.services.metrics.classes.document import document, thresholds_of
from subord.services.metrics.record import record_of
from subord.services.serving import service_app
from tests.api.fake_node_api import FakeNode, World

LOAD = "node_load1"
QUESTION = ClassQuestion(LOAD, (1.0, 2.0, 4.0))
HEAT = "node_hwmon_temp_celsius"


def world_of(samples: dict[int, dict[str, float]]) -> FakeNode:
    """The root of the paper's tree, which knows the fold of these samples."""
    world = World()
    world.samples = samples
    node = world.node(1)
    world.known[1] = node
    record = fold([record_of(each, position) for position, each in samples.items()])
    node.orders.folds["metrics"] = Fold(record, Coverage(11, len(samples)), 4.0, is_root=True)
    return node


def loads() -> dict[int, dict[str, float]]:
    """Of eleven nodes, with their position as load; two of them have a thermometer."""
    return {each: {LOAD: float(each)} | ({HEAT: 40.0} if each > 9 else {}) for each in range(1, 12)}


def handlers(node: FakeNode) -> dict[str, Handler]:
    return web_app(node, {**control_app(node), **service_app(node)})


async def asked(node_handlers: dict[str, Handler], name: str) -> tuple[int, Any]:
    response = await node_handlers["/v1/metrics/classes"]({"name": name})
    assert isinstance(response, Response)
    return response.status, json.loads(response.body)


# -- what a node answers --------------------------------------------------------------------------------------


@over(
    ("value", "told"),
    [(0.0, 0), (1.0, 0), (1.01, 1), (2.0, 1), (4.0, 2), (4.1, 3), (-5.0, 0), (nan, None), (inf, None)],
)
def test_a_class_is_the_number_of_thresholds_that_a_value_exceeds(value: float, told: int | None) -> None:
    assert msgspec.msgpack.decode(class_in({LOAD: value}, QUESTION)) == told


async def test_a_node_answers_with_its_last_value(autojump_clock: MockClock) -> None:
    node = World().node(1)
    payload = msgspec.msgpack.encode(QUESTION)
    assert await answering.answer(node, payload) == class_in({}, QUESTION), "it has published nothing"
    answering.keep(node, {LOAD: 3.0})
    assert await answering.answer(node, payload) == b"\x02"
    other = msgspec.msgpack.encode(ClassQuestion("other", ()))
    assert await answering.answer(node, other) == class_in({}, QUESTION)
    await trio.sleep(answering.LAST_S_MAX + 1)
    assert await answering.answer(node, payload) == class_in({}, QUESTION), "its sources hang"


async def test_what_a_node_publishes_is_what_it_answers_with() -> None:
    node = World().node(1)
    record = await core.record(node)
    assert record is not None
    cpus = record["node_cpus"]
    assert isinstance(cpus, Spread)
    question = ClassQuestion("node_cpus", (cpus.greatest - 1, cpus.greatest))
    assert await answering.answer(node, msgspec.msgpack.encode(question)) == b"\x01"


def packed(*parts: object) -> bytes:
    return msgspec.msgpack.encode(parts)


@over(
    "payload",
    [
        b"\xc1",
        b"text",
        packed(4, LOAD, (1.0,)),
        packed(3, LOAD, tuple(map(float, range(16)))),
        packed(3, LOAD, (1.0, nan)),
        packed(3, LOAD, (1.0, inf)),
        packed(3, LOAD, (2.0, 1.0)),
        packed(3, LOAD, (1.0, 1.0)),
        packed(3, "x" * 65, ()),
        packed(3, LOAD),
        b"\x91" * 2000,
    ],
)
async def test_a_question_that_cannot_be_read(payload: bytes) -> None:
    assert await answering.answer(World().node(1), payload) == answering.NOT_READ


async def test_without_a_payload_a_node_answers_with_its_fold() -> None:
    node = world_of(loads())
    handler = service_app(node)["/v1/metrics"]
    response = await handler({})
    assert isinstance(response, Response)
    assert [each["name"] for each in json.loads(response.body)["metrics"]] == [HEAT, LOAD]


# -- thresholds -----------------------------------------------------------------------------------------------


def spread(values: list[float]) -> Spread:
    return Spread.merge([Spread.of(value, at + 1) for at, value in enumerate(values)])


@over(
    ("values", "found"),
    [
        ([float(each) for each in range(101)], (5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)),
        ([7.0] * 50, ()),
        ([24_972_689_408.0] * 50, ()),
        ([0.0] * 500 + [3.0], (0.0,)),
        ([-2.0, -1.0], (-2.0,)),
        ([35.004, 35.004, 36.0], ()),
        ([], ()),
    ],
)
def test_thresholds_are_quantiles_with_nodes_on_both_sides(values: list[float], found: tuple[float, ...]) -> None:
    assert thresholds_of(spread(values)) == pytest.approx(found, rel=0.011)


def test_one_busy_node_among_many_idle_ones_has_a_class_of_its_own() -> None:
    question = ClassQuestion(LOAD, thresholds_of(spread([0.0] * 500 + [3.0])))
    assert class_in({LOAD: 0.0}, question) != class_in({LOAD: 3.0}, question)


# -- the document ---------------------------------------------------------------------------------------------


async def test_the_classes_of_a_cluster() -> None:
    node = world_of(loads())
    node.world.liveness[7] = Liveness.MISSING
    status, found = await asked(handlers(node), LOAD)
    assert status == 200
    assert found["thresholds"] == [1, 2, 3, 6, 8, 10]
    shown = {each["number"]: each["positions"] for each in found["classes"]}
    assert shown == {0: "1", 1: "2", 2: "3", 3: "4-6", 4: "8", 5: "9-10", 6: "11"}
    assert sum(each["nodes"] for each in found["classes"]) == found["told"] == 10
    assert (found["asked"], found["complete"]) == (11, False)
    assert [(each["cause"], each["addresses"]) for each in found["missing"]] == [("down", ["10.0.0.7"])]
    assert (found["least"], found["greatest"]) == (1, 11)


def test_the_classes_have_the_note_of_the_answer() -> None:
    node, question = world_of(loads()), ClassQuestion(LOAD, (1.0,))
    answer = Answer(
        targets=Ranges.of((1,)), missing=(("down", Ranges.of((1,))),), is_resolved=False, lacks="young root"
    )
    found = document(Answered(node, answer, covered(node, answer, 0.1)), question, spread([1.0]))
    assert (found.complete, found.note) == (False, YOUNG_NOTE)


async def test_a_node_without_the_metric_is_missing_in_its_classes() -> None:
    _, found = await asked(handlers(world_of(loads())), HEAT)
    assert [(each["number"], each["positions"]) for each in found["classes"]] == [(0, "10-11")]
    (missing,) = found["missing"]
    assert (missing["cause"], missing["count"], found["told"], found["asked"]) == ("no value", 9, 2, 11)


async def test_a_node_of_an_older_release_answers_with_its_fold() -> None:
    node = world_of(loads())
    node.world.lying = {4: encode_fold(node.orders.folds["metrics"]), 5: answering.NOT_READ, 6: b"\x0f"}
    _, found = await asked(handlers(node), LOAD)
    (missing,) = found["missing"]
    assert (missing["cause"], missing["addresses"]) == ("no class", ["10.0.0.4", "10.0.0.5", "10.0.0.6"])
    assert (found["told"], found["asked"], found["complete"]) == (8, 11, False)


# -- the path -------------------------------------------------------------------------------------------------


@over("name", ["", "nosuch", "x" * 5000, "node_load1\n", "subord_"])
async def test_no_node_is_asked_for_a_name_that_the_root_does_not_know(name: str) -> None:
    node = world_of(loads())
    status, found = await asked(handlers(node), name)
    assert status == 404
    assert found["error"].endswith("is known, see /v1/metrics/figures: no node was asked")
    assert len(found["error"]) < 200
    assert [payload for payload in node.orders.payloads if payload] == []


async def test_without_the_root_no_node_is_asked(autojump_clock: MockClock) -> None:
    world = World()
    world.hung.add(1)
    node = world.node(4)
    status, found = await asked(handlers(node), LOAD)
    assert (status, found["error"].partition(":")[0]) == (503, "the root has not told which metrics there are")
    assert [payload for payload in node.orders.payloads if payload] == []


async def test_many_readers_cause_few_questions(autojump_clock: MockClock) -> None:
    names = [f"node_{each}" for each in range(public.NAMES_MAX + 2)]
    node = world_of({each: dict.fromkeys(names, float(each)) for each in range(1, 12)})
    app = handlers(node)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(asked, app, names[0])
            nursery.start_soon(app["/v1/metrics/figures"], {})
    assert len(node.orders.payloads) == 2
    statuses = [(await asked(app, name))[0] for name in names]
    assert statuses == [200] * public.NAMES_MAX + [503, 503]
    assert len(list(filter(None, node.orders.payloads))) == public.NAMES_MAX
    _, refused = await asked(app, names[-1])
    assert refused["error"] == "many metrics are asked for at this node: no node was asked; try again in 9 s"
    await trio.sleep(public.CLASSES_KEPT_S)
    assert (await asked(app, names[-1]))[0] == 200


async def test_the_figures_for_the_page() -> None:
    response = await handlers(world_of(loads()))["/v1/metrics/figures"]({})
    assert isinstance(response, Response)
    found = json.loads(response.body)
    assert (found["told"], [each["count"] for each in found["metrics"]]) == (11, [2, 11])
