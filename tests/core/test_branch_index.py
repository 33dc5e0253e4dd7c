"""The index of the tree below a node: it agrees with a walk over all rows, and a question does not walk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from types import FrameType
from typing import Any

import pytest
from loops import over

from subord.core.address.network import Network
from subord.core.messages import Change
from subord.core.settings import Settings
from subord.core.state.context import Context
from subord.core.state.roster import GUEST, OWN, Roster
from subord.core.vacancies.branch_index import STEPS_MAX, BranchIndex
from subord.core.vacancies.vacancies import PLAN_S, Vacancies

OWNER, SLOTS = 1, 2


class IndexedRoster:
    """A roster, and the index that follows it."""

    def __init__(self) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/16"), fanout=2, guest_slots=SLOTS)
        self.context = Context(settings, OWNER, 1000, Random(1), now=0.0)
        self.roster = Roster(OWNER)
        self.add(OWNER, 0, place=0)

    def add(self, node: int, leader: int, *, place: int = GUEST, missing: bool = False) -> None:
        self.roster.state(OWN, Change(node, leader, place, 1000, 0, 0, missing=missing), self.context.now)

    def remove(self, node: int) -> None:
        self.roster.retract(OWN, node, self.context.now)


def computed(roster: Roster) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
    """Levels, branch sizes and heights, by a walk over all rows."""
    rows = {p: claim.change for p, (_, claim) in roster.rows.items() if not claim.change.missing}
    levels, nodes, heights = {OWNER: 0}, dict.fromkeys(rows, 1), dict.fromkeys(rows, 0)
    for position in sorted(rows):
        if position != OWNER and rows[position].leader in levels:
            levels[position] = levels[rows[position].leader] + 1
    for position in sorted(rows, reverse=True):
        leader = rows[position].leader
        if leader in rows:
            nodes[leader] += nodes[position]
            heights[leader] = max(heights[leader], heights[position] + 1)
    return levels, nodes, heights


@pytest.mark.slow
@over("seed", range(20))
def test_the_index_agrees_with_a_walk_over_all_rows(seed: int) -> None:
    """Nodes are added, move with their branches, become missing and are removed, in any order."""
    chance, indexed = Random(seed), IndexedRoster()
    index = BranchIndex(indexed.context, indexed.roster, lambda _node, _leader: None)
    for _ in range(400):
        node = chance.randrange(2, 60)
        if chance.random() < 0.25:
            indexed.remove(node)
        else:
            place, missing = chance.choice((1, GUEST)), chance.random() < 0.1
            indexed.add(node, chance.randrange(1, node), place=place, missing=missing)
        if chance.random() < 0.5:
            continue  # several changes at once
        index.catch_up()
        index.catch_up()
        levels, nodes, heights = computed(indexed.roster)
        assert index.levels() == levels
        assert {p: index.nodes_of(p) for p in nodes} == nodes
        assert {p: index.height_of(p) for p in heights} == heights
        assert list(index.living) == sorted(nodes)
        free = {p for p in levels if indexed.roster.guests[p] < SLOTS}
        assert [set(places) for places in index.vacant] == [
            {p for p in free if levels[p] == level} for level in range(len(index.vacant))
        ]
        assert {p for leaders in index.full for p in leaders} == set(levels) - free


def test_removed_rows_leave_no_entry() -> None:
    indexed = IndexedRoster()
    index = BranchIndex(indexed.context, indexed.roster, lambda _node, _leader: None)
    for node in range(2, 200):
        indexed.add(node, node - 1)
        index.catch_up()
    for node in range(2, 200):
        indexed.remove(node)
        index.catch_up()
    for _ in range(200):
        index.catch_up()
    assert (set(index._entries), indexed.roster.unread, index._relevel, index._resize) == ({OWNER}, {}, {}, {})


def test_an_event_does_a_bounded_number_of_steps() -> None:
    indexed = IndexedRoster()
    index = BranchIndex(indexed.context, indexed.roster, lambda _node, _leader: None)
    for node in range(2, 3 * STEPS_MAX):
        indexed.add(node, OWNER)
    index.catch_up()
    assert len(indexed.roster.unread) == 2 * STEPS_MAX - 1


# -- what a question costs ------------------------------------------------------------------------------------------


def instructions(action: Callable[[], object]) -> int:
    """The number of interpreter instructions that `action` takes: the same on every machine."""
    count = 0

    def trace(frame: FrameType, what: str, _word: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += what == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def asked_after_a_change(nodes: int) -> int:
    indexed = IndexedRoster()
    vacancies = Vacancies(indexed.context, indexed.roster)
    for node in range(2, nodes + 1):
        indexed.add(node, node // 2, place=1)
        vacancies.suggest(60_000, 0, 6) if node % 100 == 0 else None
    indexed.context.now += PLAN_S
    vacancies.suggest(60_000, 0, 6)
    indexed.context.now += PLAN_S
    indexed.add(nodes + 1, (nodes + 1) // 2, place=1)
    return instructions(lambda: vacancies.suggest(60_001, 0, 6))


def test_a_question_after_a_change_costs_the_same_in_a_large_tree() -> None:
    """F6: places were computed from all rows, 14 to 22 ms with 10,000 nodes."""
    small, large = asked_after_a_change(500), asked_after_a_change(8000)
    assert large < 2 * small
