"""From door to door: in which order, and how fast (protocol section 3)."""

from __future__ import annotations

from itertools import islice, pairwise
from math import inf
from random import Random

import pytest

from subord.core.address.network import Network
from subord.core.discovery.probe_order import all_targets, common_targets, near_targets
from subord.core.discovery.prober import FAST_AGAIN_MAX, ROW, ROWS, TARGETS_MAX, Prober
from subord.core.state.context import Context
from subord.core.state.settings import LAN, PRESETS, Settings, TimingName

NODE = 40_000
Steps = list[tuple[float, int | None]]


def new(position: int = NODE, network: str = "10.0.0.0/16", timing: TimingName = "lan") -> tuple[Context, Prober]:
    settings = Settings(network=Network.parse(network), fanout=2, guest_slots=2, timing_name=timing)
    context = Context(settings, position, 1000, Random(1), now=100.0)
    return context, Prober(context)


def walked(context: Context, prober: Prober, targets: int, *, known_only: bool = False) -> Steps:
    """The next doors, each at its time: (time, door); a step at which there is none is (time, None)."""
    taken: Steps = []
    while len(taken) < targets:
        context.now = max(context.now, prober.next_at)
        taken += [(context.now, target) for target in prober.step(known_only=known_only) or (None,)]
        assert prober.next_at > context.now, "two steps in one instant"
    return taken


def targets(steps: Steps) -> list[int | None]:
    return [target for _, target in steps]


def knocked(context: Context, prober: Prober, targets: int) -> Steps:
    """The next doors, without the steps at which there is none."""
    taken: Steps = []
    while len(taken) < targets:
        taken += [step for step in walked(context, prober, 1) if step[1] is not None]
    return taken[:targets]


def gaps(steps: Steps) -> list[float]:
    return [after - before for (before, _), (after, _) in pairwise(steps)]


def test_nobody_walks_before_the_search_begins() -> None:
    context, prober = new()
    assert prober.next_at == inf
    prober.begin((), context.now + 5)
    assert prober.next_at == context.now + 5
    prober.stop()
    assert (prober.next_at, len(prober)) == (inf, 0)


def test_known_doors_come_first_then_those_near_then_the_common_list() -> None:
    context, prober = new()
    prober.begin((7, 900, 7, NODE), context.now)
    near = near_targets(NODE, context.mapping)
    assert len(prober) == 2 + len(near)
    expected = [7, 900, *near, *islice(common_targets(65534), 1, 1 + 3 * ROW)]
    assert targets(knocked(context, prober, len(expected))) == expected
    prober.add((55, 7), context.now)  # whoever becomes known later is next
    assert targets(walked(context, prober, ROW))[:3] == [
        55,
        7,
        *islice(common_targets(65534), 1 + 3 * ROW, 2 + 3 * ROW),
    ]


@pytest.mark.parametrize("timing", PRESETS)
def test_far_away_it_knocks_at_rows_of_doors_and_takes_its_time_before_and_after(timing: TimingName) -> None:
    context, prober = new(timing=timing)
    near, knock_s = len(near_targets(NODE, context.mapping)), PRESETS[timing].knock_s
    prober.begin((), context.now)
    pace = gaps(knocked(context, prober, near + 3 * ROW))
    row = [0.0] * (ROW - 1)
    assert pace == pytest.approx([*[knock_s] * (near - 1), ROW * knock_s, *(*row, ROW * knock_s) * 2, *row])


def test_a_door_that_is_heard_of_after_two_rows_waits_for_its_turn_too() -> None:
    context, prober = new()
    prober.begin((), context.now)
    knocked(context, prober, len(prober) + ROW)
    first = context.now
    knocked(context, prober, ROW)
    prober.add((9,), context.now)
    assert knocked(context, prober, 1) == [(pytest.approx(first + 2 * ROW * LAN.knock_s), 9)]


