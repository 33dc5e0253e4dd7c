"""The window of a machine that was off since it was opened, and what the check of windows counts."""

from __future__ import annotations

import pytest

from subord.services.machines.model import Machine, State
from tests.machines.test_machines_times import LARGE, Site
from tests.machines.world import BrokenError

WINDOW_S = LARGE.window_s


def stopped_while_open(*, seconds_off: int) -> Site:
    """A machine with a window that was stopped by hand just before it was opened, and is started for a job later."""
    site = Site(Machine("m", LARGE.need, State.ON, "large"), servers=1)
    site.submit("large", lasts=10)
    for _ in range(60):
        if site.world.hosts["m"].is_open:
            break
        site.run(1)
    site.watch.disturbed["m"] = site.world.opened_at["m"] - 1
    site.world.by_hand = True
    site.world.power_off(site.world.servers["s00"], "m", by_us=False)
    site.world.by_hand = False
    site.world.cancel(list(site.world.waiting))
    site.run(seconds_off)
    assert site.world.hosts["m"].is_open
    assert not site.world.is_on("m")
    return site


def test_seconds_while_a_machine_is_off_are_not_of_its_window() -> None:
    site = stopped_while_open(seconds_off=WINDOW_S * 3)
    site.submit("large")
    site.run(60)  # the check raises an error if it counts them
    assert "m" in site.world.up


def test_a_machine_that_is_started_has_a_window_of_its_own() -> None:
    """Else it is closed as soon as it is up, and a job that comes then has another one started."""
    site = stopped_while_open(seconds_off=WINDOW_S * 3)
    assert site.waited(site.submit("large")) <= 60
    site.run(WINDOW_S // 2)
    assert site.world.hosts["m"].is_open
    site.run(WINDOW_S)
    assert not site.world.hosts["m"].is_open


def test_a_machine_that_stays_open_after_it_was_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    site = stopped_while_open(seconds_off=WINDOW_S * 3)
    assert site.waited(site.submit("large")) <= 60
    monkeypatch.setattr(site.world, "command", lambda _: None)  # it is not closed
    with pytest.raises(BrokenError, match=f"window: m is open for .* of {WINDOW_S} s"):
        site.run(WINDOW_S * 3)
