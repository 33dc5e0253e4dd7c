"""How many orders a node gives or distributes at once: few readings, unless all are quick, and more signed orders."""

from __future__ import annotations

from collections.abc import Callable

import order_stage
import pytest
from order_stage import Stage

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.admission import Admission
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.folding import Room
from subord.core.carriage.engine.frames import Ask, encode, order_of
from subord.core.carriage.engine.interface import Arrived, Opened, Role, Transmit
from subord.core.carriage.engine.links import LinkState
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.slowness import Slowness
from subord.core.carriage.engine.tasks import Asker, Task
from subord.core.view import Position


def orders(words: str) -> list[Task]:
    """`r`: a reading; `s`: an order with an authority; `R` and `S`: the same of another asker."""
    return [order_from(2 if word.isupper() else 0, is_signed=word in "sS") for word in words]


def order_from(neighbour: Position, *, is_signed: bool = False) -> Task:
    """0: of a command here."""
    return Task(
        order_of(bytes(16), "service", b"", None, 1, authority=b"x" if is_signed else b""),
        Asker(LinkState(Opened("link", neighbour, Role.SUBORDINATE, 1)), 1) if neighbour else None,
        Ranges.of([1]),
        climbs=True,
        attempt=0,
        began_at=0.0,
        until=60.0,
        room=Room(),
    )


@pytest.mark.parametrize(
    ("come", "begin"),
    [
        ("rrrr", "rrrr"),
        ("rrrrr", "rrrr-"),
        ("s" * 18, "s" * 16 + "--"),
        ("rrrrrs", "rrrr-s"),
        ("s" * 15 + "rrs", "s" * 15 + "r--"),
        ("rrrr" + "s" * 13, "rrrr" + "s" * 12 + "-"),
    ],
)
def test_as_many_begin_as_have_a_place(come: str, begin: str) -> None:
    admission = Admission(Due(), Slowness())
    begun = [admission.enter(each, 0.0) for each in orders(come)]
    assert begun == [word != "-" for word in begin]
    assert len(admission) == len(come)


@pytest.mark.parametrize(
    ("come", "over", "follow"),
    [
        ("rrrr" + "r" * 3, [0], [4, 5]),  # one place more for each that is left
        ("rrrr" + "r" * 9, [0, 1, 2], [4, 5, 6, 7, 8, 9]),
        ("rrrr" + "r" * 3, [4], []),  # it waited itself
        ("rrrr" + "r" * 5, [0, 1, 2, 3], [4, 5, 6, 7]),  # none is under way any more
        ("s" * 16 + "rs", [0], [16]),
        ("s" * 12 + "rrrr" + "rs", [0], [17]),  # a reading before it still has no place
        ("s" * 12 + "rrrr" + "rs", [12], [16]),
        ("rrrr" + "rrRR", [0], [6, 7]),  # a place is for the asker that has the fewest
        ("rrrr" + "rrRR", [0, 1], [6, 7, 4, 5]),
        ("rrRR" + "rrRR", [2], [6, 4]),
        ("s" * 16 + "ssS", [0], [18]),
    ],
)
def test_those_that_wait_follow(come: str, over: list[int], follow: list[int]) -> None:
    admission, tasks = Admission(Due(), Slowness()), orders(come)
    for each in tasks:
        admission.enter(each, 0.0)
    for number in over:
        admission.leave(tasks[number], 0.1)
    assert followers(admission, tasks, 0.1) == follow
    assert not any(tasks[number].is_queued for number in follow)


def followers(admission: Admission, tasks: list[Task], now: float) -> list[int]:
    found = []
    while (task := admission.following(now)) is not None:
        found.append(tasks.index(task))
    return found


