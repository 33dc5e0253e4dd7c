"""How many orders a node gives or distributes at once: few readings, unless all are quick, and more signed orders."""

from __future__ import annotations

import pytest

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.admission import Admission
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.folding import Room
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.slowness import Slowness
from subord.core.carriage.engine.tasks import Task


def orders(words: str) -> list[Task]:
    """`r`: a reading; `s`: an order that an operator has signed."""
    return [
        Task(
            order_of(bytes(16), "service", b"", None, 1, authority=b"x" if word == "s" else b""),
            None,
            Ranges.of([1]),
            climbs=True,
            attempt=0,
            began_at=0.0,
            until=60.0,
            room=Room(),
        )
        for word in words
    ]


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
    ],
)
def test_those_that_wait_follow_in_the_order_of_arrival(come: str, over: list[int], follow: list[int]) -> None:
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
    for now, delay_s in [(0.1, 0.0), (0.2, 0.0), (0.3, 1.2 * bounds.ACK_S_MIN), (0.4, 0.0), (0.5, 0.0), (3.3, 0.0)]:
        slowness.note(delay_s, now)
        for number in begun[:3]:
            admission.leave(tasks[number], now)
        begun = begun[3:] + followers(admission, tasks, now)
        under_way.append(len(begun))
    assert under_way == [7, 10, 7, 4, 4, 7]


def test_readings_never_take_more_places_than_there_are() -> None:
    admission, tasks = Admission(Due(), Slowness()), orders("r" * 90)
    begun = [number for number, each in enumerate(tasks) if admission.enter(each, 0.0)]
    for _ in range(40):
        admission.leave(tasks[begun.pop(0)], 0.0)
        begun += followers(admission, tasks, 0.0)
    assert len(begun) == bounds.ACTIVE_MAX


def test_a_place_is_held_for_a_time() -> None:
    due = Due()
    (task,) = orders("r")
    Admission(due, Slowness()).enter(task, 1.0)
    assert (due.deadline, due.take(1.0 + bounds.SLOT_S)) == (1.0 + bounds.SLOT_S, (task, "slot_until"))