def test_who_is_heard_of_between_two_rows_goes_with_the_next() -> None:
    context, prober = new()
    prober.begin((), context.now)
    knocked(context, prober, len(prober) + ROW)
    begun = context.now
    context.now += LAN.knock_s
    prober.add((9,), context.now)
    row = knocked(context, prober, ROW)
    assert row[0] == (pytest.approx(begun + ROW * LAN.knock_s), 9)
    assert {at for at, _ in row} == {row[0][0]}
    assert not prober.has_asked()  # who was just asked there may answer yet


def test_who_need_not_look_near_waits_for_seeds_all_the_same() -> None:
    context, prober = new()
    prober.begin((9,), context.now)
    assert not prober.has_asked(near=False)
    knocked(context, prober, 1)
    assert not prober.has_asked(near=False)
    context.now += LAN.answer_s
    assert (prober.has_asked(near=False), prober.has_asked()) == (True, False)
    knocked(context, prober, 1)  # near us: of no concern
    assert prober.has_asked(near=False)


def test_in_a_lan_at_most_twelve_doors_fall_into_any_second() -> None:
    context, prober = new()
    prober.begin(range(1, 60), context.now)
    times = [at for at, _ in knocked(context, prober, 700)]
    assert max(sum(begin <= at <= begin + 1 for at in times) for begin in times) == 12


def test_the_brisk_days_are_counted_and_then_it_strolls() -> None:
    context, prober = new()
    near = len(near_targets(NODE, context.mapping))
    prober.begin((), context.now)
    steps = knocked(context, prober, near + LAN.walk_fast_max + 30)
    brisk, strolled = steps[: near + LAN.walk_fast_max], steps[near + LAN.walk_fast_max :]
    assert brisk[-1][0] - brisk[near][0] <= LAN.walk_fast_max * LAN.knock_s
    assert gaps(strolled) == pytest.approx([LAN.walk_interval_s] * 29)
    assert not prober.is_fast
    assert targets(strolled) == list(islice(all_targets(NODE, context.mapping, 65534), 30))


def test_who_knows_somebody_lower_knocks_only_where_somebody_is_known() -> None:
    context, prober = new()
    prober.begin((7,), context.now)
    brisk = [7, None, None, None]
    steps = walked(context, prober, 4, known_only=True)
    assert targets(steps) == brisk
    assert gaps(steps) == pytest.approx([LAN.knock_s, LAN.patience_s, LAN.patience_s])
    assert (
        targets(walked(context, prober, 3)) == near_targets(NODE, context.mapping)[:3]
    )  # nothing was lost meanwhile


def test_who_has_a_meeting_place_is_calm() -> None:
    context, prober = new()
    near = near_targets(NODE, context.mapping)
    prober.begin((7,), context.now)
    prober.slow_down()
    assert not prober.is_fast
    steps = walked(context, prober, 1 + len(near) + 10)
    assert targets(steps)[: 1 + len(near)] == [7, *near]  # the doors around us all the same
    assert gaps(steps)[-9:] == pytest.approx([LAN.walk_interval_s] * 9)


def test_an_orphan_knocks_only_below_itself_and_is_not_brisk_for_long() -> None:
    context, prober = new()
    near = [p for p in near_targets(NODE, context.mapping) if p < NODE]
    prober.begin_again(avoid=near[0])
    assert prober.next_at == pytest.approx(context.now + LAN.knock_s)
    steps = knocked(context, prober, len(near) - 1 + FAST_AGAIN_MAX + 5)
    assert targets(steps)[: len(near) - 1] == near[1:]
    assert gaps(steps)[-4:] == pytest.approx([LAN.walk_interval_s] * 4)


def test_it_is_far_when_the_last_near_door_has_had_time_to_answer() -> None:
    context, prober = new()
    prober.begin((7,), context.now)
    steps = 1 + len(near_targets(NODE, context.mapping))
    for _ in range(steps):
        assert not prober.has_asked()
        walked(context, prober, 1)
    assert not prober.has_asked()
    context.now += LAN.answer_s
    assert prober.has_asked()


