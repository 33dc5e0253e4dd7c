"""The mappings by name (core/mapping/registry.py), and a fourth one that only this file defines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import msgspec
import pytest
from small_world import SmallWorld

from subord.core.mapping.mapping import Mapping, Rank
from subord.core.mapping.registry import MAPPINGS, MappingName
from subord.core.view import Position


class HighestFirst(Mapping):
    """The higher position leads."""

    ranks_are_positions = False

    def rank(self, node: Position, _standing: int | None = None) -> Rank:
        return -node, node

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        return sorted((p for p in some if self.may_lead(p, node)), key=self.rank)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    monkeypatch.setitem(MAPPINGS, "highest", HighestFirst)
    return SmallWorld.dense(19, 3, "10.0.0.0/24", mapping="highest")


def test_the_configuration_accepts_every_mapping() -> None:
    assert get_args(MappingName) == tuple(MAPPINGS)


def await_root(world: SmallWorld, root: Position) -> None:
    world.run_until(lambda: world.whole() and world.roots() == [root], 20.0)
    assert all(leader > node for node, leader in world.leaders().items() if leader)
    assert max(len(node.downlink.slots.taken) for node in world.nodes.values()) <= 3 + 3


def test_a_fourth_mapping_forms_and_heals_a_tree(world: SmallWorld) -> None:
    await_root(world, 19)
    world.start(20)
    await_root(world, 20)
    world.vanish(20)
    await_root(world, 19)


def test_a_node_with_another_mapping_is_refused(world: SmallWorld) -> None:
    await_root(world, 19)
    world.own_settings[20] = msgspec.structs.replace(world.settings, mapping="ip")
    world.start(20)
    world.run(10.0)
    assert world.roots() == [19, 20]
    assert {each.reason for each in world.shown(20).refusals} >= {"mapping highest, we use ip"}
