"""What a subordinate may report: rows that can stand below it, within bounds; double claims are marked."""

from __future__ import annotations

import msgspec
import pytest
from liars import lies
from small_world import SmallWorld

from subord.core.edges import reports
from subord.core.events import Dropped
from subord.core.messages import Beat, Change, Message
from subord.core.snapshots import snapshot

LIAR = 12


def claiming(*rows: Change) -> object:
    def falsify(message: Message) -> Message:
        if not isinstance(message, Beat):
            return message
        changes = (*message.changes, *rows)
        return msgspec.structs.replace(message, changes=changes, rows=0)

    return falsify


def rows_of(*positions: int) -> tuple[Change, ...]:
    return tuple(Change(position, LIAR, 2, 1 << 40, 9, 0) for position in positions)


def dropped(world: SmallWorld, reason: str) -> set[int]:
    return {p for _, p, notice in world.notices if notice == Dropped(reason)}


@pytest.mark.parametrize("mapping", ["ip", "latency"])
def test_a_leaf_cannot_claim_lower_positions(mapping: str) -> None:
    world = SmallWorld.empty(2, "10.0.0.0/24", mapping=mapping)
    lies(world, LIAR, claiming(*rows_of(7, 8, 9, 10, 11)))  # type: ignore[arg-type]
    world.start_all(range(1, 16))
    world.run(60)
    leader = world.leader_of(LIAR)
    assert dropped(world, "row_not_below") == {leader}, "the leader drops them"
    for position in (7, 8, 9, 10, 11):
        assert world.nodes[1].roster.rows[position][1].change.leader == world.leader_of(position)


def test_rows_of_one_subordinate_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "ROWS_OF_ONE_MAX", 10)
    world = SmallWorld.empty(2, "10.0.0.0/24")
    lies(world, LIAR, claiming(*rows_of(*range(100, 115))))  # type: ignore[arg-type]
    world.start_all(range(1, 16))
    world.run(60)
    leader = world.leader_of(LIAR)
    assert len(world.nodes[leader].roster.claims[LIAR]) == 10
    assert leader in dropped(world, "rows_of_one")


@pytest.mark.parametrize(
    ("rows_max", "rows_of_one_max", "full"), [(8, 4, False), (7, 4, True), (8, 3, True), (7, 3, True)]
)
def test_rows_may_be_missing_for_want_of_room_of_either_kind(
    monkeypatch: pytest.MonkeyPatch, rows_max: int, rows_of_one_max: int, full: bool
) -> None:
    """1 lists seven, three of them by 2."""
    world = SmallWorld.dense(7, 2)
    world.run(20)
    roster = world.nodes[1].roster
    assert (len(roster.rows), len(roster.claims[2])) == (7, 3)
    monkeypatch.setattr(reports, "ROWS_MAX", rows_max)
    monkeypatch.setattr(reports, "ROWS_OF_ONE_MAX", rows_of_one_max)
    assert world.nodes[1].downlink.reports._is_full(2) is full


def test_a_node_that_two_subordinates_claim_is_marked() -> None:
    """13 stands below 6, and 7 claims it as well; both are reported to 3."""
    world = SmallWorld.empty(2, "10.0.0.0/24")
    world.start_all(range(1, 16))
    world.run(60)
    assert not any(snapshot(node, world.now).disputed for node in world.nodes.values())
    world.wires.clear()
    lies(world, 7, claiming(Change(13, 7, 2, 1 << 40, 9, 0)))  # type: ignore[arg-type]
    world.run(60)
    assert snapshot(world.nodes[3], world.now).disputed == (13,)
    assert snapshot(world.nodes[1], world.now).disputed == (), "marked only where both claims arrive"
