"""When all is whole, part by part, and in which words it is not."""

import pytest
from loops import over

from subord.sim.scenario import definition

from .lab_helpers import netlab


@pytest.fixture(autouse=True)
def _no_quiet(monkeypatch):
    monkeypatch.setattr(netlab("scenarios.assertions"), "QUIET_S", 0.0)


class PaperLab:
    """A lab that is only written about: `told` becomes the picture at the next look."""

    def __init__(self, told):
        self.cluster = netlab("eventlog.events").Cluster()
        self.told = list(told)
        self.events = []

    def address(self, position):
        return f"10.0.0.{position}"

    def look(self):
        while self.told:
            event = self.told.pop(0)
            self.cluster.apply(event)
            self.events.append(event)
        return self.cluster


def event(mono, position, name, **fields):
    return {"mono": mono, "node": f"10.0.0.{position}", "event": name, **fields}


def placed(mono, position, leader=None):
    where, above = ("home", f"10.0.0.{leader}") if leader else ("root", None)
    return event(mono, position, "place", place=where, leader=above)


def roster(mono, position, nodes):
    return event(mono, position, "roster", nodes=nodes, not_home=0)


FIVE = (
    *(event(1, position, "lab_forked", pid=position) for position in range(1, 6)),
    placed(2, 1),
    *(placed(2, position, position // 2) for position in range(2, 6)),
    roster(3, 1, 5),
)


def asserting(*told, **state):
    """(assertions, losses of leaders are told to it) on five nodes, and what was `told` after they had a tree."""
    lab = PaperLab([*FIVE, *told])
    nodes = netlab("scenarios.node_state").NodeState(nodes=(1, 2, 3, 4, 5), **{"running": {1, 2, 3, 4, 5}, **state})
    return netlab("scenarios.assertions").Assertions(lab, nodes, definition.Cluster(nodes=5)), lab


def expect(assertions, moved=None, **demands):
    """The faults of an expectation whose time is over at once."""

    def no_time(_until, condition):
        assertions.look()
        return condition()

    return assertions.expect(definition.Expect(within_s=0, **demands), moved, no_time)


@over(
    ("told", "state", "home", "facts"),
    [
        ([], {}, True, None),
        ([roster(4, 1, 4)], {}, True, "of 1-5 the roster of 1 has 4 nodes instead of 5"),
        ([placed(4, 5, 1)], {}, True, "of 1-5 5 are not at home"),
        ([placed(4, 5, 1)], {}, False, None),
        ([placed(4, 3)], {}, False, "of 1-5 2 are root (1,3), the roster of 3 has 0 nodes instead of 5"),
        ([], {"cut": {3}}, True, "of 1-2,4-5 the roster of 1 has 5 nodes instead of 4; of 3 no node is root"),
        ([placed(4, 3), roster(4, 3, 1), roster(4, 1, 4)], {"cut": {3}}, True, None),
        ([], {"cut": {2}}, False, "4-5 have a leader that is not there"),
        ([roster(4, 1, 4)], {"paused": {5}}, True, None),
        ([roster(4, 1, 4)], {"running": {1, 2, 3, 4}}, True, "still leaving: 5"),
        (
            [placed(4, 2), roster(4, 2, 3), roster(4, 1, 2)],
            {"sides": (frozenset((2, 4, 5)), frozenset((1, 3)))},
            True,
            None,
        ),
        (
            [placed(4, 2), roster(4, 2, 3)],
            {"sides": (frozenset((2, 4, 5)), frozenset((1, 3)))},
            True,
            "of 1,3 the roster of 1 has 5 nodes instead of 2",
        ),
    ],
)
def test_whole_part_by_part(told, state, home, facts):
    assertions, _ = asserting(*told, **state)
    faults = expect(assertions, home=home).faults
    if facts is None:
        assert faults == []
    else:
        assert len(faults) == 1
        assert facts in faults[0]


def test_moves_are_counted_from_one_expectation_to_the_next():
    assertions, lab = asserting()
    assert expect(assertions, moves_max=0).moves == 0
    lab.told += [placed(5, 4, 1), placed(6, 4, 2), placed(6, 5, 1), placed(7, 5, 2)]
    seen = expect(assertions, moved=(4,), moves_max=3)
    assert (seen.moves, seen.moved, seen.outside) == (4, [4, 5], [5])
    assert seen.faults == [
        "5 changed the leader, and only None may",
        "4 changes of leader, at most 3 are allowed: 4-5",
    ]
    assert expect(assertions, moved=(), moves_max=0).faults == []


def test_who_was_cut_off_has_not_moved():
    assertions, lab = asserting()
    expect(assertions)
    assertions.excused.add("10.0.0.5")
    lab.told += [placed(5, 5), placed(6, 5, 2)]
    assert expect(assertions, moves_max=0).faults == []
    lab.told += [placed(7, 5, 1), placed(8, 5, 2)]
    assert expect(assertions).moves == 2


def test_orphans_are_timed():
    assertions, lab = asserting()
    expect(assertions)
    assert assertions.orphans(2, victims=[2, 5]) == ["10.0.0.4"]
    assertions.losses.leader_fell("10.0.0.2", ["10.0.0.4", "10.0.0.5"], 10.0)
    lab.told += [placed(11.5, 4, 3), placed(12, 4, 2)]
    seen = expect(assertions, attached_p99_s=1.0)
    assert (seen.attached_s, seen.never) == ([1.5], [5])
    assert seen.faults == [
        "5 had no leader again",
        "99 of 100 orphans had a leader after 1.50 s, 1 s are allowed",
    ]


def test_a_daemon_that_ends_by_itself_is_told():
    assertions, lab = asserting()
    assertions.look()
    lab.told.append(event(5, 4, "lab_exited", pid=4, code=70))
    with pytest.raises(netlab("scenarios.assertions").Shortfall, match="node 4 ended by itself, exit code 70"):
        assertions.look()


def test_the_root_is_the_lowest_of_several_that_can_act():
    assert asserting()[0].root() == 1
    assert asserting(placed(4, 3))[0].root() == 1
    assert asserting(placed(4, 3), paused={1})[0].root() == 3
    assert asserting(paused={1})[0].root() is None
