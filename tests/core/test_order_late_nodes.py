"""Orders while each node is late at times: nothing is lost, and no answer ends before it may."""

from __future__ import annotations

from random import Random

import pytest
from order_stage import Stage

from subord.core.carriage.engine.interface import CallDirect
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position

LEFT_S = 5.0


def test_the_coordinator_answers_after_the_issuer_has_given_it_up() -> None:
    """Node 2 takes nothing for 0.3 s, and wakes with an order, then with an acknowledgement and targets."""
    stage = Stage({1: 0, 2: 1, 3: 1})
    stage.issue(1, None, left_s=LEFT_S)
    stage.issue(2, None, left_s=LEFT_S)
    stage.at(0.0005, lambda: stage.stop(2))
    stage.at(0.3, lambda: stage.go_on(2))
    stage.run(1.0)
    assert [each.missing for each in stage.answers] == [(), ()]


@pytest.mark.parametrize("left_s", [2.5, 3.0])
def test_a_node_that_wakes_for_a_moment_does_not_spoil_the_answer(left_s: float) -> None:
    """Node 3 has asked the root past 2, and the root knows all."""
    for woken_ms in range(250, 1300, 35):
        for awake_ms in (1.5, 2.5, 3.5, 5.0, 10.0):
            stage = Stage({1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 1})
            stage.issue(5, None, left_s=left_s)
            stage.at(0.0005, lambda stage=stage: stage.stop(2))
            stage.at(woken_ms / 1000, lambda stage=stage: stage.go_on(2))
            stage.at((woken_ms + awake_ms) / 1000, lambda stage=stage: stage.stop(2))
            stage.run(left_s + 1.0)
            (answer,) = stage.answers
            assert answer.is_resolved, (woken_ms, awake_ms)
            assert set(answer.missing) <= {("silent", Ranges.of([2]))}, (woken_ms, awake_ms)


class Firewall(Stage):
    """Streams of their own to the root never open."""

    def _connect(self, position: Position, action: CallDirect) -> None:
        if action.peer != 1:
            super()._connect(position, action)


@pytest.mark.parametrize("woken_s", [0.3, 0.4, 0.6])
def test_a_leader_that_has_given_the_targets_is_waited_for(woken_s: float) -> None:
    """3 has given up its leader 2, which wakes and gives the targets; the root cannot be asked directly."""
    stage = Firewall({1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 1})
    stage.act_s = dict.fromkeys(stage.leaders, 1.8)
    stage.run(1.0)
    stage.stop(2)
    stage.issue(3, None, left_s=2.5)
    stage.at(woken_s, lambda: stage.go_on(2))
    stage.run(4.0)
    assert [(each.missing, each.is_resolved) for each in stage.answers] == [((), True)]


def test_a_leader_that_hangs_again_is_waited_for_only_once() -> None:
    """Then the branch is asked without it."""
    stage = Firewall({1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 1})
    stage.stop(2)
    stage.issue(3, None, left_s=8.0)
    stage.at(0.4, lambda: stage.go_on(2))
    stage.at(0.403, lambda: stage.stop(2))
    stage.run(10.0)
    (answer,) = stage.answers
    assert not {each for _, nodes in answer.missing for each in nodes} & {3, 4, 5}


@pytest.mark.parametrize("woken_s", [2.8, 3.0])
def test_the_list_of_a_node_that_stands_in_is_not_taken_for_all_members(woken_s: float) -> None:
    """1 and 2 hang, and 3 stands in; then 2 goes on, and stands in as well."""
    stage = Stage({1: 0, 2: 1, 3: 2, 4: 3, 5: 1, 6: 2})
    stage.act_s = dict.fromkeys(stage.leaders, 2.0)
    stage.run(1.0)
    stage.stop(1)
    stage.stop(2)
    stage.issue(4, None, left_s=6.0)
    stage.at(woken_s, lambda: stage.go_on(2))
    stage.run(14.0)
    (answer,) = stage.answers
    assert not answer.is_resolved or Ranges.of([1, 5]) - answer.targets == Ranges(())


class LateNodes(Stage):
    """Now and then a node takes nothing for up to `late_s`."""

    def __init__(self, leaders: dict[Position, Position], random: Random, late_s: float) -> None:
        super().__init__(leaders)
        self._random, self._late_s = random, late_s
        self._delay()

    def _delay(self) -> None:
        position = self._random.choice(list(self.leaders))
        if position not in self.stopped:
            self.stop(position)
            self.at(self._random.uniform(0, self._late_s), lambda: self.go_on(position))
        self.at(self._random.uniform(0, 0.1), self._delay)


@pytest.mark.parametrize("late_s", [0.2, 0.5, 0.8])
def test_no_answer_is_given_up_before_its_time(late_s: float) -> None:
    """Nodes that are late for longer than a hung one is waited for may be missing as `silent`, and nothing else."""
    for seed in range(40):
        random = Random(seed)
        nodes = random.randint(5, 20)
        stage = LateNodes({1: 0, **{each: each // 2 for each in range(2, nodes + 1)}}, random, late_s)
        stage.run(1.0)
        for issuer in (1, 2, nodes // 2, nodes):
            stage.issue(issuer, None, left_s=LEFT_S)
        stage.run(LEFT_S + 1.0)
        causes = {cause for each in stage.answers for cause, _ in each.missing}
        assert causes <= {"silent"}, seed
        assert [each.targets for each in stage.answers] == [Ranges(((1, nodes),))] * 4, seed
