"""Services with a report: when nodes publish, and what a command at any node says of the fold of the root."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from conditions import until

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.algebra import Count, Quantiles
from subord.core.carriage.reports.answer import decode_fold
from subord.core.carriage.reports.coverage import STALE, Coverage, Missing, widened
from subord.core.carriage.reports.kinds import Value
from subord.core.carriage.reports.reports import Fold
from subord.services import serving
from subord.services.contract import Answered, Publishing, ReportService
from subord.services.folds import SPREAD, fold_reading, pause_s, publish_forever
from subord.services.serving import of_coverage
from tests.api.fake_node_api import World

INTERVAL_S = 10.0


class ToyDocument(CoverageDocument, frozen=True, kw_only=True):
    nodes: int
    median: float | None


async def record(node: NodeApi) -> dict[str, Value]:
    return {"nodes": Count(1), "load": Quantiles.of(node.snapshot().position)}


def document(answered: Answered) -> CoverageDocument:
    nodes, median = answered.value("nodes", Count).value, answered.value("load", Quantiles).at(0.5)
    return of_coverage(ToyDocument, answered, nodes=nodes, median=median)


WHOLE = Fold({}, Coverage(11, 11), 1.0, is_root=True)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered service that is nothing but a report."""
    module: Any = ModuleType("subord.services.toy.core")
    module.SERVICE = ReportService(Publishing(record, INTERVAL_S), document)
    monkeypatch.setitem(sys.modules, "subord.services.toy", ModuleType("subord.services.toy"))
    monkeypatch.setitem(sys.modules, "subord.services.toy.core", module)
    monkeypatch.setattr(serving, "NAMES", ("toy",))


async def asked(node: Any) -> dict[str, Any]:
    response: Any = await serving.service_app(node)["/v1/toy"]({})
    found: dict[str, Any] = msgspec.json.decode(response.body)
    return found


async def test_any_node_gets_the_fold_of_the_root() -> None:
    world = World()
    node = world.node(9)
    coverage = Coverage(11, 9, (Missing(STALE, 2, Ranges.of((5, 11)).flat()),))
    node.orders.folds["toy"] = Fold({"nodes": Count(9), "load": Quantiles.of(3.0)}, coverage, 4.25)
    found = await asked(node)
    assert node.orders.given[0][:2] == ("toy", Ranges.of((1,)))
    assert (found["asked"], found["told"], found["complete"], found["oldest_ms"]) == (11, 9, False, 4250)
    assert (found["nodes"], found["median"]) == (9, pytest.approx(3.0, rel=0.02))
    (missing,) = found["missing"]
    assert (missing["cause"], missing["count"], missing["addresses"]) == (STALE, 2, ["10.0.0.5", "10.0.0.11"])
    assert "three intervals" in missing["text"]


async def test_a_payload_is_answered_by_the_service() -> None:
    async def answer(_: NodeApi, payload: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        return payload[::-1]

    node = World().node(1)
    node.orders.folds["toy"] = Fold({"nodes": Count(7)}, Coverage(7, 7), 0.0)
    read = fold_reading(node, "toy", answer)
    assert await read(b"abc") == b"cba"
    assert decode_fold(await read(b"")).record == {"nodes": Count(7)}


async def test_a_fold_with_nodes_that_may_count_twice_is_not_complete() -> None:
    node = World().node(1)
    node.orders.folds["toy"] = WHOLE._replace(coverage=Coverage(11, 11, (), 1))
    assert not (await asked(node))["complete"]


async def test_only_the_fold_of_a_root_is_complete() -> None:
    """A node without leader, or a former root, knows its branch alone."""
    node = World().node(1)
    node.orders.folds["toy"] = WHOLE
    assert (await asked(node))["complete"]
    node.orders.folds["toy"] = WHOLE._replace(is_root=False)
    assert not (await asked(node))["complete"]


async def test_a_fold_without_all_fields_is_not_complete() -> None:
    node = World().node(1)
    node.orders.folds["toy"] = WHOLE._replace(left_out=1)
    assert not (await asked(node))["complete"]


async def test_of_a_fold_that_cannot_be_read_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.api.fake_node_api.encode_fold", lambda _: b"no fold")
    node = World().node(9)
    node.orders.folds["toy"] = WHOLE
    found = await asked(node)
    assert (found["asked"], found["told"], found["complete"]) == (1, 0, False)
    assert [(each["cause"], each["addresses"]) for each in found["missing"]] == [("unreadable fold", ["10.0.0.1"])]


async def test_ranges_of_a_liar_give_few_addresses() -> None:
    node = World().node(1)
    for count, named in {2: 2, 1 << 40: NAMED_MAX}.items():
        missing = Missing(STALE, count, Ranges(((1, 1 << 30),)).flat())
        node.orders.folds["toy"] = WHOLE._replace(coverage=Coverage(11, 9, (missing,)))
        assert len((await asked(node))["missing"][0]["addresses"]) == named


@pytest.mark.slow
async def test_without_the_root_the_document_says_why() -> None:
    world = World()
    world.hung.add(1)
    found = await asked(world.node(9))
    assert (found["asked"], found["told"], found["nodes"], found["median"]) == (1, 0, 0, None)
    assert [(each["cause"], each["addresses"]) for each in found["missing"]] == [("no coordinator", ["10.0.0.1"])]


async def test_a_value_of_another_kind_is_none() -> None:
    node = World().node(1)
    node.orders.folds["toy"] = Fold({"load": Count(3)}, Coverage(3, 3), 1.0)
    assert (await asked(node))["median"] is None


def test_the_root_adds_members_that_are_not_in_the_tree() -> None:
    before = Coverage(5, 4, (Missing("no report", 1, Ranges.of((3,)).flat()),), 0)
    after = widened(before, {"down": Ranges.of((7, 8))})
    assert (after.asked, after.told) == (7, 4)
    assert {each.cause: (each.count, str(each.nodes)) for each in after.missing} == {
        "no report": (1, "3"),
        "down": (2, "7-8"),
    }


@pytest.mark.parametrize("position", [1, 96, 97, 4000])
@pytest.mark.parametrize("wall_s", [0.0, 3.0, 1_000_000_009.99])
def test_all_nodes_publish_in_the_same_tenth_of_an_interval(position: int, wall_s: float) -> None:
    at = (wall_s + pause_s(position, INTERVAL_S, wall_s)) % INTERVAL_S
    assert min(at, abs(at - INTERVAL_S)) <= SPREAD * INTERVAL_S + 1e-6
    assert 0 < pause_s(position, INTERVAL_S, wall_s) <= INTERVAL_S + 0.02


async def test_a_record_that_fails_is_counted_and_the_next_is_published(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    node: Any = World().node(4)
    tried = []

    async def sometimes(_: NodeApi) -> dict[str, Value]:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("no load")
        return {"nodes": Count(1)}

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish_forever, node, "toy", Publishing(sometimes, 2.0))
        await until(lambda: node.orders.published, "a record")
        nursery.cancel_scope.cancel()
    assert node.counters.dropped["service_failed"] == 1
    assert node.orders.published[0] == ("toy", {"nodes": Count(1)}, 2.0)
    assert "the report toy failed" in caplog.text
