"""F6: no step of a root takes longer because the cluster is large."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from subord.core.messages import CHANGES_MAX, Ask, Goodbye, Why
from subord.core.state.roster import SETTLED_MAX, Roster
from subord.core.vacancies.branch_index import STEPS_MAX
from subord.sim.rootload import FIRST_INCARNATION, RootLoad, Steps, longest_steps


@pytest.mark.slow
@pytest.mark.parametrize("fanout", [2, 8])
def test_the_rows_that_one_step_settles_have_a_bound(monkeypatch: pytest.MonkeyPatch, fanout: int) -> None:
    """Counted instead of timed."""
    settled = 0
    settle = Roster._settle

    def counted(*words: Any) -> None:
        nonlocal settled
        settled += 1
        settle(*words)

    monkeypatch.setattr(Roster, "_settle", counted)
    steps = longest_steps(2000, fanout, lambda: settled)
    assert settled > 2500
    assert steps.longest[0] <= SETTLED_MAX + CHANGES_MAX < STEPS_MAX


@pytest.mark.slow
def test_the_garbage_collector_visits_no_object_for_each_node() -> None:
    """Python collects while the list grows; with 100,000 entries to visit that took 20 ms."""
    tracked = []
    for nodes in (100, 2000):
        load = RootLoad(nodes, 8, Steps(lambda: 0.0))
        gc.collect()
        tracked.append(len(gc.get_objects()))
        assert load.root.roster.live == nodes
    assert tracked[1] - tracked[0] < 500


def test_questions_do_not_put_off_the_settling_of_a_branch() -> None:
    """After an outage questions come faster than the timer that settles rows."""
    load = RootLoad(2000, 8, Steps(lambda: 0.0))
    via = max(load.root.roster.claims, key=load.root.roster.living_of)
    load._say(via, Goodbye(FIRST_INCARNATION, Why.MOVED))
    assert load.root.roster.unsettled
    for newcomer in range(2001, 2101):
        load._pass(0.0009)
        load._say(newcomer, Ask(FIRST_INCARNATION, load._next(), load._terms))
    assert not load.root.roster.unsettled
