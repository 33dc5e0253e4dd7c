"""A plan with other users and mounts, for nodes that serve already."""

from __future__ import annotations

from typing import Any

import elastic_world as worlds
import pytest
import trio
from elastic_stories import MINUTE, lives, plan, serving, until
from elastic_world import World
from msgspec.structs import replace

from subord.runtime.record_file import RecordsError
from subord.services.elastic.plan import Mount, User
from subord.services.elastic.stages import Record
from subord.services.elastic.task import Result, Step

BOB = User(name="bob", uid=1002, group="bob", gid=1002, home="/h/bob")
CHANGES: dict[str, dict[str, Any]] = {
    "users": {"users": (BOB,)},
    "mounts": {"mounts": (Mount(source="/apps", target="/apps"),)},
}


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Step]]:
    given = list[tuple[str, Step]]()
    order = worlds.Crowd.order

    async def orders_(self: worlds.Crowd, address: str, step: Step) -> Result | str:
        given.append((address, step))
        return await order(self, address, step)

    monkeypatch.setattr(worlds.Crowd, "order", orders_)
    return given


class Cluster:
    """With a manager that can be given another plan."""

    def __init__(self, nursery: trio.Nursery, world: World) -> None:
        self.nursery, self.world = nursery, world
        self.scope = trio.CancelScope()

    def follow(self, what: Any) -> None:
        self.scope.cancel()
        self.scope = trio.CancelScope()
        self.nursery.start_soon(self._lives, what, self.scope)

    async def _lives(self, what: Any, scope: trio.CancelScope) -> None:
        with scope:
            await lives(self.world, what)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_nodes_that_serve_get_the_users_and_mounts_of_the_next_plan(
    change: dict[str, Any], orders: list[tuple[str, Step]], autojump_clock: Any
) -> None:
    world = World(max_nodes=3, min_nodes=3)
    first = plan(max_nodes=3, min_nodes=3, add_nodes_per_iter=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        cluster = Cluster(nursery, world)
        cluster.follow(first)
        await until(lambda: len(serving(world)) == 2, 8 * MINUTE)
        orders.clear()
        cluster.follow(replace(first, is_trial=True, **change))
        await trio.sleep(3 * MINUTE)
        assert orders == [], "under a trial nothing is done"
        cluster.follow(plan(max_nodes=3, min_nodes=3, add_nodes_per_iter=2, interval_s=30))
        await trio.sleep(3 * MINUTE)
        assert orders == [], "nothing has changed for nodes"
        cluster.follow(replace(first, **change))
        await until(lambda: {each.prepared for each in world.disk.records.values()} == {cluster_mark(change)}, 90)
        assert sorted(orders) == sorted(
            (each.address, step) for each in world.machines.values() for step in (Step.USERS, Step.MOUNTS)
        ), "once each"
        nursery.cancel_scope.cancel()
    assert world.wrongs == []


def cluster_mark(change: dict[str, Any]) -> str:
    return replace(plan(), **change).mark


async def test_a_full_disk_gives_no_orders_all_the_time(
    orders: list[tuple[str, Step]], autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(max_nodes=2, min_nodes=2)
    first = plan(max_nodes=2, min_nodes=2)
    put = worlds.Writing.put

    def fails(self: worlds.Writing, *records: Record, **options: Any) -> None:
        if any(each.prepared == cluster_mark({"users": (BOB,)}) for each in records):
            raise RecordsError("the disk is full")
        put(self, *records, **options)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        cluster = Cluster(nursery, world)
        cluster.follow(first)
        await until(lambda: serving(world), 8 * MINUTE)
        orders.clear()
        monkeypatch.setattr(worlds.Writing, "put", fails)
        cluster.follow(replace(first, users=(BOB,)))
        await trio.sleep(10 * MINUTE)
        assert 4 <= len(orders) <= 2 * 22, "twice in half a minute"
        nursery.cancel_scope.cancel()


async def test_a_node_that_does_not_get_them_goes_on_serving_and_says_so(autojump_clock: Any) -> None:
    world = World(max_nodes=2, min_nodes=2)
    first = plan(max_nodes=2, min_nodes=2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        cluster = Cluster(nursery, world)
        cluster.follow(first)
        await until(lambda: serving(world), 8 * MINUTE)
        world.down_until["orders"] = worlds.now() + 5 * MINUTE
        cluster.follow(replace(first, users=(BOB,)))
        fault = "it serves without the users and mounts of the present plan: 10.0.0.2 does not answer"
        await until(lambda: world.disk.records["node001"].fault == fault, 2 * MINUTE)
        await until(lambda: any(node.fault == fault for node in world.states[-1].nodes), 5)
        assert serving(world) == ["node001"]
        await until(lambda: world.disk.records["node001"].prepared == cluster_mark({"users": (BOB,)}), 8 * MINUTE)
        assert world.disk.records["node001"].fault == ""
        nursery.cancel_scope.cancel()
    assert world.wrongs == []