def test_few_readings_have_places_while_messages_are_late() -> None:
    slowness = Slowness()
    admission, tasks = Admission(Due(), slowness), orders("r" * 60)
    begun = [number for number, each in enumerate(tasks) if admission.enter(each, 0.0)]
    under_way = []
    for now, delay_s in [(0.1, 0.0), (0.2, 0.0), (0.3, 1.2 * bounds.ACK_S_MIN), (0.4, 0.0), (0.5, 0.0), (5.4, 0.0)]:
        slowness.note(delay_s, now)
        for number in begun[:3]:
            admission.leave(tasks[number], now)
        begun = begun[3:] + followers(admission, tasks, now)
        under_way.append(len(begun))
    assert under_way == [7, 10, 7, 4, 4, 7]


def test_readings_leave_places_to_orders_with_authority() -> None:
    admission, tasks = Admission(Due(), Slowness()), orders("r" * 90)
    begun = [number for number, each in enumerate(tasks) if admission.enter(each, 0.0)]
    for _ in range(40):
        admission.leave(tasks[begun.pop(0)], 0.0)
        begun += followers(admission, tasks, 0.0)
    assert len(begun) == bounds.READINGS_ACTIVE_MAX
    assert [admission.enter(each, 0.0) for each in orders("sssss")] == [True] * 4 + [False]


def test_new_readings_have_few_places_while_messages_are_late() -> None:
    slowness = Slowness()
    admission, tasks = Admission(Due(), slowness), orders("r" * 12)
    for each in tasks:
        admission.enter(each, 0.0)
    for each in tasks[:6]:
        admission.leave(each, 0.0)
        followers(admission, tasks, 0.0)
    first, *others = orders("rrr")
    assert admission.enter(first, 0.9)
    slowness.note(1.2 * bounds.ACK_S_MIN, 1.0)
    assert not any(admission.enter(each, 1.1) for each in others)


@pytest.mark.parametrize(
    ("role", "round_trip_s", "delay_s", "is_late"),
    [
        (Role.SUBORDINATE, 0.001, 0.24, False),
        (Role.SUBORDINATE, 0.001, 0.26, True),
        (Role.LEADER, 0.2, 0.79, False),
        (Role.LEADER, 0.2, 0.81, True),
        (Role.CALLED, 0.001, 0.49, False),
        (Role.CALLED, 0.001, 0.51, True),
        (Role.CALLED, 0.1, 0.99, False),
        (Role.CALLED, 0.1, 1.01, True),
    ],
)
def test_what_is_late_depends_on_the_round_trip_of_the_open_link(
    role: Role, round_trip_s: float, delay_s: float, is_late: bool
) -> None:
    link = LinkState(Opened("link", 2, role, 1, round_trip_s=round_trip_s))
    for measured_s in (0.25, 0.001):
        link.measure(measured_s, 0.0)
    slowness = Slowness()
    slowness.note(delay_s, 1.0, link.quick_ack_s)
    assert slowness.is_late(1.1) == is_late


def test_a_place_is_held_for_a_time() -> None:
    due = Due()
    (task,) = orders("r")
    Admission(due, Slowness()).enter(task, 1.0)
    assert (due.deadline, due.take(1.0 + bounds.SLOT_S)) == (1.0 + bounds.SLOT_S, (task, "slot_until"))


# -- of engines ---------------------------------------------------------------------------------------------


class Slow(Stage):
    """What node `slow` sends comes 0.3 s later."""

    slow = 0

    def _transmit(self, position: Position, action: Transmit) -> None:
        if position == self.slow:
            self.at(0.3, lambda: super(Slow, self)._transmit(position, action))
        else:
            super()._transmit(position, action)


def star(*subordinates: Position) -> Slow:
    return Slow({1: 0, **dict.fromkeys(subordinates, 1)})


def under_way(stage: Stage, position: Position) -> int:
    """Orders at the node that acts without end."""
    return sum(each == position for each, _ in stage.acted)


def test_an_order_with_authority_does_not_wait_for_readings() -> None:
    stage = star(2, 3)
    stage.act_s[2] = 50.0
    for _ in range(63):
        stage.issue(1, Ranges.of([2]), left_s=60.0)
    stage.run(4.1)
    assert under_way(stage, 2) > bounds.ACTIVE_MAX
    stage.issue(1, Ranges.of([3]), "write")
    stage.run(0.1)
    assert [each.targets for each in stage.answers] == [Ranges.of([3])]


