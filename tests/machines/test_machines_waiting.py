"""Which actions are still waited for: until their effect is seen, or it is sure that there is none."""

from __future__ import annotations

from typing import Any

import pytest

from subord.services.machines.deciding.waiting import pending_of, still
from subord.services.machines.model import Doing, Server, State
from subord.services.machines.orders import Action, Clone, Close, Delete, Forget, Open, Pending, Start, Stop
from subord.services.machines.plan import Waits
from tests.machines.tables import NOW, closed, machine, opened, server

WAITS = Waits()
EARLIER: dict[str, Any] = {"asked_at": NOW - 30}
"""Asked before the order expired: 20 s after it was given."""
GIVEN_AT = NOW - 40

STILL: dict[str, tuple[Action, list[Server], bool]] = {
    "open": (Open("m"), [server("a", closed("m"))], True),
    "opened": (Open("m"), [server("a", opened("m"))], False),
    "open, and off meanwhile": (Open("m"), [server("a", machine("m"))], False),
    "close": (Close("m"), [server("a", opened("m"))], True),
    "closed": (Close("m"), [server("a", closed("m"))], False),
    "start": (Start("m", "a"), [server("a", machine("m"), **EARLIER)], True),
    "start, and an answer from later": (Start("m", "a"), [server("a", machine("m"))], False),
    "starting": (Start("m", "a"), [server("a", machine("m", doing=Doing.STARTING), **EARLIER)], False),
    "started": (Start("m", "a"), [server("a", machine("m", state=State.ON), **EARLIER)], False),
    "moved and not arrived": (
        Start("m", "b", "a"),
        [server("a", machine("m", given_to="b")), server("b", **EARLIER)],
        True,
    ),
    "lost on its way": (Start("m", "b", "a"), [server("a", machine("m", given_to="b")), server("b")], False),
    "arrived": (
        Start("m", "b", "a"),
        [server("a", machine("m", given_to="b")), server("b", machine("m", state=State.ON))],
        False,
    ),
    "start where nobody answers": (
        Start("m", "a"),
        [server("a", machine("m"), is_reachable=False, **EARLIER)],
        False,
    ),
    "clone": (Clone("m", "small", "a"), [server("a", **EARLIER)], True),
    "clone, and an answer from later": (Clone("m", "small", "a"), [server("a")], False),
    "cloning": (Clone("m", "small", "a"), [server("a", machine("m", doing=Doing.CLONING), **EARLIER)], False),
    "stop": (Stop("m", "a"), [server("a", closed("m"), **EARLIER)], True),
    "stopping": (Stop("m", "a"), [server("a", closed("m", doing=Doing.STOPPING), **EARLIER)], False),
    "stopped": (Stop("m", "a"), [server("a", machine("m"), **EARLIER)], False),
    "stopped and gone": (Stop("m", "a"), [server("a", **EARLIER)], False),
    "delete": (Delete("m", "a"), [server("a", machine("m"), **EARLIER)], True),
    "deleted": (Delete("m", "a"), [server("a", **EARLIER)], False),
    "forget": (Forget("m", "a"), [server("a", machine("m", given_to="b"), **EARLIER)], True),
    "forgotten": (Forget("m", "a"), [server("a", **EARLIER)], False),
}


@pytest.mark.parametrize(("action", "servers", "waits"), STILL.values(), ids=STILL)
def test_what_is_waited_for(action: Action, servers: list[Server], waits: bool) -> None:
    pending = Pending(action, GIVEN_AT, NOW + 1)
    assert still([pending], servers, WAITS, NOW).pending == ((pending,) if waits else ())


def test_nothing_is_waited_for_without_an_end() -> None:
    actions: list[Action] = [
        Open("m"),
        Close("m"),
        Start("m", "a"),
        Clone("m", "small", "a"),
        Stop("m", "a"),
        Delete("m", "a"),
        Forget("m", "a"),
    ]
    pending = pending_of(actions, WAITS, NOW)
    assert [each.until - NOW for each in pending] == [60, 60, 300, 1800, 180, 300, 45]
    found = still([Pending(Open("m"), NOW - 61, NOW - 1)], [server("a", closed("m"))], WAITS, NOW)
    assert found.pending == ()
    assert found.notes == ("open m: no effect is seen after 61 s",)
