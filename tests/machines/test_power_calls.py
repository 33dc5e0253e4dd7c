"""Calls of libvirt that are late, changes at once, and events that nothing receives."""

from __future__ import annotations

import sys
import threading

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from subord.services.machines.plan import WAIT_S_MAX
from subord.services.machines.power import binding
from subord.services.machines.power.calls import Calls, LateError
from subord.services.machines.power.driver import LibvirtPower, Limits
from subord.services.machines.power.events import Events
from subord.services.machines.power.faults import SYSTEM_ERROR, Trouble, failed, unopened
from subord.services.machines.power.records import Event, EventKind, Fault, Refused, Unavailable


async def test_the_answer_of_a_call() -> None:
    assert await Calls().run(lambda: 7, within=5) == 7


async def test_a_late_change_keeps_its_key_until_it_has_ended() -> None:
    calls, go = Calls(), threading.Event()
    done: list[str] = []

    def work() -> None:
        go.wait(10)
        done.append("late")

    async def change(word: str, within: float) -> None:
        async with calls.holding(("alma-1",), within) as hold:
            await calls.run(lambda: done.append(word), within, (hold,))

    with pytest.raises(LateError) as late:
        async with calls.holding(("alma-1", "starts"), 5) as hold:
            await calls.run(work, 0.05, (hold,))
    assert late.value.is_running
    with pytest.raises(LateError) as waiting:
        await change("too early", 0.05)
    assert not waiting.value.is_running
    go.set()
    await change("after it", 5)
    assert done == ["late", "after it"]
    assert calls._keys == {}


async def test_a_change_that_was_given_up_before_it_began_never_begins() -> None:
    calls, go = Calls(), threading.Event()
    done: list[str] = []
    with pytest.raises(LateError) as late:
        async with calls.holding(("alma-1",), 5) as hold:
            await calls.run(lambda: done.append("begun"), 0.05, (hold,), ready=lambda: go.wait(10))
    assert not late.value.is_running
    go.set()
    assert await calls.run(lambda: 7, within=5) == 7
    assert done == []


async def test_a_cancelled_change_keeps_its_key_too() -> None:
    calls, go = Calls(), threading.Event()
    with trio.move_on_after(0.05):
        async with calls.holding(("alma-1",), 5) as hold:
            await calls.run(lambda: go.wait(10), 5, (hold,))
    with pytest.raises(LateError):
        async with calls.holding(("alma-1",), 0.05):
            pass
    go.set()
    async with calls.holding(("alma-1",), 5):
        pass


async def test_hung_threads_are_few() -> None:
    calls, go = Calls(threads=2), threading.Event()
    before = threading.active_count()
    for _ in range(6):
        with pytest.raises(LateError):
            await calls.run(lambda: go.wait(10), 0.02)
    assert threading.active_count() <= before + 2
    go.set()
    assert await calls.run(lambda: 7, within=5) == 7


async def test_errors_come_through_and_free_the_key() -> None:
    calls = Calls()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with calls.holding(("alma-1",), 1) as hold:
                await calls.run(lambda: 1 / 0, 5, (hold,))


async def test_events_that_are_not_received_are_counted_as_missed() -> None:
    events = Events(4)
    for number in range(9):
        events.put(Event(EventKind.STARTED, f"alma-{number}"))
    got = [events.received.receive_nowait() for _ in range(4)]
    assert [each.machine for each in got] == ["alma-0", "alma-1", "alma-2", ""]
    assert got[3].kind == EventKind.MISSED
    events.put(Event(EventKind.STOPPED, "alma-0"))
    assert events.received.receive_nowait() == Event(EventKind.STOPPED, "alma-0")


async def test_without_the_binding_the_word_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libvirt", None)
    monkeypatch.setattr(binding, "_loaded", None)
    outcome = await LibvirtPower("qemu:///system", cluster="physics", server="s1").start("alma-1", lambda *_: "")
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == Fault.MISSING
    assert "pip install 'subord[machines]'" in outcome.reason


@given(st.lists(st.booleans(), max_size=60))
def test_no_event_is_dropped_without_a_word(puts: list[bool]) -> None:
    """Put or received in any order: whatever is dropped, MISSED is received after it."""
    events, dropped = Events(3), 0

    def receive() -> None:
        nonlocal dropped
        if events.received.receive_nowait().kind == EventKind.MISSED:
            dropped = 0

    for is_put in puts:
        waiting = events.received.statistics().current_buffer_used
        if is_put:
            dropped += waiting >= 2
            events.put(Event(EventKind.STARTED))
        elif waiting:
            receive()
    while events.received.statistics().current_buffer_used:
        receive()
    assert dropped == 0


@pytest.mark.parametrize(
    ("trouble", "is_alive", "expected"),
    [
        (Trouble(38, "cannot write: No space left on device"), True, "refused"),
        (Trouble(38, "unable to write", 28), True, "refused"),
        (Trouble(3, "not supported by the driver"), True, "refused"),
        (Trouble(1, "internal error: client socket is closed"), True, Fault.SILENT),
        (Trouble(38, "Cannot recv data: Connection reset by peer"), False, Fault.SILENT),
        (Trouble(45, "authentication failed"), True, Fault.RIGHTS),
        (Trouble(68, "cannot acquire state change lock"), True, Fault.SLOW),
        (Trouble(38, "Cannot access storage file '/images/x'", 2), True, Fault.FAILED),
    ],
)
def test_what_errors_mean(trouble: Trouble, is_alive: bool, expected: str) -> None:
    said = failed("starting alma-1", trouble, is_alive)
    assert said.reason.startswith("starting alma-1: libvirt says: ")
    assert ("refused" if isinstance(said, Refused) else said.fault) == expected


@pytest.mark.parametrize(
    ("number", "fault"),
    [(2, Fault.MISSING), (13, Fault.RIGHTS), (111, Fault.SILENT)],
    ids=["absent", "rights", "down"],
)
def test_a_connection_that_cannot_be_opened(number: int, fault: Fault) -> None:
    said = unopened("qemu:///system", Trouble(SYSTEM_ERROR, "Failed to connect socket", number))
    assert isinstance(said, Unavailable)
    assert said.fault == fault
    assert "no machine was changed" in said.reason


def test_a_copy_may_take_as_long_as_a_plan_may_wait_for_it() -> None:
    """Otherwise a clone of a large image would be begun again and again, and never be there."""
    assert Limits().clone >= WAIT_S_MAX
