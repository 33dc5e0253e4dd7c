"""The rings of all nodes as one report; changes of the ring by signed orders."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from trio.testing import MockClock

from subord.api.handlers import keys, peer_answers
from subord.api.handlers.control import control_changes
from subord.api.http.server import Response
from subord.api.models.fields import KeysDocument
from subord.api.node_api import Question
from subord.core.members.membership import REGISTER
from subord.core.members.register import Record, Run, State
from subord.sealing.keys import key_of, keyring_of
from subord.services.serving import service_app
from tests.api.fake_node_api import World, key_ring_of
from tests.api.ordering import given, order, prepared, signed_body

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
    found = await keys.find(world.node(1), BUDGET_S)
    (ring,) = found.rings
    assert (ring.revision, ring.keys, ring.nodes, ring.unsaved) == (2, (TWO.name, ONE.name), 11, 0)
    assert sorted(ring.addresses) == sorted(f"10.0.0.{position}" for position in range(1, 12))
    assert (found.silent, found.silent_nodes) == ((), 0)
    assert found.coverage is not None
    assert (found.coverage.asked, found.coverage.told, found.complete) == (11, 11, True)


async def test_differing_nodes_are_named(world: World, tmp_path: Path) -> None:
    world.key_rings[9] = key_ring_of(tmp_path, OLD)
    del world.key_rings[7]
    newest, behind = (await keys.find(world.node(1), BUDGET_S)).rings
    assert (newest.revision, newest.nodes) == (2, 9)
    assert (behind.revision, behind.addresses) == (1, ("10.0.0.9",))


@pytest.mark.parametrize("how", ["hung", "gone", "lying"])
async def test_only_a_silent_node_counts_and_not_those_below(world: World, how: str) -> None:
    """The register does not say yet that a node that is gone is down: it may come back with the old ring."""
    if how == "lying":
        world.lying[2] = b"[]"
    else:
        getattr(world, how).add(2)
    found = await keys.find(world.node(1), BUDGET_S)
    assert (found.silent, found.silent_nodes) == (("10.0.0.2",), 1)
    assert sum(ring.nodes for ring in found.rings) == 10


async def test_nodes_that_are_down_for_a_minute_are_not_waited_for(world: World) -> None:
    node = world.node(1)
    now_ms = node.tracker.wall_ms
    since = {5: now_ms - 61_000, 6: now_ms - 50_000}
    runs = [Run(each, each, Record(1, State.DOWN, at_ms, 2)) for each, at_ms in since.items()]
    node.tracker.spread(REGISTER, [*runs, Run(7, 7, Record(1, State.LEFT, now_ms, 2))])
    world.gone = {4, 5, 6, 7}
    found = await keys.find(node, BUDGET_S)
    assert (found.silent, found.silent_nodes) == (("10.0.0.4", "10.0.0.6"), 2)


async def test_nodes_of_an_older_release_tell_their_rings_one_by_one(world: World, tmp_path: Path) -> None:
    """The last release has a document of its status that this one reads."""
    world.older = {3, 7, 9}
    world.key_rings[9] = key_ring_of(tmp_path, OLD)
    world.lying[7] = b'{"version": 7}'
    found = await keys.find(world.node(1), BUDGET_S)
    assert [(ring.revision, ring.nodes) for ring in found.rings] == [(2, 9), (1, 1)]
    assert (found.silent, sorted(world.asked)) == (("10.0.0.7",), [3, 7, 9])


async def test_many_silent_nodes_are_counted(tmp_path: Path) -> None:
    world = World({1: None, **dict.fromkeys(range(2, 200), 1)})
    world.key_rings = {position: key_ring_of(tmp_path, NEW) for position in world.leaders}
    world.hung = set(range(2, 199))
    found = await keys.find(world.node(1), BUDGET_S)
    assert (found.silent_nodes, len(found.silent)) == (197, keys.NAMED_MAX)


async def test_a_node_of_release_0_2_gets_the_rings_of_a_branch(world: World) -> None:
    for position, words, nodes in ((2, (), 7), (1, ("everybody",), 11)):
        answer = await peer_answers.answer(world.node(position), Question("keys", words, BUDGET_S))
        (ring,) = msgspec.json.decode(answer, type=KeysDocument).rings
        assert ring.nodes == nodes


# -- changes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [1, 2, 9])
async def test_a_signed_ring_follows_from_the_one_of_any_node(world: World, position: int) -> None:
    node = world.node(position)
    _, used = await order(node, "ring-use", key=ONE.name)
    assert (used["key"], used["revision"]) == (ONE.name, 3)
    assert world.key_rings[position].ring == keyring_of(ONE, [TWO], revision=3)
    _, installed = await order(node, "ring-install")
    assert installed["revision"] == 4
    assert installed["key"] in {key.name for key in world.key_rings[position].ring.keys.values()}


async def test_a_ring_that_is_only_prepared_changes_nothing(world: World) -> None:
    status, _ = await prepared(world.node(1), "ring-install")
    assert (status, world.key_rings[1].ring) == (200, NEW)


@pytest.mark.parametrize("principal", ["mia", "eve"])
async def test_an_operator_without_the_power_changes_no_ring(world: World, principal: str) -> None:
    status, document = await order(world.node(1), "ring-install", principal)
    assert (status, "Nothing was changed" in document["error"]) == (403, True)
    assert world.key_rings[1].ring == NEW


async def test_of_two_rings_that_follow_from_one_the_second_is_refused(world: World) -> None:
    node = world.node(1)
    bodies = [signed_body((await prepared(node, "ring-install"))[1]) for _ in range(2)]
    assert (await given(node, bodies[0]))[0] == 200
    status, document = await given(node, bodies[1])
    assert (status, "holds a newer version" in document["error"]) == (403, True)


@pytest.mark.parametrize(
    ("action", "query", "error"),
    [
        ("ring-use", {"key": "00000000"}, "there is no key 00000000; `subord key list` shows them"),
        ("ring-remove", {"key": TWO.name}, f"{TWO.name} is the primary key: `subord key use` another one first"),
        ("ring-use", {}, "there is no key "),
    ],
)
async def test_what_cannot_be_done_changes_nothing(
    world: World, action: str, query: dict[str, str], error: str
) -> None:
    status, document = await prepared(world.node(1), action, **query)
    assert status == 409
    assert document["error"].startswith(error)
    assert document["error"].endswith("nothing was changed")


async def test_without_keys_no_node_is_asked() -> None:
    node = World().node(1)
    response = await service_app(node)["/v1/keys"]({})
    assert isinstance(response, Response)
    assert (response.status, msgspec.json.decode(response.body)) == (409, {"error": keys.NO_KEYS})
    assert node.orders.given == []


async def test_without_keys_nothing_is_prepared() -> None:
    assert await prepared(World().node(1), "ring-install") == (409, {"error": keys.NO_KEYS})


async def test_only_the_owner_sees_the_secrets_of_a_ring(world: World) -> None:
    status, document = await prepared(world.node(1), "ring-install", is_owner=False)
    assert (status, set(document)) == (403, {"error"})


async def test_a_key_that_a_node_may_need_is_removed_only_by_force(world: World, tmp_path: Path) -> None:
    world.key_rings[9] = key_ring_of(tmp_path, OLD)
    for position in (1, 7):
        status, refused = await prepared(world.node(position), "ring-remove", key=ONE.name)
        expected = "1 of the nodes have not answered that they have the newest ring: 10.0.0.9; nothing was changed"
        assert (status, refused["error"]) == (409, expected)
    assert world.key_rings[1].ring == NEW
    forced, _ = await order(world.node(1), "ring-remove", key=ONE.name, force="1")
    assert (forced, world.key_rings[1].ring) == (200, keyring_of(TWO, revision=3))


async def test_a_node_with_an_old_ring_removes_no_key(world: World, tmp_path: Path) -> None:
    """Its ring would be refused by all, or undo theirs."""
    world.key_rings[9] = key_ring_of(tmp_path, keyring_of(ONE, [TWO], revision=1))
    status, refused = await prepared(world.node(9), "ring-remove", key=TWO.name)
    assert (status, "10.0.0.9 does not have the newest key ring yet" in refused["error"]) == (409, True)


async def test_without_an_answer_of_the_root_no_key_is_removed(world: World, autojump_clock: MockClock) -> None:
    world.hung.add(1)
    status, refused = await prepared(world.node(7), "ring-remove", key=ONE.name)
    assert (status, "not all nodes could be asked" in refused["error"]) == (409, True)


async def test_an_unneeded_key_is_removed(world: World) -> None:
    status, _ = await order(world.node(7), "ring-remove", key=ONE.name)
    assert (status, world.key_rings[7].ring) == (200, keyring_of(TWO, revision=3))


async def test_commands_and_nodes_of_older_releases_are_told_to_update(world: World) -> None:
    node = world.node(1)
    for action in ("install", "use", "remove"):
        response = await control_changes(node)[f"/v1/keys/{action}"]({"key": ONE.name})
        assert (response.status, b"newer than this command" in response.body) == (409, True)
    answer = msgspec.json.decode(await peer_answers.answer(node, Question("rotate", ("install",))))
    assert "nothing was changed" in answer["error"]
    assert world.key_rings[1].ring == NEW
