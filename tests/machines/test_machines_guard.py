"""What the agent of a server checks before it acts, and when a process may decide."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from loops import over

from subord.services.machines import guarding
from subord.services.machines.fencing import Answer, Process, awake, hindrance, hold_s
from subord.services.machines.guarding import Heard, may_obey, obeyed
from subord.services.machines.model import Capacity, Doing, Machine, Need, State, lack, room_of
from subord.services.machines.orders import Fence, Open, Order, Start, Stop, server_of
from subord.services.machines.plan import Waits
from tests.machines.tables import ROOM, SMALL, closed, foreign, machine, server

FULL = Capacity(2, 2000, 100, 3)
NEED = Need(1, 500, 50)


@over(
    ("changes", "counts"),
    [
        ({"state": State.ON}, True),
        ({"state": State.PAUSED}, True),
        ({"state": State.UNKNOWN}, True),
        ({"state": State.OFF}, False),
        ({"state": State.OFF, "doing": Doing.STARTING}, True),
        ({"state": State.OFF, "doing": Doing.CLONING}, True),
        ({"state": State.OFF, "doing": Doing.DELETING}, False),
        ({"state": State.ON, "doing": Doing.STOPPING}, True),
        ({"state": State.OFF, "given_to": "b"}, False),
        ({"state": State.OFF, "given_to": "b", "doing": Doing.STARTING}, False),
        ({"state": State.ON, "given_to": "b"}, True),
        ({"state": State.OFF, "came_from": "b"}, False),
        ({"state": State.ON, "type": ""}, True),
    ],
)
def test_what_takes_room(changes: dict[str, Any], counts: bool) -> None:
    there = machine("m")._replace(**changes)
    assert room_of(server("a", there)) == (ROOM.less(there.need) if counts else ROOM)


@over(
    ("room", "words"),
    [
        (FULL, ""),
        (Capacity(1, 500, 50, 1), ""),
        (Capacity(0, 500, 50, 1), "0 of 1 cores are free"),
        (Capacity(1, 499, 50, 1), "499 of 500 MiB of memory are free"),
        (Capacity(1, 500, 49, 1), "49 of 50 MiB of disk are free"),
        (Capacity(1, 500, 50, 0), "0 of 1 slots for machines are free"),
        (Capacity(-3, 0, 50, 1), "0 of 1 cores and 0 of 500 MiB of memory are free"),
    ],
)
def test_each_limit(room: Capacity, words: str) -> None:
    assert lack(room, NEED) == words
    assert room.fits(NEED) is (not words)
    assert bool(room.holds(NEED)) is (not words)
    given = server("a", capacity=room)
    expected = f"{words} on the server a; nothing was started" if words else ""
    assert guarding.may_start(given, Machine("m", NEED, type="small")) == expected
    assert guarding.may_clone(given, Machine("m", NEED, type="small"), 1, 1) == expected


def test_what_is_not_needed_may_be_overbooked() -> None:
    assert Capacity(1, 500, -9, 1).fits(Need(1, 500, 0))
    assert lack(Capacity(1, 500, -9, 1), Need(1, 500, 0)) == ""


def test_how_many_fit() -> None:
    assert FULL.holds(NEED) == 2
    assert FULL.holds(Need(0, 0, 0)) == 3
    assert Capacity(9, 9000, 100, 9).holds(NEED) == 2


REFUSED: dict[str, tuple[str, str]] = {
    "start a foreign one": (guarding.may_start(server("a"), foreign("f")), "not a machine of this service"),
    "start one that is always on": (guarding.may_start(server("a"), machine("m", always_on=True)), "always on"),
    "start one that is on": (guarding.may_start(server("a"), closed("m")), "m is on, not off"),
    "start one that is paused": (guarding.may_start(server("a"), machine("m", state=State.PAUSED)), "is paused"),
    "start one that was given": (
        guarding.may_start(server("a"), machine("m", given_to="b")),
        "given to the server b",
    ),
    "start one that is starting": (guarding.may_start(server("a"), machine("m", doing=Doing.STARTING)), "starting"),
    "start on a drained one": (guarding.may_start(server("a", is_drained=True), machine("m")), "drained"),
    "start beside foreign ones": (guarding.may_start(server("a", foreign("f", 4)), machine("m")), "0 of 1 cores"),
    "clone a known name": (guarding.may_clone(server("a", machine("m")), machine("m"), 1, 9), "there is a machine m"),
    "clone into a full store": (guarding.may_clone(server("a"), machine("m"), 9, 8), "8 of 9 MiB are free"),
    "stop a foreign one": (guarding.may_stop(foreign("f")), "not a machine of this service"),
    "stop one that is always on": (guarding.may_stop(closed("m", always_on=True)), "always on"),
    "stop one that is off": (guarding.may_stop(machine("m")), "m is off, not on"),
    "stop one that is paused": (guarding.may_stop(closed("m", state=State.PAUSED)), "m is paused, not on"),
    "delete one that is on": (guarding.may_delete(closed("m")), "m is not off here"),
    "delete a foreign one": (guarding.may_delete(machine("f", type="")), "not a machine of this service"),
    "give one that is on": (guarding.may_give(closed("m"), "b"), "m is not off here"),
    "give it to another one": (guarding.may_give(machine("m", given_to="b"), "c"), "given to the server b before"),
    "forget one that is here": (guarding.may_forget(machine("m")), "m is here"),
    "forget one that is on": (guarding.may_forget(closed("m", given_to="b")), "m is on here, by hand"),
    "start one that arrives": (
        guarding.may_start(server("a"), machine("m", came_from="b")),
        "comes from the server b",
    ),
    "delete one that arrives": (guarding.may_delete(machine("m", came_from="b")), "m is not off here"),
}


@pytest.mark.parametrize(("reason", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(reason: str, words: str) -> None:
    assert words in reason
    assert "nothing" in reason or "not started" in reason


def test_allowed() -> None:
    there = machine("m")
    assert not guarding.may_start(server("a", there), there)
    assert not guarding.may_stop(closed("m"))
    assert not guarding.may_delete(there)
    assert not guarding.may_give(there, "b")
    assert not guarding.may_give(machine("m", given_to="b"), "b")
    assert not guarding.may_forget(machine("m", given_to="b"))
    assert not guarding.may_clone(server("a"), there, SMALL.image_mb, SMALL.image_mb)


# -- orders ---------------------------------------------------------------------------------------------------------


def order(number: int = 5, life: int = 7, version: int = 1, expires: float = 100.0) -> Order:
    return Order(Fence(version, life), number, expires, Start("m", "a"))


@over(
    ("given", "words"),
    [
        (order(), ""),
        (order(life=6), "it comes from life 6 of plan 1, and this server obeys life 7 of plan 1; nothing was done"),
        (order(life=1, version=2), ""),
        (order(expires=89.0), "it came 1 s too late; nothing was done"),
        (order(expires=90.0 + 4200.0), ""),
        (
            order(expires=90.0 + 4201.0),
            "it would last 4201 s, and 4200 s are the most; nothing was done: compare the clocks of the nodes",
        ),
        (
            order(expires=inf),
            "it would last inf s, and 4200 s are the most; nothing was done: compare the clocks of the nodes",
        ),
        (
            order(expires=nan),
            "it would last nan s, and 4200 s are the most; nothing was done: compare the clocks of the nodes",
        ),
        (order(expires=90.0), ""),
        (order(number=4), "it was obeyed before, or a later one was; nothing was done again"),
        (order(number=3), "it was obeyed before, or a later one was; nothing was done again"),
        (order(number=1, life=8), ""),
        (order(number=4)._replace(action=Stop("other", "a")), ""),
    ],
)
def test_which_orders_are_obeyed(given: Order, words: str) -> None:
    heard = obeyed(order(number=4), Heard(Fence(1, 7)))
    assert may_obey(given, heard, 90.0) == words
    if not words:
        assert may_obey(given, obeyed(given, heard), 90.0), "not a second time"


def test_whose_agent_gets_an_order() -> None:
    assert [server_of(each) for each in (Open("m"), Start("m", "b"), Start("m", "b", "a"))] == ["", "b", "a"]


# -- who decides ----------------------------------------------------------------------------------------------------

WAITS = Waits(order_s=20, answer_s=45)
FENCE = Fence(1, 7)


@over(
    ("is_alone", "answers", "now", "word"),
    [
        (True, {"a": Answer(150, FENCE)}, 164, "the agent of this node has just started, and orders"),
        (True, {"a": Answer(150, FENCE)}, 165, ""),
        (False, {"a": Answer(200, FENCE)}, 209, "version 1 of the plan is new here"),
        (False, {"a": Answer(200, FENCE)}, 209, "servers are only asked, and the first decision is in 1 s"),
        (False, {"a": Answer(200, FENCE)}, 210, ""),
        (True, {}, 200, "no server has answered for 45 s"),
        (True, {"a": Answer(154, FENCE)}, 200, "no server has answered for 45 s"),
        (True, {"a": Answer(154, FENCE), "b": Answer(155, FENCE)}, 200, ""),
        (
            True,
            {"a": Answer(200, FENCE), "b": Answer(1, Fence(1, 8))},
            200,
            "decides; nothing is done here: if there is none, publish",
        ),
        (True, {"a": Answer(200, Fence(2, 1))}, 200, "the server a obeys life 1 of plan 2"),
        (True, {"a": Answer(200, Fence(1, 6))}, 200, ""),
    ],
)
def test_when_a_process_decides(is_alone: bool, answers: dict[str, Answer], now: float, word: str) -> None:
    found = hindrance(Process(FENCE, 100, 100, now - 20, is_alone), answers, now, WAITS)
    assert word in found
    assert bool(word) is bool(found)


def test_servers_are_asked_before_it_is_decided() -> None:
    """Otherwise those whose answer has become old in a short sleep would count as lost."""
    found = hindrance(Process(FENCE, 100, 200, 179), {"a": Answer(200, FENCE)}, 210, WAITS)
    assert found == (
        "servers were last asked 31 s ago, and order_s is 20: they are asked first; if this does not end, the batch "
        "system or a server answers slowly: raise order_s in the plan"
    )


def test_a_process_that_has_slept_begins_again() -> None:
    process = Process(FENCE, 100, 200, 200, is_alone=True)
    assert awake(process, 245, WAITS) == Process(FENCE, 100, 245, 200, is_alone=True)
    assert awake(process, 246, WAITS) == Process(FENCE, 246, 246, 200, is_alone=False, has_slept=True)
    assert hold_s(awake(process, 246, WAITS), WAITS) == 110
    found = hindrance(awake(process, 246, WAITS), {}, 246, WAITS)
    assert found.startswith("the process that decides was paused, and another one may have taken its place; ")


@over("process", [Process(FENCE, 0, 0, 0, is_alone) for is_alone in (False, True)])
def test_a_beginning_has_no_colon(process: Process) -> None:
    """One stands before it, where it is shown."""
    assert ":" not in hindrance(process, {}, 0, WAITS)
