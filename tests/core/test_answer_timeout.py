"""Round trips above the answer time of the preset: late answers are measured, and questions wait longer."""

from __future__ import annotations

from random import Random

import pytest
from loops import over
from small_world import SmallWorld

from subord.core.events import Dropped, SlowAnswers
from subord.core.messages import Propose, Wish
from subord.core.pacing.answer_timeout import ANSWERS_MAX, ASKED_MAX, LATE_MIN, AnswerTimeout
from subord.core.settings import LAN, TimingName, preset_for

WITHIN_S = 60.0


def slow_world(seed: int, one_way_s: float) -> SmallWorld:
    """Twelve nodes in a sparse /24; each odd or even seed of chance also names a node to ask first."""
    world = SmallWorld.empty(2, "10.0.0.0/24", seed=seed)
    positions = sorted(Random(seed).sample(range(1, 200), 12))
    world.delay_of = lambda _message: one_way_s * world.chance.uniform(0.95, 1.05)
    world.seeds = (positions[0],) if seed % 2 else ()
    world.start_all(positions, gap_s=0.1)
    return world


@pytest.mark.slow
@over("one_way_s", [0.3, 0.8, 1.5])
@over("seed", [1, 2])
def test_a_cluster_forms_while_round_trips_are_longer_than_the_answer_time(seed: int, one_way_s: float) -> None:
    world = slow_world(seed, one_way_s)
    world.run_until(world.whole, WITHIN_S)
    warnings = world.noticed(SlowAnswers)
    assert warnings, "the operator is warned"
    assert {each.preset for each in warnings} == {"wan"}
    assert Dropped("late_answer") in world.noticed(Dropped)


def test_the_answer_time_returns_when_the_delay_ends() -> None:
    world = slow_world(1, 0.8)
    world.run_until(world.whole, WITHIN_S)
    world.delay_of = lambda _message: 0.0002
    world.run(30.0)
    assert world.whole()
    for position, node in world.nodes.items():
        if node.uplink.leader is not None:
            assert node.context.answer_timeout.answer_s == pytest.approx(LAN.answer_s, rel=0.01), position


def test_in_a_fast_network_the_preset_counts() -> None:
    world = slow_world(1, 0.0002)
    world.run_until(world.whole, WITHIN_S)
    assert {node.context.answer_timeout.answer_s for node in world.nodes.values()} == {LAN.answer_s}
    assert not world.noticed(SlowAnswers)


@over(
    ("seconds", "answer_s"),
    [
        ([0.001], 0.4),
        ([0.3], 0.45),
        ([1.0], 1.5),
        ([100.0], ANSWERS_MAX * 0.4),  # bounded
        ([1.2, 0.001], 1.1),  # 1.8, then half of the excess
        ([1.2, 0.001, 0.001], 0.75),
        ([1.2, 1.0], 1.5),
    ],
)
def test_answer_time(seconds: list[float], answer_s: float) -> None:
    answer_timeout = AnswerTimeout(LAN)
    for each in seconds:
        answer_timeout.took(each, 0.0)
    assert answer_timeout.answer_s == pytest.approx(answer_s)


def test_a_late_answer_is_counted_and_measured_once() -> None:
    answer_timeout = AnswerTimeout(LAN)
    answer_timeout.asked(7, 1, 0.0)
    assert answer_timeout.answered(8, 1, 0.1, is_open=False) == [], "of another node"
    answer_timeout.asked(7, 2, 0.0)
    assert answer_timeout.answered(7, 2, 1.0, is_open=False) == [Dropped("late_answer")]
    assert answer_timeout.answered(7, 2, 2.0, is_open=False) == []
    assert answer_timeout.answer_s == pytest.approx(1.5)


def test_the_answer_to_a_repeated_question_is_not_measured() -> None:
    answer_timeout = AnswerTimeout(LAN)
    answer_timeout.asked(7, 1, 0.0)
    answer_timeout.asked(7, 1, 1.0)
    answer_timeout.asked(7, 1, 2.0)
    assert answer_timeout.answered(7, 1, 2.9, is_open=True) == []
    assert answer_timeout.answer_s == LAN.answer_s


def test_a_stopped_process_measures_no_answer_that_waited_for_it() -> None:
    answer_timeout = AnswerTimeout(LAN)
    answer_timeout.asked(7, 1, 0.0)
    answer_timeout.forget()
    assert answer_timeout.answered(7, 1, 60.0, is_open=False) == []


def test_several_slow_answers_in_a_row_warn_once_in_a_while() -> None:
    answer_timeout = AnswerTimeout(LAN)
    warnings = [answer_timeout.took(0.9, float(now)) for now in range(2 * LATE_MIN)]
    assert warnings == [[]] * (LATE_MIN - 1) + [[SlowAnswers(0.9, 0.4, "wan")]] + [[]] * LATE_MIN


def test_the_table_of_questions_is_bounded() -> None:
    answer_timeout = AnswerTimeout(LAN)
    for exchange in range(2 * ASKED_MAX):
        answer_timeout.asked(7, exchange, 0.0)
    assert len(answer_timeout) == ASKED_MAX


@pytest.mark.parametrize(("seconds", "preset"), [(0.3, "lan"), (0.5, "wan"), (9.0, "wan")])
def test_preset_for(seconds: float, preset: TimingName) -> None:
    assert preset_for(seconds) == preset


def test_an_accepted_node_that_never_beats_is_lost_after_one_silence() -> None:
    """However slow answers are: no question waits longer, so its first beat would have come."""
    world = SmallWorld.dense(3, 2, "10.0.0.0/24")
    world.run(20.0)
    context = world.nodes[2].context
    context.answer_timeout.answer_s = ANSWERS_MAX * LAN.answer_s
    world.tell(4, 2, Propose(1000, 1, context.terms, Wish.HOME))
    world.run(ANSWERS_MAX * LAN.answer_s)
    assert 4 in world.nodes[2].downlink.slots.taken
    world.run(LAN.leader_silence_s - ANSWERS_MAX * LAN.answer_s + 0.01)
    assert 4 not in world.nodes[2].downlink.slots.taken
