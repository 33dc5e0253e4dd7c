"""All nodes remember the same members, in drawn orders of deaths, changes of the root, goodbyes and partitions."""

from __future__ import annotations

import pytest

from subord.core import snapshots
from subord.core.members import listing, statements
from subord.core.members.journal import Journal
from subord.core.members.membership import Membership
from subord.core.members.recorder import Recorder
from subord.core.members.register import Register, State
from subord.core.members.writer import Writer
from subord.core.node import Node
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
@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, SEEDS), marks=pytest.mark.long)])
def test_all_nodes_remember_alike_in_200_orders(seeds: range) -> None:
    demands = 0
    for seed in seeds:
        remembered = play(seed)._remembered
        assert remembered is not None
        demands += remembered.demands
    assert demands > len(seeds)  # most orders leave nodes that are down, have left, or are forgotten


def first_fault() -> Violation | None:
    for seed in range(FAULT_SEEDS):
        try:
            play(seed)
        except Violation as found:
            return found
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        11_079,  # a node that left comes back, and dies before the root has written it
        11_177,  # two roots record a node at once
        12_001,  # a leader and its subordinate leave together
        10_102,  # a goodbye before any node has a record of the node
        10_010,  # the one node that heard an order never runs again
    ],
)
def test_an_order_that_once_failed(seed: int) -> None:
    play(seed)


_merge = Journal.merge


def look_at_revisions(membership: Membership, node: Node, now: float, wall: float) -> bool:
    """The gate of the daemon before it saw the phase."""
    seen = node.roster.revision, membership.changes
    if seen == membership._seen and now < membership.deadline:
        return False
    membership._seen = seen
    membership.look(snapshots.roster(node, now), node.uplink.path, now, wall)
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Writer, "_stay_away", lambda *_: []),
        (Writer, "_departed", lambda *_: []),
        (Membership, "left", lambda *_: None),
        (statements, "forgotten", lambda *_: []),
        (listing, "expected", lambda register: listing.of_states(register, State.UP)),
        (Membership, "is_compared", lambda *_: False),
        (Membership, "look_at", look_at_revisions),
        (Recorder, "looked", lambda *_: []),
        (Journal, "merge", lambda journal, items: _merge(journal, list(items)[:1])),
        (Register, "merge", lambda register, runs: [each for run in list(runs)[:1] for each in register._take(run)]),
    ],
)
def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, fault: object) -> None:
    monkeypatch.setattr(owner, name, fault)
    found = first_fault()
    assert found is not None
    assert str(found)[:2] in ("M1", "M2", "M3", "M4", "M5", "M6")
