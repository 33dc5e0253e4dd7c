"""Shares on real daemons: 4 nodes with real agents and cgroups, and 12 whose agents are played."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from netlab.common.waiting import wait_until
from netlab.lab import Lab
from netlab.processes import groups
from netlab.shares import cluster, figures, operating
from netlab.shares.figures import Sample
from netlab.shares.operating import CLASSES, OBEYS, WANTED
from netlab.shares.stand_ins import PlayedNode, StandIns

from subord.runtime.shares import keeper, state
from subord.services.shares.actuators.faults import ActuatorError

from .lab_helpers import run_lab

pytestmark = pytest.mark.lab(few=True)

NODES, FANOUT, ROUND_S = 16, 3, 0.3
REAL = (2, 6, 11, 16)
"""A leader and three leaves."""
NO_AGENT, READ_ONLY, LACKING, LIAR = 16, 11, 6, 15
WAIT_S_MAX = 60.0
STAYS_S = 1.5
POINTS = 5.0
USUAL = dict.fromkeys(CLASSES, 1024)


def need_groups() -> None:
    try:
        (top, *_) = groups.cgroup_mounts()
    except ActuatorError as reason:
        pytest.skip(str(reason))
    if os.geteuid() or not os.access(top, os.W_OK) or not Path(top, "cpu.shares").exists():
        pytest.skip("cgroups of version 1 can be changed as root only")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Lab, StandIns]]:
    need_groups()
    options: dict[str, Any] = {"agents": True, "classes": CLASSES, "quota": 0.1, "timing": "lab"}
    played = [each for each in range(1, NODES + 1) if each not in REAL]
    with Lab(NODES, FANOUT, stand_ins=played, **options) as lab, StandIns(lab, played) as stand_ins:
        lab.start_all()
        lab.wait_stable(WAIT_S_MAX)
        stand_ins.load(cluster.even(played))
        for position in REAL:
            for name in CLASSES:
                lab.load(position, name)
        yield lab, stand_ins
    assert left_of(lab) == []


@pytest.fixture(scope="module")
def lab(both: tuple[Lab, StandIns]) -> Lab:
    return both[0]


@pytest.fixture(scope="module")
def stand_ins(both: tuple[Lab, StandIns]) -> StandIns:
    return both[1]


@pytest.fixture
def following(lab: Lab) -> Lab:
    """All nodes obey."""
    if set(operating.states(lab)) != {OBEYS}:
        operating.publish(lab, ROUND_S)
    return lab


def until(condition: Any, what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.05), what


def are_whole(lab: Lab, told: int = NODES) -> None:
    until(lambda: operating.told_of(lab, 1) == (told, NODES), f"{told} nodes are in the decisions")


def is_set(lab: Lab, position: int) -> bool:
    """The weights are those of a row."""
    return sum(lab.weights(position).values()) == 10_000


def is_back(lab: Lab, position: int) -> bool:
    return lab.weights(position) == USUAL


def of_node(lab: Lab, position: int) -> Any:
    """How the node follows the document. One that starts says nothing."""
    found = operating.document(lab, 1, f"&nodes={position}")["states"]
    return found[0] if found else {"state": "", "detail": "", "notes": []}


def test_shares_are_obeyed_on_all_nodes_and_off_puts_every_weight_back(lab: Lab, stand_ins: StandIns) -> None:
    assert all(is_back(lab, position) for position in REAL)
    assert operating.states(lab) == {state.NONE: [lab.address(each) for each in lab.positions]}
    operating.publish(lab, ROUND_S)
    are_whole(lab)
    assert all(is_set(lab, position) for position in REAL)
    assert all(sum(row) == pytest.approx(100) for row in stand_ins.rows().values())
    before = _got(lab, stand_ins)
    time.sleep(4)
    until(lambda: shares_since(before, lab, stand_ins) == pytest.approx(WANTED, abs=POINTS), "shares are as wanted")
    for position in REAL:
        for name in CLASSES:
            lab.load(position, name, busy=False)
    operating.switch_off(lab)
    operating.await_word(lab, state.OFF)
    assert all(is_back(lab, position) for position in REAL)
    assert all(row == pytest.approx([100 / 3] * 3) for row in stand_ins.rows().values())


def shares_since(before: Sample, lab: Lab, stand_ins: StandIns) -> list[float]:
    """Of all time since then: where other work takes the processors, real groups need more of it to be even."""
    return figures.shares(before, _got(lab, stand_ins))


def _got(lab: Lab, stand_ins: StandIns) -> Sample:
    """Of all nodes; a second of a real one with a tenth of a processor is as much as one of a played node."""
    used = lab.used()
    real = {position: [666.7 * of[name] for name in CLASSES] for position, of in used.cpu_s.items()}
    return Sample(used.at, {**real, **stand_ins.served()})


def test_a_daemon_that_is_killed_leaves_the_weights_until_it_is_back(following: Lab) -> None:
    lab = following
    lab.kill(11)
    until(lambda: not lab.look().nodes[lab.address(11)].alive, "it is dead")
    weights = lab.weights(11)
    time.sleep(STAYS_S)
    assert lab.weights(11) == weights != USUAL
    lab.start_and_wait(11)
    until(lambda: of_node(lab, 11)["state"] == OBEYS and is_set(lab, 11), "it follows again")


def test_an_agent_that_is_killed_follows_again_and_knows_what_was_there_before(following: Lab) -> None:
    lab = following
    assert lab.kill_agent(6, signal.SIGKILL)
    until(lambda: of_node(lab, 6)["state"] == state.NO_AGENT, "it is missed")
    until(lambda: of_node(lab, 6)["state"] == OBEYS and is_set(lab, 6), "it follows again")
    operating.switch_off(lab)
    operating.await_word(lab, state.OFF)
    assert all(is_back(lab, position) for position in REAL)


def test_an_agent_that_is_stopped_puts_back(following: Lab) -> None:
    lab = following
    lab.kill(2)  # which would start the agent again
    assert is_set(lab, 2)
    assert lab.kill_agent(2, signal.SIGTERM)
    until(lambda: is_back(lab, 2), "the weights from before")
    lab.start_and_wait(2)
    until(lambda: of_node(lab, 2)["state"] == OBEYS and is_set(lab, 2), "it follows again")
    assert lab.kill_agent(2, signal.SIGTERM)
    until(lambda: of_node(lab, 2)["state"] != OBEYS, "it is missed")
    until(lambda: of_node(lab, 2)["state"] == OBEYS and is_set(lab, 2), "it was started again")


def test_a_class_without_a_group_leaves_its_tickets_to_the_others(following: Lab) -> None:
    lab = following
    lab.remove_class(LACKING, "rest")
    until(lambda: of_node(lab, LACKING)["notes"], "it is said")
    found = of_node(lab, LACKING)
    assert found["state"] == OBEYS
    assert "class rest has no group on this node now; its tickets go to the others" in found["notes"]
    assert lab.weights(LACKING).keys() == {"web", "batch"}
    are_whole(lab)


def test_an_agent_that_may_not_write_says_so_and_is_left_out(following: Lab) -> None:
    lab = following
    lab.forbid_groups(READ_ONLY)
    lab.kill_agent(READ_ONLY)
    until(lambda: of_node(lab, READ_ONLY)["state"] == state.FAILED, "it fails")
    assert "the cgroup file system is read-only here" in of_node(lab, READ_ONLY)["detail"]
    are_whole(lab, NODES - 1)
    lab.forbid_groups(READ_ONLY, forbidden=False)
    lab.kill_agent(READ_ONLY)
    until(lambda: of_node(lab, READ_ONLY)["state"] == OBEYS and is_set(lab, READ_ONLY), "it follows again")
    are_whole(lab)


def test_a_node_that_reports_nonsense_is_left_out_and_says_so(following: Lab, stand_ins: StandIns) -> None:
    lab = following
    stand_ins.lie(LIAR)
    are_whole(lab, NODES - 1)
    until(lambda: of_node(lab, LIAR)["state"] == state.FAILED, "it says so")
    assert of_node(lab, LIAR)["detail"] == "the agent reports an allocation below 0, or above 100 percent in all"
    why = lab.document(1, f"/v1/shares/why?budget=2&node={lab.address(LIAR)}")
    assert why["leaders"][0]["left_out"]
    stand_ins.lie(LIAR, lies=False)
    are_whole(lab)


def test_a_node_without_an_agent_is_left_out_and_off_puts_all_others_back(following: Lab) -> None:
    lab = following
    lab.remove_agent(NO_AGENT)
    until(lambda: of_node(lab, NO_AGENT)["state"] == state.NO_AGENT, "it has none")
    are_whole(lab, NODES - 1)
    operating.switch_off(lab)
    others = [each for each in lab.positions if each != NO_AGENT]
    operating.await_word(lab, state.OFF, others)
    until(lambda: of_node(lab, NO_AGENT)["detail"] == keeper.OFF_ALONE, "it says so, too")
    assert all(is_back(lab, position) for position in (2, READ_ONLY))
    assert set(lab.weights(LACKING).values()) == {1024}


# -- groups ----------------------------------------------------------------------------------------------------------


def left_of(lab: Lab) -> list[Path]:
    return [each for top in groups.cgroup_mounts() for each in Path(top).glob(f"{groups.FIRST}{lab.options.name}-*")]


def test_no_group_is_left_by_a_lab_that_is_killed() -> None:
    need_groups()
    with Lab(1, agents=True, classes=CLASSES, quota=0.1) as lab:
        lab.load(1, "web")
        assert lab.weights(1) == USUAL
        assert len(left_of(lab)) == len(groups.cgroup_mounts())
        os.kill(lab.handle.controller, signal.SIGKILL)
        lab.handle.wait(WAIT_S_MAX)
        assert left_of(lab) == []


def test_classes_from_the_command_line() -> None:
    need_groups()
    name = f"classes-{os.getpid()}"
    done = run_lab("up", "--nodes", 1, "--name", name, "--classes", "web,rest", "--quota", "0.1")
    assert done.returncode == 0, done.stderr
    try:
        done = run_lab("load", "--name", name, 1, "batch", "--stop")
        words = "There is no class batch on the node 1 of this lab. Nothing was changed.\n"
        assert (done.returncode, done.stderr) == (1, words)
    finally:
        assert run_lab("down", "--name", name).returncode == 0


# -- played nodes ----------------------------------------------------------------------------------------------------


def test_a_played_node_serves_what_it_has_had_time_for_however_seldom_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SimpleNamespace(now=5.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("netlab.shares.stand_ins.time", clock)
    node = PlayedNode(CLASSES, 1)
    node.load([True, True, False])
    clock.now += 600
    served = node.served()
    assert sum(served) == 40_000
    assert served[2] == 0
    node.load([True, True, True])
    clock.now += 0.9
    assert sum(node.served()) == 40_060


# -- figures ---------------------------------------------------------------------------------------------------------


def samples(*rows: tuple[float, float]) -> list[Sample]:
    """Of two nodes that serve the same, one sample in a second."""
    found, sums = [Sample(0.0, {1: (0.0, 0.0), 2: (0.0, 0.0)})], [0.0, 0.0]
    for at, row in enumerate(rows, 1):
        sums = [each + more for each, more in zip(sums, row, strict=True)]
        found.append(Sample(float(at), {1: tuple(sums), 2: tuple(sums)}))
    return found


def test_shares_are_of_what_all_have_got() -> None:
    some = samples((6, 4), (3, 7))
    assert figures.rounds(some) == [[60, 40], [30, 70]]
    assert figures.shares(some[0], some[2], (1,)) == [45, 55]
    assert figures.shares(some[0], some[0]) == [0, 0]
    assert figures.of_classes(some, ("a", "b")) == {"a": {"mean": 45, "std": 15}, "b": {"mean": 55, "std": 15}}
    assert figures.back_in(figures.rounds(some), (31, 69), 3) == 2
    assert figures.back_in(figures.rounds(some), (50, 50), 3) is None


def test_shares_are_away_when_the_mean_of_some_rounds_is() -> None:
    good, bad, much = (5, 5), (9, 1), (55, 45)
    assert figures.course(samples(*[good] * 9), (50, 50), (1, 2)) == (0, None, False)
    away = figures.course(samples(*[good] * 4, bad, bad, *[good] * 4), (50, 50), (1, 2))
    assert away == (26.67, 7.0, False)
    assert figures.course(samples(*[good] * 4, bad, bad), (50, 50), (1, 2)).ends_away
    assert figures.course(samples(*[good] * 4, much, *[good] * 4), (50, 50), (1, 2)).last_away is None
    assert [figures.seconds_after(at, 5.0) for at in (None, 4.9, 5.0, 5.75)] == [0, 0, 0, 0.75]
