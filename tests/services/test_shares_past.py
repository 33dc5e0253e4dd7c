"""The last half hour of shares: the ring of a node, what the root answers, and the document of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from loops import over

from subord.api.query.orders import YOUNG_NOTE
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.core.carriage.shares.bounds import CLASS_CHARS_MAX, CLASSES_MAX
from subord.core.carriage.shares.interface import LEADER, LeftOut, Overview
from subord.runtime.shares.state import NO_AGENT, NONE, State
from subord.services.shares.past import keeping
from subord.services.shares.past.public import FURTHER, KEPT_S, PATH, paths
from subord.services.shares.past.ring import EVERY_S, SLOTS, Ring
from subord.services.shares.past.ring import KEPT_S as RING_S
from subord.services.shares.past.words import (
    AskPast,
    SaidClass,
    SaidCurve,
    SaidLeftOut,
    SaidPast,
    decode_said,
    encode,
)
from tests.api.fake_node_api import FakeNode, World
from tests.api.fake_shares import THREE, branch_of, hold, overview_of, plan_of
from tests.api.served_node import document_by

BRANCHES = (
    branch_of(1, (60, 30, 10), (50, 30, 5)),
    branch_of(2, (70, 20, 10), (70, 10, 10), nodes=3, needy=(False, True, False)),
)


class Clock:
    """Of the rings."""

    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(keeping, "monotonic", lambda: found.now)
    keeping._kept.clear()
    yield found
    keeping._kept.clear()


def root_with(found: Overview) -> FakeNode:
    node = World().node(1)
    hold(node, found)
    return node


def kept(node: FakeNode) -> Ring | None:
    found = keeping._kept.get(node)
    return None if found is None else found.ring


async def said(node: FakeNode) -> SaidPast | None:
    return decode_said(await keeping.answer(node, encode(AskPast())))


async def document_of(node: FakeNode) -> dict[str, Any]:
    return await document_by(paths(node)[PATH])


# -- the ring --------------------------------------------------------------------------------------------------------


def test_a_node_keeps_what_its_whole_branch_got_and_used(clock: Clock) -> None:
    node = root_with(overview_of(plan_of(), BRANCHES, asked=5))
    keeping.keep(node)
    clock.now += EVERY_S
    keeping.keep(node)
    ring = kept(node)
    assert ring is not None
    assert [list(each) for each in ring.series(1)] == [[3000, 3000], [2250, 2250], [1500, 1500]]
    assert list(ring.ages_s(clock.now)) == [EVERY_S, 0]
    assert (list(ring.told), list(ring.asked)) == ([4, 4], [5, 5])


def test_a_ring_is_bounded_in_moments_and_time() -> None:
    ring = Ring(("a", "b"))
    for number in range(3 * SLOTS):
        ring.add(float(number), number, number, (50, 50), None)
    assert len(ring) == SLOTS
    assert ring.told[0] == 2 * SLOTS
    assert all(len(each) == SLOTS for each in ring.series(1))
    ring.add(3 * SLOTS + RING_S, 1, 1, (50, 50), None)
    assert len(ring) == 1, "those before are too old"
    assert ring.series(0) == ring.series(1)


def test_figures_beyond_what_a_node_has_are_bounded() -> None:
    """A member may report anything that its leader accepts."""
    ring = Ring(("a",))
    ring.add(0.0, 1, 1, (1e9,), keeping.figures_of([branch_of(1, (-5,), (700.0,))]))
    assert [list(each) for each in ring.series(0)] == [[0xFFFE], [0], [0xFFFE]]


@over("round_s", [0.3, 2.0, 30.0])
def test_a_round_has_one_moment_at_most(clock: Clock, round_s: float) -> None:
    node = root_with(overview_of(plan_of(round_s=round_s), BRANCHES))
    for _ in range(61):
        keeping.keep(node)
        clock.now += EVERY_S
    ring = kept(node)
    assert ring is not None
    assert len(ring) == 1 + 300 // max(EVERY_S, round_s)
    keeping._kept.clear()


@over(
    "after",
    [
        overview_of(None),
        overview_of(plan_of(())),
        overview_of(plan_of(), BRANCHES[:1], wanted_from=LEADER),
    ],
)
def test_without_a_plan_or_decisions_nothing_is_kept(after: Overview) -> None:
    keeping._kept.clear()
    node = root_with(overview_of(plan_of(), BRANCHES))
    keeping.keep(node)
    assert kept(node) is not None
    node.shares.found = after
    keeping.keep(node)
    assert kept(node) is None


def test_while_no_shares_were_ever_set_the_branches_are_not_looked_at() -> None:
    node = World().node(1)
    node.shares.overview = None  # type: ignore[method-assign, assignment]
    assert node.shares.state.word == NONE
    keeping.keep(node)
    assert kept(node) is None


def test_a_root_without_agent_keeps_what_it_decides(clock: Clock) -> None:
    del clock
    node = root_with(overview_of(plan_of(), BRANCHES))
    node.shares.state = State(NO_AGENT)
    keeping.keep(node)
    assert kept(node) is not None


@over(
    ("after", "is_kept"),
    [
        (overview_of(plan_of(version=8), BRANCHES), True),
        (overview_of(plan_of((("web", 50_000), ("batch", 30_000), ("test", 20_000)), 8), BRANCHES), True),
        (overview_of(plan_of((("web", 60_000), ("night", 30_000), ("test", 10_000)), 8), BRANCHES), False),
        (overview_of(plan_of(), BRANCHES, wanted_from=LEADER), False),
    ],
)
def test_other_classes_and_another_role_begin_anew(after: Overview, is_kept: bool) -> None:
    keeping._kept.clear()
    node = root_with(overview_of(plan_of(), BRANCHES))
    keeping.keep(node)
    before = kept(node)
    node.shares.found = after
    keeping.keep(node)
    assert (kept(node) is before) is is_kept


async def test_a_node_is_looked_at_again_and_again(autojump_clock: trio.abc.Clock) -> None:
    del autojump_clock
    node = root_with(overview_of(plan_of(), BRANCHES))
    looked: list[float] = []
    overview = node.shares.overview

    def counted() -> Overview:
        looked.append(trio.current_time())
        return overview()

    node.shares.overview = counted  # type: ignore[method-assign]
    with trio.move_on_after(3.5 * EVERY_S):
        await keeping.keep_forever(node)
    assert [each - looked[0] for each in looked] == [0, EVERY_S, 2 * EVERY_S, 3 * EVERY_S]


# -- the answer ------------------------------------------------------------------------------------------------------


async def test_the_root_answers_with_the_present_and_the_past(clock: Clock) -> None:
    node = root_with(overview_of(plan_of(), BRANCHES))
    keeping.keep(node)
    clock.now += 2.5
    found = await said(node)
    assert found is not None
    assert (found.is_root, found.version, found.round_ms, found.every_ms) == (True, 7, 2000, 5000)
    assert found.classes[1] == SaidClass("batch", 3000, 2250, 1500, is_needy=True)
    assert [each.name for each in found.curves] == ["web", "batch", "test"]
    assert found.ages_ms == (2500,)
    assert list(keeping.numbers_of(found.curves[0].used)) == [6500]


async def test_the_past_of_a_new_root_is_not_complete(clock: Clock) -> None:
    node = root_with(overview_of(plan_of(), BRANCHES))
    node.world.newly_placed = {1}
    keeping.keep(node)
    found = await document_of(node)
    assert (found["told"], found["asked"], found["complete"]) == (4, 4, False)
    assert found["note"] == YOUNG_NOTE


@over("payload", [b"", b"\xff", b"\x91\x01", b"\x92\xa4past\x01", b"\x91\xa4fast", encode(1)])
async def test_other_questions_are_not_answered(payload: bytes) -> None:
    node = root_with(overview_of(plan_of(), BRANCHES))
    expected = payload == b"\x92\xa4past\x01"  # with a field of a later release
    assert bool(await keeping.answer(node, payload)) is expected


async def test_without_a_plan_the_answer_is_empty() -> None:
    assert await keeping.answer(World().node(1), encode(AskPast())) == b""


async def test_the_largest_answer_fits_an_order(clock: Clock) -> None:
    """With as many classes, moments and branches left out as there may be."""
    names = [f"{number:03}".ljust(CLASS_CHARS_MAX, "x") for number in range(CLASSES_MAX)]
    shares = [(name, 100_000 // CLASSES_MAX) for name in names]
    shares[0] = (names[0], 100_000 - sum(share for _, share in shares[1:]))
    plan = plan_of(shares)
    row = [655.34] * CLASSES_MAX
    left_out = [LeftOut(POSITION_MAX, COUNT_MAX, "x" * 32)] * 2000
    left_out = [each._replace(cause=f"{number % 9:032}") for number, each in enumerate(left_out)]
    branches = [branch_of(each, row, row, nodes=1 << 50) for each in (1, 2)]
    node = root_with(overview_of(plan, branches, asked=COUNT_MAX, left_out=left_out, undecided="x" * 5000))
    for _ in range(SLOTS + 5):
        keeping.keep(node)
        clock.now += EVERY_S
    answer = await keeping.answer(node, encode(AskPast()))
    found = decode_said(answer)
    assert found is not None
    assert (len(found.classes), len(found.curves), len(found.ages_ms)) == (CLASSES_MAX, 6, SLOTS)
    assert len(answer) <= RESULT_BYTES_MAX


GOOD = SaidPast(True, 7, 2000, 1, 1, 0, "", (), (), 5000, (0,), (1,), (1,), ())


@over(
    "wrong",
    [
        {"ages_ms": (1, 2)},
        {"nodes_told": ()},
        {"curves": (SaidCurve("web", b"\0\0", b"\0\0", b"\0"),)},
        {"curves": (SaidCurve("web", b"\0\0", b"\0\0", b"\0\0"),) * 7},
        {"classes": (SaidClass("<b>", 1, 1, 1, is_needy=False),)},
        {"classes": (SaidClass("web", 70_000, 1, 1, is_needy=False),)},
        {"left_out": (SaidLeftOut("stale", 1, (0,)),)},
        {"told": -1},
        {"version": -1},
    ],
)
def test_what_makes_no_sense_is_not_read(wrong: dict[str, Any]) -> None:
    fields = {name: getattr(GOOD, name) for name in GOOD.__struct_fields__}
    assert decode_said(encode(GOOD)) == GOOD
    assert decode_said(encode(["past", *({**fields, **wrong}).values()])) is None


# -- the document of the page ----------------------------------------------------------------------------------------


@over(("found", "version"), [(overview_of(None), None), (overview_of(plan_of((), version=9)), 9)])
async def test_without_a_plan_in_force_no_node_is_asked(found: Overview, version: int | None) -> None:
    node = World().node(5)
    hold(node, found)
    document = await document_of(node)
    assert (document["version"], document["classes"], document["complete"]) == (version, [], True)
    assert node.orders.given == []


async def test_any_node_shows_what_the_root_decides(clock: Clock) -> None:
    root = root_with(overview_of(plan_of(), BRANCHES))
    keeping.keep(root)
    clock.now += 3
    node = root.world.node(9)
    hold(node, overview_of(plan_of(), wanted_from=LEADER))
    found = await document_of(node)
    assert found["address"] == "10.0.0.1"
    assert (found["version"], found["round_s"], found["every_s"]) == (7, 2, 5)
    assert found["classes"][1] == {"name": "batch", "wanted": 30, "got": 22.5, "used": 15, "needy": True}
    assert found["curves"][1] == {"name": "batch", "wanted": [30], "got": [22.5], "used": [15]}
    assert (found["ages_s"], found["nodes_told"], found["nodes_asked"]) == ([3], [4], [4])
    assert (found["told"], found["asked"], found["complete"], found["missing"]) == (4, 4, True, [])
    assert found["oldest_ms"] >= 1500


async def test_what_is_left_out_is_named_or_counted(clock: Clock) -> None:
    del clock
    left_out = (LeftOut(3, 4, "stale"), LeftOut(6, 1, "nonsense", "is wrong"), LeftOut(7, 1, "stale"))
    node = root_with(overview_of(plan_of(), BRANCHES, asked=12, left_out=left_out))
    found = await document_of(node)
    assert (found["told"], found["asked"], found["complete"]) == (4, 12, False)
    missing = {each["cause"]: (each["count"], each["addresses"]) for each in found["missing"]}
    assert missing == {"stale": (5, ["10.0.0.3", "10.0.0.7"]), "nonsense": (1, ["10.0.0.6"]), FURTHER: (2, [])}
    assert all(each["text"] != each["cause"] for each in found["missing"])


async def test_told_and_missing_are_asked_whatever_the_root_says() -> None:
    left_out = (LeftOut(3, 400, "stale"), LeftOut(1 << 60, 5, "nonsense"))
    node = root_with(overview_of(plan_of(), BRANCHES, asked=10, left_out=left_out))
    found = await document_of(node)
    assert found["told"] + sum(each["count"] for each in found["missing"]) == found["asked"] == 10
    node.shares.found = overview_of(plan_of(), BRANCHES, asked=2)
    found = await document_of(node)
    assert found["told"] <= found["asked"]


async def test_one_that_is_no_root_does_not_speak_for_all() -> None:
    node = root_with(overview_of(plan_of(), BRANCHES, wanted_from=LEADER))
    found = await document_of(node)
    assert (found["told"], found["asked"], found["complete"]) == (4, 4, False)


@pytest.mark.parametrize(
    "lie", [None, b"", b"\xff", encode(["past", True, 1])], ids=["silent", "empty", "no", "short"]
)
async def test_without_the_root_the_wanted_shares_are_shown(
    autojump_clock: trio.abc.Clock, lie: bytes | None
) -> None:
    del autojump_clock
    world = World()
    if lie is None:
        world.hung.add(1)
    else:
        world.lying[1] = lie
    node = world.node(5)
    hold(node, overview_of(plan_of(), wanted_from=LEADER))
    found = await document_of(node)
    assert (found["address"], found["told"], found["asked"], found["complete"]) == (None, 0, 1, False)
    assert [each["addresses"] for each in found["missing"]] == [["10.0.0.1"]]
    assert [(each["name"], each["wanted"], each["got"]) for each in found["classes"]] == [
        (name, share / 1000, None) for name, share in THREE
    ]


async def test_the_root_is_asked_rarely(autojump_clock: trio.abc.Clock) -> None:
    del autojump_clock
    root = root_with(overview_of(plan_of(), BRANCHES))
    handler = paths(root)[PATH]
    for _ in range(5):
        await handler({})
    assert len(root.orders.given) == 1
    await trio.sleep(KEPT_S)
    await handler({})
    assert len(root.orders.given) == 2
