"""The order and pace of probes (docs/protocol.md, section 3)."""

from __future__ import annotations

from itertools import islice, pairwise
from math import inf
from random import Random

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.discovery.probe_order import all_targets, common_targets, near_targets
from subord.core.discovery.prober import FAST_AGAIN_MAX, ROW, ROWS, TARGETS_MAX, Prober
from subord.core.settings import LAN, PRESETS, Settings, TimingName
from subord.core.state.context import Context

NODE = 40_000
Steps = list[tuple[float, int | None]]


def new(position: int = NODE, network: str = "10.0.0.0/16", timing: TimingName = "lan") -> tuple[Context, Prober]:
    settings = Settings(network=Network.parse(network), fanout=2, guest_slots=2, timing_name=timing)
    context = Context(settings, position, 1000, Random(1), now=100.0)
    return context, Prober(context)


def steps_of(context: Context, prober: Prober, targets: int, *, known_only: bool = False) -> Steps:
    """The next steps, each at its time: (time, target), or (time, None) without a target."""
    taken: Steps = []
    while len(taken) < targets:
        context.now = max(context.now, prober.next_at)
        taken += [(context.now, target) for target in prober.step(known_only=known_only) or (None,)]
        assert prober.next_at > context.now, "two steps at the same time"
    return taken


def targets(steps: Steps) -> list[int | None]:
    return [target for _, target in steps]


def probes_of(context: Context, prober: Prober, targets: int) -> Steps:
    """The next steps that have a target."""
    taken: Steps = []
    while len(taken) < targets:
        taken += [step for step in steps_of(context, prober, 1) if step[1] is not None]
    return taken[:targets]


def gaps(steps: Steps) -> list[float]:
    return [after - before for (before, _), (after, _) in pairwise(steps)]


def test_no_probe_is_due_before_the_search_begins() -> None:
    context, prober = new()
    assert prober.next_at == inf
    prober.begin((), context.now + 5)
    assert prober.next_at == context.now + 5
    prober.stop()
    assert (prober.next_at, len(prober)) == (inf, 0)


def test_known_targets_come_first_then_near_ones_then_the_common_list() -> None:
    context, prober = new()
    prober.begin((7, 900, 7, NODE), context.now)
    near = near_targets(NODE, context.mapping)
    assert len(prober) == 2 + len(near)
    expected = [7, 900, *near, *islice(common_targets(65534), 1, 1 + 3 * ROW)]
    assert targets(probes_of(context, prober, len(expected))) == expected
    prober.add((55, 7), context.now)  # a target added later is next
    assert targets(steps_of(context, prober, ROW))[:3] == [
        55,
        7,
        *islice(common_targets(65534), 1 + 3 * ROW, 2 + 3 * ROW),
    ]


@pytest.mark.parametrize("timing", PRESETS)
def test_the_common_list_is_probed_in_rows_at_the_pace_of_single_targets(timing: TimingName) -> None:
    context, prober = new(timing=timing)
    near, gap_s = len(near_targets(NODE, context.mapping)), PRESETS[timing].probe_gap_s
    prober.begin((), context.now)
    pace = gaps(probes_of(context, prober, near + 3 * ROW))
    row = [0.0] * (ROW - 1)
    assert pace == pytest.approx([*[gap_s] * (near - 1), ROW * gap_s, *(*row, ROW * gap_s) * 2, *row])


def test_a_target_added_after_two_rows_waits_for_the_pace() -> None:
    context, prober = new()
    prober.begin((), context.now)
    probes_of(context, prober, len(prober) + ROW)
    first = context.now
    probes_of(context, prober, ROW)
    prober.add((9,), context.now)
    assert probes_of(context, prober, 1) == [(pytest.approx(first + 2 * ROW * LAN.probe_gap_s), 9)]


def test_a_target_added_between_two_rows_goes_with_the_next() -> None:
    context, prober = new()
    prober.begin((), context.now)
    probes_of(context, prober, len(prober) + ROW)
    begun = context.now
    context.now += LAN.probe_gap_s
    prober.add((9,), context.now)
    row = probes_of(context, prober, ROW)
    assert row[0] == (pytest.approx(begun + ROW * LAN.probe_gap_s), 9)
    assert {at for at, _ in row} == {row[0][0]}
    assert not prober.has_asked()  # the target just asked may still answer


def test_without_near_targets_the_seeds_still_have_time_to_answer() -> None:
    context, prober = new()
    prober.begin((9,), context.now)
    assert not prober.has_asked(near=False)
    probes_of(context, prober, 1)
    assert not prober.has_asked(near=False)
    context.now += LAN.answer_s
    assert (prober.has_asked(near=False), prober.has_asked()) == (True, False)
    probes_of(context, prober, 1)  # a near target, which does not count here
    assert prober.has_asked(near=False)


def test_in_a_lan_at_most_twelve_targets_fall_into_any_second() -> None:
    context, prober = new()
    prober.begin(range(1, 60), context.now)
    times = [at for at, _ in probes_of(context, prober, 700)]
    assert max(sum(begin <= at <= begin + 1 for at in times) for begin in times) == 12


def test_fast_probes_are_counted_and_slow_ones_follow() -> None:
    context, prober = new()
    near = len(near_targets(NODE, context.mapping))
    prober.begin((), context.now)
    steps = probes_of(context, prober, near + LAN.fast_probes_max + 30)
    fast, slow = steps[: near + LAN.fast_probes_max], steps[near + LAN.fast_probes_max :]
    assert fast[-1][0] - fast[near][0] <= LAN.fast_probes_max * LAN.probe_gap_s
    assert gaps(slow) == pytest.approx([LAN.probe_interval_s] * 29)
    assert not prober.is_fast
    assert targets(slow) == list(islice(all_targets(NODE, context.mapping, 65534), 30))