def test_the_list_of_known_doors_is_bounded() -> None:
    context, prober = new()
    prober.begin((), context.now)
    near = len(prober)
    prober.add(range(1, 10_000), context.now)
    assert len(prober) - near == TARGETS_MAX


@pytest.mark.parametrize("position", [1, 2])
def test_a_network_that_is_walked_through_is_walked_again_at_a_stroll(position: int) -> None:
    context, prober = new(position, "10.0.0.0/30")
    prober.begin((), context.now)
    steps = knocked(context, prober, 14)
    assert set(targets(steps)[4:]) == {3 - position}
    assert gaps(steps)[-8:] == pytest.approx([LAN.walk_interval_s] * 8)


def test_alone_in_a_network_of_one_there_is_no_door() -> None:
    context, prober = new(1, "10.0.0.1")
    prober.begin((), context.now)
    assert set(targets(walked(context, prober, 5))) <= {None, 1}


def test_nobody_hurries_a_knock() -> None:
    """Doors that are heard of in between are knocked at when their turn comes, however many are heard of."""
    context, prober = new()
    prober.begin((7,), context.now)
    walked(context, prober, 1)
    knocked_at = context.now
    context.now += LAN.knock_s / 2
    prober.add((9,), context.now)
    assert prober.next_at == pytest.approx(knocked_at + LAN.knock_s)
    assert targets(walked(context, prober, 1)) == [9]


def test_when_somebody_answers_the_far_doors_have_time_and_the_known_ones_have_not() -> None:
    context, prober = new()
    prober.begin((), context.now)
    knocked(context, prober, len(prober) + ROW)
    prober.found_node(is_seed=False)
    answered_at = context.now
    prober.add((9,), context.now)
    assert knocked(context, prober, 1) == [(pytest.approx(answered_at + LAN.knock_s), 9)]
    assert knocked(context, prober, 1)[0][0] == pytest.approx(answered_at + LAN.patience_s)


def test_whoever_answers_again_and_again_holds_a_walk_up_once_a_row() -> None:
    context, prober = new()
    prober.begin((), context.now)
    knocked(context, prober, len(prober) + ROW)
    begun, far = context.now, 0
    while context.now < begun + 60:
        prober.found_node(is_seed=False)
        far += len(walked(context, prober, 1))
    assert far >= 60 / (LAN.patience_s + ROW * LAN.knock_s) * ROW / 2


def test_while_it_is_brisk_a_walk_goes_back_to_its_home_alone() -> None:
    context, prober = new()
    prober.begin((), context.now)
    knocked(context, prober, len(prober))
    prober.look_again((), lambda _position: False)
    assert len(prober) == 1
    prober.slow_down()
    prober.look_again((), lambda _position: False)
    assert len(prober) == 3


@pytest.mark.parametrize("timing", PRESETS)
@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_two_rows_of_time_hold_two_rows_of_doors(timing: TimingName, seed: int) -> None:
    context, prober = new(timing=timing)
    chance, times = Random(seed), []
    prober.begin((), context.now)
    for _ in range(400):
        context.now = (
            max(context.now, prober.next_at) if chance.random() < 0.7 else context.now + chance.uniform(0, 0.1)
        )
        happens = chance.randrange(8)
        if happens == 0:
            prober.add(chance.choices(range(1, 60_000), k=chance.randrange(9)), context.now + chance.uniform(0, 0.2))
        elif happens == 1:
            prober.call(chance.choices(range(1, 60_000), k=3))
        elif happens == 2:
            prober.found_node(is_seed=chance.random() < 0.05)
        elif happens == 3:
            prober.pause()
        if prober.next_at <= context.now:
            called = prober.next_call()
            targets = (called,) if called is not None else prober.step(known_only=chance.random() < 0.2)
            times += [context.now] * len(targets)
            assert prober.next_at > context.now
    span_s = ROWS * ROW * PRESETS[timing].knock_s - 1e-6
    assert max(sum(begin <= at < begin + span_s for at in times) for begin in times) <= ROWS * ROW
