"""All nodes remember the same members, in drawn orders of deaths, changes of the root, goodbyes and partitions."""

from __future__ import annotations

import pytest

from subord.core.members import statements
from subord.core.members.membership import Membership
from subord.core.members.register import Register
from subord.core.members.writer import Writer
from subord.sim.draw.aim import Aim
from subord.sim.draw.seed import draw
from subord.sim.player import Play
from subord.sim.violation import Violation

MEMORY = Aim(kinds=("memory",), nodes=(2, 20))
SEEDS = 200
FAULT_SEEDS = 40


def play(seed: int) -> Play:
    found = Play(draw(seed, "ip", MEMORY))
    found.run()
    return found


@pytest.mark.slow
def test_all_nodes_remember_alike_in_200_orders() -> None:
    demands = 0
    for seed in range(SEEDS):
        remembered = play(seed)._remembered
        assert remembered is not None
        demands += remembered.demands
    assert demands > SEEDS  # most orders leave nodes that are down, have left, or are forgotten


def first_fault() -> Violation | None:
    for seed in range(FAULT_SEEDS):
        try:
            play(seed)
        except Violation as found:
            return found
    return None


@pytest.mark.parametrize(
    "seed",
    [
        10_102,  # a goodbye before any node has a record of the node
        10_010,  # the one node that heard an order never runs again
    ],
)
def test_an_order_that_once_failed(seed: int) -> None:
    play(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Writer, "_stay_away", lambda *_: []),
        (Writer, "_departed", lambda *_: []),
        (Membership, "left", lambda *_: None),
        (statements, "forgotten", lambda *_: []),
        (Register, "merge", lambda register, runs: [each for run in list(runs)[:1] for each in register._take(run)]),
    ],
)
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, fault: object) -> None:
    monkeypatch.setattr(owner, name, fault)
    found = first_fault()
    assert found is not None
    assert str(found)[:2] in ("M1", "M2", "M3", "M4")