def test_a_node_that_knows_a_lower_one_probes_known_targets_only() -> None:
    context, prober = new()
    prober.begin((7,), context.now)
    fast = [7, None, None, None]
    steps = steps_of(context, prober, 4, known_only=True)
    assert targets(steps) == fast
    assert gaps(steps) == pytest.approx([LAN.probe_gap_s, LAN.patience_s, LAN.patience_s])
    assert (
        targets(steps_of(context, prober, 3)) == near_targets(NODE, context.mapping)[:3]
    )  # nothing was lost meanwhile


def test_with_a_meeting_place_no_rows_are_probed() -> None:
    context, prober = new()
    near = near_targets(NODE, context.mapping)
    prober.begin((7,), context.now)
    prober.slow_down()
    assert not prober.is_fast
    steps = steps_of(context, prober, 1 + len(near) + 10)
    assert targets(steps)[: 1 + len(near)] == [7, *near]  # near targets are probed all the same
    assert gaps(steps)[-9:] == pytest.approx([LAN.probe_interval_s] * 9)


def test_an_orphan_probes_lower_positions_only_and_soon_slows_down() -> None:
    context, prober = new()
    near = [p for p in near_targets(NODE, context.mapping) if p < NODE]
    prober.begin_again(avoid=near[0])
    assert prober.next_at == pytest.approx(context.now + LAN.probe_gap_s)
    steps = probes_of(context, prober, len(near) - 1 + FAST_AGAIN_MAX + 5)
    assert targets(steps)[: len(near) - 1] == near[1:]
    assert gaps(steps)[-4:] == pytest.approx([LAN.probe_interval_s] * 4)


def test_rows_wait_for_the_answer_of_the_last_near_target() -> None:
    context, prober = new()
    prober.begin((7,), context.now)
    steps = 1 + len(near_targets(NODE, context.mapping))
    for _ in range(steps):
        assert not prober.has_asked()
        steps_of(context, prober, 1)
    assert not prober.has_asked()
    context.now += LAN.answer_s
    assert prober.has_asked()


def test_the_list_of_known_targets_is_bounded() -> None:
    context, prober = new()
    prober.begin((), context.now)
    near = len(prober)
    prober.add(range(1, 10_000), context.now)
    assert len(prober) - near == TARGETS_MAX


@pytest.mark.parametrize("position", [1, 2])
def test_after_the_common_list_slow_probes_start_over(position: int) -> None:
    context, prober = new(position, "10.0.0.0/30")
    prober.begin((), context.now)
    steps = probes_of(context, prober, 14)
    assert set(targets(steps)[4:]) == {3 - position}
    assert gaps(steps)[-8:] == pytest.approx([LAN.probe_interval_s] * 8)


def test_in_a_network_of_one_there_is_no_target() -> None:
    context, prober = new(1, "10.0.0.1")
    prober.begin((), context.now)
    assert set(targets(steps_of(context, prober, 5))) <= {None, 1}


def test_added_targets_do_not_raise_the_pace() -> None:
    """However many targets are added meanwhile, each waits for the pace."""
    context, prober = new()
    prober.begin((7,), context.now)
    steps_of(context, prober, 1)
    probed_at = context.now
    context.now += LAN.probe_gap_s / 2
    prober.add((9,), context.now)
    assert prober.next_at == pytest.approx(probed_at + LAN.probe_gap_s)
    assert targets(steps_of(context, prober, 1)) == [9]


def test_after_an_answer_rows_wait_and_known_targets_do_not() -> None:
    context, prober = new()
    prober.begin((), context.now)
    probes_of(context, prober, len(prober) + ROW)
    prober.found_node(is_seed=False)
    answered_at = context.now
    prober.add((9,), context.now)
    assert probes_of(context, prober, 1) == [(pytest.approx(answered_at + LAN.probe_gap_s), 9)]
    assert probes_of(context, prober, 1)[0][0] == pytest.approx(answered_at + LAN.patience_s)


def test_repeated_answers_delay_each_row_once() -> None:
    context, prober = new()
    prober.begin((), context.now)
    probes_of(context, prober, len(prober) + ROW)
    begun, far = context.now, 0
    while context.now < begun + 60:
        prober.found_node(is_seed=False)
        far += len(steps_of(context, prober, 1))
    assert far >= 60 / (LAN.patience_s + ROW * LAN.probe_gap_s) * ROW / 2


def test_after_a_rest_home_and_neighbours_are_asked_again_also_while_far_targets_are_left() -> None:
    """Seed 8137: two halves of five nodes in a /16 met 17 s after their partition had ended."""
    context, prober = new()
    prober.begin((), context.now)
    probes_of(context, prober, len(prober))
    prober.look_again((), lambda _position: False)
    assert prober.is_fast
    assert len(prober) == 3


@over("timing", PRESETS)
@over("seed", range(5))
def test_the_time_of_two_rows_never_holds_more_than_two_rows(timing: TimingName, seed: int) -> None:
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
    span_s = ROWS * ROW * PRESETS[timing].probe_gap_s - 1e-6
    assert max(sum(begin <= at < begin + span_s for at in times) for begin in times) <= ROWS * ROW
