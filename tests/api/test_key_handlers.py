"""The rings of all nodes as one report; changes of the ring by the root."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from subord.api.handlers import keys
from subord.sealing.keys import key_of, keyring_of
from tests.api.fake_node_api import World, key_ring_of

BUDGET_S = 3.0
ONE, TWO = (key_of(bytes([number]) * 32) for number in (1, 2))
OLD, NEW = keyring_of(ONE, revision=1), keyring_of(TWO, [ONE], revision=2)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Figure 1, all with the new ring."""
    world = World()
    world.key_rings = {position: key_ring_of(tmp_path, NEW) for position in world.leaders}
    return world


async def test_all_are_counted_once(world: World) -> None:
    found = await keys.coverage(world.node(1), BUDGET_S)
    (ring,) = found.rings
    assert (ring.revision, ring.keys, ring.nodes, ring.unsaved) == (2, (TWO.name, ONE.name), 11, 0)
    assert sorted(ring.addresses) == sorted(f"10.0.0.{position}" for position in range(1, 12))
    assert (found.silent, found.silent_nodes) == ((), 0)
    assert sorted(world.asked) == list(range(2, 12))


async def test_differing_nodes_are_named(world: World, tmp_path: Path) -> None:
    world.key_rings[9] = key_ring_of(tmp_path, OLD)
    del world.key_rings[7]
    newest, behind = (await keys.coverage(world.node(1), BUDGET_S)).rings
    assert (newest.revision, newest.nodes) == (2, 9)
    assert (behind.revision, behind.addresses) == (1, ("10.0.0.9",))


@pytest.mark.parametrize("how", ["hung", "gone", "lying"])
async def test_a_silent_node_counts_with_all_below(world: World, how: str, autojump_clock: MockClock) -> None:
    if how == "lying":
        world.lying[2] = b"[]"
    else:
        getattr(world, how).add(2)
    found = await keys.coverage(world.node(1), BUDGET_S)
    assert (found.silent, found.silent_nodes) == (("10.0.0.2",), 7)
    assert sum(ring.nodes for ring in found.rings) == 4
    assert trio.current_time() <= BUDGET_S


async def test_many_silent_nodes_cost_no_more_time_than_one(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World({1: None, **dict.fromkeys(range(2, 200), 1)})
    world.key_rings = {position: key_ring_of(tmp_path, NEW) for position in world.leaders}
    world.hung = set(range(2, 199))
    found = await keys.coverage(world.node(1), BUDGET_S)
    assert trio.current_time() <= BUDGET_S
    assert found.silent_nodes >= 197
    assert len(found.silent) == keys.NAMED_MAX


# -- changes --------------------------------------------------------------------------------------------------------


async def test_the_root_changes_the_ring(world: World) -> None:
    root = world.node(1)
    used = await keys.rotate(root, ("use", ONE.name), BUDGET_S)
    assert (used.error, used.key, used.revision) == (None, ONE.name, 3)
    assert world.key_rings[1].ring == keyring_of(ONE, [TWO], revision=3)
    installed = await keys.rotate(root, ("install",), BUDGET_S)
    assert (installed.error, installed.revision) == (None, 4)
    assert installed.key in {key.name for key in world.key_rings[1].ring.keys.values()}


@pytest.mark.parametrize(
    ("position", "words", "error"),
    [
        (2, ("install",), "10.0.0.2 is not the root any more: try again"),
        (1, ("use", "00000000"), "there is no key 00000000; `subord key list` shows them"),
        (1, ("remove", TWO.name), f"{TWO.name} is the primary key: `subord key use` another one first"),
        (1, (), "a change of keys is install, use KEY or remove KEY"),
        (1, ("use",), "a change of keys is install, use KEY or remove KEY"),
        (1, ("remove",), "a change of keys is install, use KEY or remove KEY"),
        (1, ("steal", "it"), "a change of keys is install, use KEY or remove KEY"),
    ],
)
async def test_what_cannot_be_done_changes_nothing(
    world: World, position: int, words: tuple[str, ...], error: str
) -> None:
    assert (await keys.rotate(world.node(position), words, BUDGET_S)).error == error
    assert world.key_rings[position].ring == NEW


async def test_without_keys_nothing_is_changed() -> None:
    assert (await keys.rotate(World().node(1), ("install",), BUDGET_S)).error == keys.NO_KEYS


async def test_a_key_that_a_node_may_need_is_removed_only_by_force(world: World, tmp_path: Path) -> None:
    world.key_rings[9] = key_ring_of(tmp_path, OLD)
    refused = await keys.rotate(world.node(1), ("remove", ONE.name), BUDGET_S)
    assert refused.error == "1 of the nodes have not answered that they have the newest ring: 10.0.0.9"
    assert world.key_rings[1].ring == NEW
    forced = await keys.rotate(world.node(1), ("remove", ONE.name, "force"), BUDGET_S)
    assert (forced.error, world.key_rings[1].ring) == (None, keyring_of(TWO, revision=3))


async def test_an_unneeded_key_is_removed(world: World) -> None:
    assert (await keys.rotate(world.node(1), ("remove", ONE.name), BUDGET_S)).error is None
    assert world.key_rings[1].ring == keyring_of(TWO, revision=3)
