"""The last minutes of the figures of a branch: what a ring keeps, at what cost, and which nodes have one."""

from __future__ import annotations

import tracemalloc
from math import inf, isnan
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from loops import over

from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.reports.algebra import Count
from subord.core.carriage.reports.coverage import Coverage
from subord.core.carriage.reports.records import fold
from subord.core.carriage.reports.reports import Fold
from subord.core.carriage.reports.spread import Spread
from subord.services.metrics import core
from subord.services.metrics.past import keeping
from subord.services.metrics.past.keeping import numbers_of
from subord.services.metrics.past.ring import METRICS_MAX, Ring, figures_of
from subord.services.metrics.past.sparkline import BARS, in_columns, sparkline
from subord.services.metrics.questions import words
from subord.services.metrics.questions.words import SLOTS, AskPast, SaidPast, decode_said
from subord.services.metrics.record import record_of
from tests.api.fake_node_api import FakeNode, World

DOCS = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
NAME_BYTES = SLOTS * 4 * 4
HEAD_BYTES = SLOTS * 3 * 8


def every(_: str) -> bool:
    return True


def figure(value: float) -> tuple[float, ...]:
    return value, value - 1, value, value + 1


def test_it_tells_what_it_took_and_how_long_ago() -> None:
    ring = Ring()
    for at in range(10, 40, 10):
        ring.add(at, at, 30, {"load": figure(at)})
    found = ring.read(35.0, 60.0, "mean", every)
    assert (found.known_s, found.ages_s) == (25.0, (25.0, 15.0, 5.0))
    assert (found.told, found.asked) == ((10, 20, 30), (30, 30, 30))
    assert list(found.values["load"]) == [10, 20, 30]
    assert list(ring.read(35.0, 60.0, "greatest", every).values["load"]) == [11, 21, 31]
    later = ring.read(35.0, 15.0, "least", every)
    assert (later.known_s, list(later.values["load"])) == (25.0, [19, 29])


def test_an_empty_ring_knows_nothing() -> None:
    assert Ring().read(1.0, 60.0, "mean", every) == (0.0, (), (), (), {})


def test_it_keeps_the_last_moments_only() -> None:
    ring = Ring()
    for at in range(SLOTS + 7):
        ring.add(at, 1, 1, {"load": figure(at)})
    found = ring.read(SLOTS + 7.0, inf, "mean", every)
    assert len(ring) == len(found.ages_s) == SLOTS
    assert list(found.values["load"]) == list(range(7, SLOTS + 7))
    assert found.known_s == SLOTS


def test_a_moment_without_a_metric_has_no_value_of_it() -> None:
    ring = Ring()
    ring.add(1, 1, 1, {"a": figure(1)})
    ring.add(2, 1, 1, {"b": figure(2)})
    found = ring.read(3, inf, "mean", every).values
    assert found["a"][0] == 1
    assert isnan(found["a"][1])
    assert isnan(found["b"][0])
    assert found["b"][1] == 2


def test_a_metric_that_no_moment_has_takes_no_memory() -> None:
    ring = Ring()
    ring.add(0, 1, 1, {"gone": figure(1), "stays": figure(1)})
    for at in range(1, SLOTS + 1):
        ring.add(at, 1, 1, {"stays": figure(1)})
    assert ring.metrics == 1
    assert ring.bytes == HEAD_BYTES + NAME_BYTES


def test_metrics_have_a_bound_and_the_first_stay() -> None:
    ring = Ring()
    names = [f"m{each:03}" for each in range(METRICS_MAX + 5)]
    ring.add(0, 1, 1, dict.fromkeys(names, figure(1)))
    ring.add(1, 1, 1, {"a": figure(1), **dict.fromkeys(names, figure(1))})
    assert sorted(ring.read(2, inf, "mean", every).values) == names[:METRICS_MAX]
    assert ring.bytes == HEAD_BYTES + METRICS_MAX * NAME_BYTES


