"""What a node answers of its branch and of itself: the bounds of the answer, and what counts."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from loops import over

from subord.config.schema import MetricsConfig
from subord.core.carriage.documents import NEVER_MS, PLAN, Document
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.orders import Order, Verdict
from subord.core.carriage.plan import order_of
from subord.core.carriage.reports.answer import decode_fold, encode_fold
from subord.core.carriage.reports.coverage import NO_REPORT, Coverage
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.services.metrics import core
from subord.services.metrics.branches import answering
from subord.services.metrics.branches.answering import METRICS_MAX, answer, remember
from subord.services.metrics.plan.carried import patterns_of
from subord.services.metrics.questions.words import AskBranch, SaidBranch, decode_said, encode
from subord.services.metrics.record import record_of
from subord.services.metrics.wanted import USUAL, expanded, fits
from tests.api.fake_node_api import FakeNode, World


async def said(node: Any, pattern: str) -> tuple[SaidBranch, Fold, Fold]:
    data = await answer(node, encode(AskBranch(pattern)))
    assert len(data) <= RESULT_BYTES_MAX
    found = decode_said(data, SaidBranch)
    assert found is not None
    return found, decode_fold(found.fold), decode_fold(found.own)


def root(names: list[str], positions: range) -> FakeNode:
    node = World().node(1)
    draw = random.Random(1)
    record = fold([record_of({name: draw.uniform(1e-6, 1e12) for name in names}, each) for each in positions])
    node.orders.folds["metrics"] = Fold(record, Coverage(len(positions), len(positions)), 4.0, is_root=True)
    return node


async def test_of_its_branch_and_of_itself() -> None:
    node: Any = root(["a1", "a2", "b"], range(1, 12))
    remember(node, record_of({"a1": 5.0, "b": 6.0}, 1), 10.0)
    found, branch, own = await said(node, "a*")
    assert found.below == (2, 3)
    assert (set(branch.record), branch.coverage.told, branch.is_root) == ({"a1", "a2"}, 11, True)
    assert (own.record, own.coverage) == (record_of({"a1": 5.0}, 1), Coverage(1, 1))
    _, branch, own = await said(node, "nosuch")
    assert (branch.record, own.record) == ({}, {})


async def test_the_first_of_many_metrics_have_room() -> None:
    """Of a large cluster, with values that fill the sketches."""
    names = [f"metric_{each:02}_{'x' * 50}" for each in range(METRICS_MAX + 3)]
    node: Any = root(names, range(1, 1_001))
    remember(node, record_of(dict.fromkeys(names, 1.0), 1), 10.0)
    _, branch, own = await said(node, "")
    assert set(branch.record) <= set(names[:METRICS_MAX])
    assert branch.left_out >= 3
    assert set(own.record) <= set(names[:METRICS_MAX])
    found = next(iter(branch.record.values()), None)
    assert found is None or found.count == 1_000  # type: ignore[union-attr]


@over(("age_s", "counts"), [(0.0, True), (29.0, True), (30.0, False), (3600.0, False)])
async def test_an_old_record_of_the_node_does_not_count(age_s: float, counts: bool) -> None:
    node: Any = root(["a"], range(1, 4))
    remember(node, record_of({"a": 5.0}, 1), 10.0)
    kept = answering._own[node]
    answering._own[node] = kept._replace(at=kept.at - age_s)
    _, _, own = await said(node, "a")
    assert bool(own.record) is counts
    assert own.coverage.told == int(counts)
    if not counts:
        (missing,) = own.coverage.missing
        assert (missing.cause, [*missing.nodes]) == (NO_REPORT, [1])


async def test_what_is_published_is_what_counts() -> None:
    node: Any = World().node(1)
    await core.record(node)
    node.orders.folds["metrics"] = root(["node_load1"], range(1, 2)).orders.folds["metrics"]
    _, _, own = await said(node, "node_load1")
    assert set(own.record) == {"node_load1"}
    node.metrics = MetricsConfig(publish=False)
    await core.record(node)
    _, _, own = await said(node, "node_load1")
    assert own.coverage.told == 0


@over("payload", [b"\xc1", b"x" * 100, encode([7]), encode([1, "x" * 65])])
async def test_a_payload_that_cannot_be_read_is_answered_with_nothing(payload: bytes) -> None:
    assert await answer(World().node(1), payload) == b""  # type: ignore[arg-type]


# -- the paths of the control socket ----------------------------------------------------------------------------


@over(
    ("path", "query"),
    [
        ("branches", {"name": "x" * 65}),
        ("history", {"name": "x" * 65}),
        ("history", {"seconds": "soon"}),
        ("history", {"seconds": "0"}),
        ("history", {"seconds": "1801"}),
        ("history", {"seconds": "-5"}),
        ("history", {"seconds": "9" * 5000}),
        ("history", {"of": "mode"}),
    ],
)
async def test_of_a_wrong_request_no_node_is_asked(path: str, query: dict[str, str]) -> None:
    node: Any = World().node(4)
    response: Any = await core.SERVICE.paths(node)[f"/v1/metrics/{path}"](query)
    assert response.status == 400
    assert b"no node was asked" in response.body
    assert node.orders.given == []


async def test_the_root_and_its_subordinates_are_asked_and_no_others() -> None:
    node: Any = World().node(9)
    await core.SERVICE.paths(node)["/v1/metrics/branches"]({})
    assert [str(targets) for _, targets, _ in node.orders.given] == ["1", "2-3"]
    node.orders.given.clear()
    await core.SERVICE.paths(node)["/v1/metrics/history"]({"seconds": "60"})
    assert [str(targets) for _, targets, _ in node.orders.given] == ["1"]


async def test_a_root_alone_has_no_branches() -> None:
    node: Any = World({1: None}).node(1)
    for path, alone in (("branches", True), ("history", False)):
        response: Any = await core.SERVICE.paths(node)[f"/v1/metrics/{path}"]({"by": "branch"})
        (row,) = msgspec.json.decode(response.body)["branches"]
        assert (row["address"], row.get("alone", False)) == ("10.0.0.1", alone)
    assert [str(targets) for _, targets, _ in node.orders.given] == ["1", "1"]


async def test_subordinates_outside_the_network_are_not_asked() -> None:
    world = World()
    world.lying[1] = encode(SaidBranch(*([encode_fold(Fold({}, Coverage(1, 1), 0.0))] * 2), (2, 70_000)))
    node: Any = world.node(9)
    await core.SERVICE.paths(node)["/v1/metrics/branches"]({})
    assert [str(targets) for _, targets, _ in node.orders.given] == ["1", "2"]


# -- the plan of a node -----------------------------------------------------------------------------------------


@over(
    ("patterns", "carried"),
    [
        (("a", "b*"), ("a", "b*")),
        (("a", "a"), ("a",)),
        (("@usual",), USUAL),
        (("mine", "@usual", "node_load1"), ("mine", *USUAL)),
        (("node_cpus", "@usual"), ("node_cpus", *(each for each in USUAL if each != "node_cpus"))),
    ],
)
def test_the_usual_metrics_stand_in_a_plan(patterns: tuple[str, ...], carried: tuple[str, ...]) -> None:
    assert expanded(patterns) == carried


@over(
    ("name", "pattern", "is_meant"),
    [
        ("node_load1", "node_load1", True),
        ("node_load1", "node_load?", False),
        ("node_load1", "node_load*", True),
        ('x{a="[1]"}', 'x{a="[1]"}', True),
        ("x1", "x[1]", False),
        ('x{a="what?"}', 'x{a="what?"}', True),
        ("Node_load1", "node_load1", False),
    ],
)
def test_only_the_asterisk_stands_for_other_text(name: str, pattern: str, is_meant: bool) -> None:
    assert fits(name, pattern) is is_meant


@pytest.mark.parametrize(
    ("order", "carried"),
    [
        (None, USUAL),
        (order_of(1, 1, ["mine", "@usual"]), ("mine", *USUAL)),
        (Order(PLAN, 1, 1, NEVER_MS, b"\xc1"), USUAL),
    ],
)
def test_what_a_node_carries(order: Order | None, carried: tuple[str, ...]) -> None:
    node: Any = World().node(4)
    if order is not None:
        node.tracker.take([(Document(*order, b"s"), Verdict("", "ann"))])
    assert patterns_of(node) == carried