@pytest.mark.parametrize(("is_slow", "begun"), [(False, 5), (True, 4)])
def test_more_begin_than_end_unless_an_acknowledgement_was_late(is_slow: bool, begun: int) -> None:
    stage = star(2, 3)
    stage.act_s[2] = 50.0
    stage.slow = 3 if is_slow else 0
    stage.issue(1, Ranges.of([3]))
    for _ in range(12):
        stage.issue(1, Ranges.of([2]), left_s=60.0)
    stage.run(1.0)
    assert len(stage.answers) == 1
    assert under_way(stage, 2) == begun


@pytest.mark.parametrize(("delay_s", "hung", "times"), [(0.15, None, 64), (0.2, None, 56), (0.1, 2, 20)])
def test_long_round_trips_do_not_count_as_late(
    monkeypatch: pytest.MonkeyPatch, delay_s: float, hung: Position | None, times: int
) -> None:
    monkeypatch.setattr(order_stage, "DELAY_S", delay_s)
    stage = Stage({1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3})
    if hung is not None:
        stage.stop(hung)
    stage.run(1.0)
    for _ in range(times):
        stage.issue(1, None)
    stage.run(6.0)
    missing = () if hung is None else (("silent", Ranges.of([hung])),)
    assert [tuple(each.missing) for each in stage.answers] == [missing] * times


def told(stage: Stage, position: Position, target: Position) -> list[bool]:
    """Of each order of this node to this target."""
    answers = [each for each in stage.answers_to[position] if each.targets == Ranges.of([target])]
    return [not each.missing for each in answers]


def test_orders_of_one_node_leave_places_to_those_of_others() -> None:
    """Node 2 keeps 60 readings open to a node that acknowledges late and never answers, node 3 asks another one."""
    stage = star(2, 3, 4, 5)
    stage.act_s[5], stage.slow = 500.0, 5
    for _ in range(60):
        stage.issue(2, Ranges.of([5]), left_s=30.0)
    for turn in range(40):
        stage.at(1.0 + turn / 2, lambda: stage.issue(3, Ranges.of([4])))
    stage.run(27.0)
    assert told(stage, 3, 4) == [True] * 40


def test_as_many_greedy_nodes_as_places_leave_a_turn_to_others() -> None:
    """Each of four keeps readings to a node that never answers waiting; node 3 asks another one."""
    stage = star(*range(2, 10))
    greedy, silent, quick = (6, 7, 8, 9), 5, 4
    stage.act_s[silent], stage.slow = 500.0, silent
    for _ in range(40):
        for each in greedy:
            stage.issue(each, Ranges.of([silent]), left_s=60.0)
    for turn in range(5):
        stage.at(4.0 + 2.5 * turn, lambda: stage.issue(3, Ranges.of([quick])))
    stage.run(20.0)
    assert told(stage, 3, quick) == [True] * 5


STREAMS = 16


def ask_of_liar(number: int) -> bytes:
    """Node 2 asks node 1 for node 5, in the name of another node each time."""
    forged = order_of(b"%016d" % number, "read", b"", Ranges.of([5]), 1000 + number)
    return encode(1, 1, Ask(number, True, 0, 60_000, Ranges.of([5]).flat(), forged, (2,), 15_000))


def test_a_node_gains_no_places_by_many_streams_and_names() -> None:
    stage = star(2, 3, 4, 5)
    stage.act_s[5] = 500.0
    for stream in range(STREAMS):
        stage.feed(1, Opened(("more", stream), 2, Role.CALLER, 1))
    for number in range(10 * STREAMS):
        stage.feed(1, Arrived(("more", number % STREAMS), ask_of_liar(number)))
    for turn in range(10):
        stage.at(1.0 + turn / 2, lambda: stage.issue(3, Ranges.of([4])))
    stage.run(12.0)
    assert told(stage, 3, 4) == [True] * 10


