"""How many orders a node gives or distributes at once: few readings, and more of those that are signed."""

from __future__ import annotations

import pytest

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.admission import Admission
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.folding import Room
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.ranges import Ranges
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
    admission = Admission(Due())
    begun = [admission.enter(each, 0.0) for each in orders(come)]
    assert begun == [word != "-" for word in begin]
    assert len(admission) == len(come)


@pytest.mark.parametrize(
    ("come", "over", "follow"),
    [
        ("rrrrrr", [0], [4]),
        ("rrrrrr", [0, 3], [4, 5]),
        ("s" * 16 + "rs", [0], [16]),
        ("s" * 12 + "rrrrrs", [0], [17]),  # a reading before it still has no place
        ("s" * 12 + "rrrrrs", [12], [16]),
        ("rrrrrr", [4], []),  # it waited itself
    ],
)
def test_those_that_wait_follow_in_the_order_of_arrival(come: str, over: list[int], follow: list[int]) -> None:
    admission, tasks = Admission(Due()), orders(come)
    for each in tasks:
        admission.enter(each, 0.0)
    for number in over:
        admission.leave(tasks[number])
    found = []
    while (task := admission.following(1.0)) is not None:
        found.append(tasks.index(task))
    assert found == follow
    assert not any(tasks[number].is_queued for number in found)


def test_a_place_is_held_for_a_time() -> None:
    due = Due()
    (task,) = orders("r")
    Admission(due).enter(task, 1.0)
    assert (due.deadline, due.take(1.0 + bounds.SLOT_S)) == (1.0 + bounds.SLOT_S, (task, "slot_until"))