def test_the_memory_of_a_ring_is_what_the_documents_say() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert "A ring takes 2,880 bytes for each metric" in text
    assert "and 4,320 for all: 120 kB with 40 metrics, and at most 373 kB with 128" in text
    usual = [f"node_metric_{each}" for each in range(40)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        ring = Ring()
        for at in range(SLOTS + 1):
            ring.add(at, 500, 500, dict.fromkeys(usual, figure(at)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (HEAD_BYTES, NAME_BYTES) == (4_320, 2_880)
    assert ring.bytes == HEAD_BYTES + 40 * NAME_BYTES == 119_520
    assert HEAD_BYTES + METRICS_MAX * NAME_BYTES == 372_960
    assert after - before <= ring.bytes + 40 * 400


def test_the_figures_of_a_fold() -> None:
    record = fold([{"load": Spread.of(each, each), "big": Spread.of(1e300, each)} for each in (1, 2, 6)])
    strange = {"count": Count(7), "a\nb": Spread.of(1.0, 1), "no name": Spread.of(1.0, 1), "none": Spread()}
    found = figures_of({**record, **strange})
    assert found["load"] == (3.0, 1.0, 2.0, 6.0)
    assert all(isnan(each) for each in found["big"])
    assert set(found) == {"load", "big"}


# -- which nodes keep one ---------------------------------------------------------------------------------------


def folded(value: float, nodes: int = 11, *, is_root: bool = True) -> Fold:
    return Fold(record_of({"node_load1": value}, 1), Coverage(nodes, nodes), 0.0, is_root=is_root)


def kept(node: FakeNode, seconds: int = 600) -> SaidPast:
    data = keeping.past(node, AskPast("", seconds, "mean"))  # type: ignore[arg-type]
    said = decode_said(data, SaidPast)
    assert said is not None
    return said


def look(node: FakeNode, value: float, **said: Any) -> None:
    node.orders.folds["metrics"] = folded(value, **said)
    keeping.keep(node)  # type: ignore[arg-type]


class Clock:
    """Of the process."""

    now = 1000.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(keeping, "monotonic", lambda: clock.now)
    return clock


def test_the_root_knows_since_it_looks(clock: Clock) -> None:
    node = World().node(1)
    assert (kept(node).known_ms, kept(node).ages_ms) == (0, ())
    for value in (1.0, 2.0):
        look(node, value)
        clock.pass_by(10)
    said = kept(node)
    assert (said.is_root, said.known_ms, said.ages_ms, said.below) == (True, 20_000, (20_000, 10_000), (2, 3))
    assert list(numbers_of(said.series["node_load1"])) == [1, 2]
    assert kept(node, 15).ages_ms == (10_000,)


def test_a_new_root_does_not_invent_what_it_has_not_seen(clock: Clock) -> None:
    world = World()
    node = world.known[2] = world.node(2)
    look(node, 1.0, is_root=False)
    clock.pass_by(10)
    assert not kept(node).is_root
    world.leaders = {2: None, 4: 2, 5: 2}
    look(node, 7.0)
    clock.pass_by(5)
    said = kept(node)
    assert (said.is_root, said.known_ms, said.ages_ms) == (True, 5_000, (5_000,))
    assert list(numbers_of(said.series["node_load1"])) == [7]


def test_a_new_root_may_not_know_all_members() -> None:
    world = World()
    node = world.known[1] = world.node(1)
    look(node, 1.0)
    assert not kept(node).is_young
    world.newly_placed = {1}
    assert kept(node).is_young


def test_a_root_that_is_none_any_more_forgets() -> None:
    world = World({1: None, 2: 1})
    node = world.known[2] = world.node(2)
    world.leaders = {2: None}
    look(node, 7.0)
    world.leaders = {1: None, 2: 1}
    look(node, 3.0, is_root=False)
    assert list(numbers_of(kept(node).series["node_load1"])) == [3]


def test_nodes_further_below_keep_nothing() -> None:
    world = World()
    node = world.known[4] = world.node(4)
    look(node, 1.0, is_root=False)
    assert kept(node).ages_ms == ()
    world.leaders[4] = 1
    look(node, 1.0, is_root=False)
    assert len(kept(node).ages_ms) == 1
    world.leaders[4] = 2
    look(node, 1.0, is_root=False)
    assert kept(node).ages_ms == ()


def test_a_node_without_a_place_keeps_what_it_has() -> None:
    world = World()
    node = world.known[2] = world.node(2)
    look(node, 1.0, is_root=False)
    world.leaders[2] = None
    look(node, 9.0, is_root=False)
    assert list(numbers_of(kept(node).series["node_load1"])) == [1]


def test_the_longest_answer_fits_a_result() -> None:
    node = World().node(1)
    many = {f"metric_{each:03}_{'x' * 50}": float(each) for each in range(METRICS_MAX)}
    node.orders.folds["metrics"] = Fold(record_of(many, 1), Coverage(1 << 40, 1 << 40), 0.0, is_root=True)
    keeping.keep(node)  # type: ignore[arg-type]
    ring = keeping._kept[node].ring  # type: ignore[index]
    for _ in range(SLOTS):
        ring.add(monotonic(), 1 << 40, 1 << 40, dict.fromkeys(many, figure(1)))
    data = keeping.past(node, AskPast("", words.HISTORY_S_MAX, "mean"))  # type: ignore[arg-type]
    said = decode_said(data, SaidPast)
    assert len(data) <= RESULT_BYTES_MAX
    assert said is not None
    assert said.left_out + len(said.series) == METRICS_MAX
    assert said.left_out


async def test_every_record_of_a_root_is_a_moment() -> None:
    node = World().node(1)
    node.orders.folds["metrics"] = folded(1.0)
    await core.record(node)  # type: ignore[arg-type]
    node.metrics = type(node.metrics)(publish=False)
    await core.record(node)  # type: ignore[arg-type]
    assert len(kept(node).ages_ms) == 2


# -- what other nodes say ---------------------------------------------------------------------------------------

GOOD = [2, [2, 3], True, 10, [5], [1], [1], {"a": b"1234"}, 0]


@over(
    ("place", "value"),
    [
        (0, 3),
        (1, [0]),
        (3, -1),
        (4, [5, 6]),
        (4, [1] * (SLOTS + 1)),
        (5, []),
        (7, {"a": b"123"}),
        (7, {"a" * 65: b"1234"}),
        (7, {str(each): b"1234" for each in range(257)}),
        (8, -1),
    ],
)
def test_what_is_no_history(place: int, value: object) -> None:
    assert decode_said(words.encode(GOOD), SaidPast) is not None
    bad = [*GOOD[:place], value, *GOOD[place + 1 :]]
    assert decode_said(words.encode(bad), SaidPast) is None


@over(
    "payload",
    [
        b"",
        b"\xc1",
        words.encode([3, ""]),
        words.encode([1, "x" * 65]),
        words.encode([2, "", 0, "mean"]),
        words.encode([2, "", words.HISTORY_S_MAX + 1, "mean"]),
        words.encode([2, "", 60, "mode"]),
        b"\x91" * 9999,
    ],
)
def test_what_is_no_question(payload: bytes) -> None:
    assert words.decode_ask(payload) is None


# -- sparklines -------------------------------------------------------------------------------------------------


@over(
    ("values", "line"),
    [
        ((), ""),
        ((None, None), "  "),
        ((3.0,), "▄"),
        ((3.0, None, 3.0), "▄ ▄"),
        ((0.0, 7.0, None, 3.5), "▁█ ▅"),
        ((-2.0, -1.0), "▁█"),
        (tuple(map(float, range(8))), BARS),
    ],
)
def test_a_sparkline(values: tuple[float | None, ...], line: str) -> None:
    assert sparkline(values) == line


@over(
    ("values", "ages_s", "found"),
    [
        ((1.0, 2.0, 3.0, 4.0), (35.0, 25.0, 15.0, 5.0), [1.5, 3.5]),
        ((1.0, None, None, None), (35.0, 25.0, 15.0, 5.0), [1.0, None]),
        ((9.0, 1.0), (40.0, 0.0), [None, 1.0]),
        ((), (), [None, None]),
    ],
)
def test_values_in_parts_of_a_period(
    values: tuple[float | None, ...], ages_s: tuple[float, ...], found: list[float | None]
) -> None:
    assert in_columns(values, ages_s, 40.0, 2) == found