def test_orders_of_others_leave_place_to_commands_here() -> None:
    stage = star(2, 3, 4, 5)
    stage.act_s[5] = 500.0
    stage.feed(1, Opened("more", 2, Role.CALLER, 1))
    for number in range(300):
        stage.feed(1, Arrived("more", ask_of_liar(number)))
    assert stage.engines[1].sizes["orders"] == bounds.ORDERS_OF_OTHERS_MAX
    for _ in range(bounds.ORDERS_OF_ONE_MAX):
        stage.issue(1, Ranges.of([4]), "write")
    stage.run(8.0)
    assert told(stage, 1, 4) == [True] * bounds.ORDERS_OF_ONE_MAX


@pytest.mark.parametrize(("forged", "issuer_of"), [(192, lambda number: 100 + number // 32), (64, lambda _number: 2)])
def test_a_command_below_the_root_is_taken_again_when_it_comes_back(
    forged: int, issuer_of: Callable[[int], int]
) -> None:
    """Node 4 fills the table of node 2 with orders in the names of others, or in that of node 2."""
    stage = Stage({1: 0, 2: 1, 3: 2, 4: 2, 5: 1})
    (edge,) = (each for each in stage.engines[2]._links.of.values() if each.peer == 4)
    stage.act_s[2] = 100.0
    for number in range(forged):
        order = order_of(b"forged %09d" % number, "read", b"", Ranges.of([2]), issuer_of(number))
        frame = Ask(number + 1, True, 0, 60_000, Ranges.of([2]).flat(), order, (), 15_000)
        stage.feed(2, Arrived(edge.link, encode(1, 1, frame)))
    assert stage.engines[2].sizes["orders"] == forged
    stage.act_s[2] = 0.0
    stage.issue(2, None, left_s=3.0)
    stage.run(4.0)
    assert [(each.missing, each.is_resolved) for each in stage.answers] == [((), True)]


def test_many_signed_commands_at_once_reach_the_own_branch() -> None:
    stage = Stage({1: 0, 2: 1, 3: 2, 4: 1})
    stage.act_s = dict.fromkeys(stage.leaders, 3.0)
    for _ in range(60):
        stage.issue(2, None, "write", left_s=30.0)
    stage.run(40.0)
    assert [(each.missing, each.is_resolved) for each in stage.answers] == [((), True)] * 60


def test_turns_are_forgotten_when_no_order_waits() -> None:
    due, neighbours = Due(), 40
    admission = Admission(due, Slowness())
    tasks = [order_from(position) for position in range(2, 2 + neighbours)]
    for each in tasks:
        admission.enter(each, 0.0)
    for each in tasks:
        admission.leave(each, 0.0)
        while admission.following(0.0) is not None:
            pass
    assert admission._next_rounds == {}


@pytest.mark.parametrize(("greedy", "is_late", "issuer"), [(4, True, 3), (8, True, 3), (4, True, 1), (12, False, 3)])
def test_those_that_ask_once_at_a_time_do_not_come_first_each_time(greedy: int, is_late: bool, issuer: int) -> None:
    """Each greedy node gives its next order when none of it waits; then another node gives five at once."""
    nodes = range(10, 10 + greedy)
    stage = star(3, 4, 5, *nodes)
    stage.act_s = {4: 500.0, 5: 500.0}
    stage.slow = 5 if is_late else 0

    def give_next() -> None:
        waiting = {each.neighbour for each in stage.engines[1]._routing.admission._queue}
        for each in nodes:
            if each not in waiting:
                stage.issue(each, Ranges.of([5]), left_s=3.9)
        stage.at(0.05, give_next)

    give_next()
    stage.run(7.0)
    for _ in range(5):
        stage.issue(issuer, Ranges.of([4]), left_s=30.0)
    stage.run(31.0)
    causes = [cause for each in stage.answers_to[issuer] for cause, _ in each.missing]
    assert causes == ["expired"] * 5  # each had a place, and 4 never answers


def test_an_order_for_all_that_waited_at_a_former_root_is_given_there() -> None:
    """The new root does not list the branch of 1 yet when a place becomes free."""
    greedy = range(10, 18)
    stage = Slow({9: 0, 1: 0, 2: 1, 3: 1, 6: 1, **dict.fromkeys(greedy, 1)})
    stage.act_s[6], stage.slow = 500.0, 6
    for each in greedy:
        for _ in range(4):
            stage.issue(each, Ranges.of([6]), left_s=60.0)
    stage.run(0.5)
    stage.issue(3, None, left_s=20.0)
    stage.run(0.5)
    stage.unlisted[9] = {1, 2, 3, 6, *greedy}
    stage.move(1, 9)
    stage.run(20.0)
    (answer,) = stage.answers_to[3]
    assert Ranges.of([2, 3, *greedy]) - answer.targets == Ranges(())
    assert dict(answer.missing).keys() <= {"expired", "moved"}
    assert sum(len(nodes) for _, nodes in answer.missing) <= 2


def test_signed_orders_of_a_node_cost_its_readings_no_places() -> None:
    """While messages are late, and node 2 reads all the time."""
    stage = star(2, 3, 4, 5)
    stage.act_s[5], stage.slow = 500.0, 5
    for turn in range(40):
        for _ in range(2):
            stage.at(turn / 2, lambda: stage.issue(2, Ranges.of([5])))
        stage.at(0.1 + turn / 3, lambda: stage.issue(1, Ranges.of([5]), "write", left_s=10.0))
    for turn in range(10):
        stage.at(4.0 + turn / 2, lambda: stage.issue(1, Ranges.of([4])))
    stage.run(16.0)
    assert told(stage, 1, 4).count(True) >= 8


@pytest.mark.parametrize("moved_s", [None, 0.5])
def test_an_order_that_waited_goes_where_its_target_is_by_then(moved_s: float | None) -> None:
    """Node 2 coordinates the order of 3 for 4, until 4 moves to another branch while the order waits for a place."""
    greedy = range(10, 18)
    stage = Slow({1: 0, 2: 1, 3: 2, 4: 2, 5: 1, 6: 2, **dict.fromkeys(greedy, 2)})
    stage.act_s[6], stage.slow = 500.0, 6
    for each in greedy:
        for _ in range(4):
            stage.issue(each, Ranges.of([6]), left_s=60.0)
    stage.run(0.5)
    stage.issue(3, Ranges.of([4]), left_s=50.0)
    if moved_s is not None:
        stage.at(moved_s, lambda: stage.move(4, 1))
    stage.run(50.0)
    assert told(stage, 3, 4) == [True]


def test_an_answer_that_comes_while_the_next_attempt_waits_is_whole() -> None:
    """The root hangs, and answers all the twelve orders when it goes on."""
    stage = Stage({1: 0, 2: 1, 3: 1, 4: 2, 5: 2})
    stage.stop(1)
    for _ in range(12):
        stage.issue(2, None, left_s=8.0)
    stage.at(3.2, lambda: stage.go_on(1))
    stage.run(10.0)
    assert [(each.missing, each.is_resolved) for each in stage.answers] == [((), True)] * 12


def test_orders_whose_asker_is_gone_do_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 2 sends more orders at once than this release does."""
    stage = star(2, 3)
    monkeypatch.setattr(stage.engines[2]._routing.admission, "enter", lambda _task, _now: True)
    stage.act_s[3] = 50.0
    for _ in range(40):
        stage.issue(2, Ranges.of([3]), left_s=60.0)
    stage.run(0.3)
    begun = under_way(stage, 3)
    assert begun == bounds.READINGS_ACTIVE_MIN
    stage.part(2, 1)
    stage.run(0.3)
    assert under_way(stage, 3) == begun
