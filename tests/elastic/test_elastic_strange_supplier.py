"""Suppliers that give wrong addresses and names: no job is lost, and no node is taken for another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import elastic_stories
import elastic_world as worlds
import pytest
from elastic_stories import MINUTE, managed, plan, serving, until
from elastic_world import World
from msgspec.structs import replace

from subord.services.elastic.suppliers import Failed, Started
from subord.services.elastic.task import Result, Step


def _gives_first_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """To each node after the first."""
    start = worlds.Clouds.start

    async def starts(self: worlds.Clouds, name: str, kind: str) -> Started | Failed:
        found = await start(self, name, kind)
        return found if name == "node001" else Started(self.world.machines["node001"].address)

    monkeypatch.setattr(worlds.Clouds, "start", starts)


async def test_a_node_with_the_address_of_another_one_is_removed_without_harm_to_it(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order to leave would stop the batch daemon under the jobs of the first."""
    _gives_first_address(monkeypatch)
    world = World(max_nodes=3)

    async def story() -> None:
        world.submit(9, lasts_s=3000)
        await until(lambda: world.used("node001"), 8 * MINUTE)
        await until(lambda: "node002" in world.stopped, 40 * MINUTE)
        assert "node001" in serving(world)
        assert "node001" not in world.stopped
        faults = {node.fault for state in world.states for node in state.nodes if node.name == "node002"}
        assert (
            "elastic.start gave node002 the address 10.0.0.2, which is that of node001; nothing was changed there: "
            "correct what starts nodes"
        ) in faults

    await managed(world, story, plan(max_nodes=3))


async def test_a_node_that_was_never_added_is_not_told_to_leave(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address may be that of a node of which the manager knows nothing, and which has jobs."""
    left = list[str]()
    order = worlds.Crowd.order

    async def orders(self: worlds.Crowd, address: str, step: Step) -> Result | str:
        if step == Step.LEAVE:
            left.append(address)
        return Result("it has other users") if step == Step.USERS else await order(self, address, step)

    monkeypatch.setattr(worlds.Crowd, "order", orders)
    world = World(max_nodes=2)

    async def story() -> None:
        world.submit(3, lasts_s=1e6)
        await until(lambda: world.stopped == ["node001"], 30 * MINUTE)
        assert left == []

    await managed(world, story, plan(max_nodes=2))


async def test_two_nodes_with_one_address_that_come_together_are_told_apart(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gives_first_address(monkeypatch)
    world = World(max_nodes=3, min_nodes=3, boot_s=100)

    async def story() -> None:
        await until(lambda: serving(world), 8 * MINUTE)
        assert serving(world) == ["node001"]
        await until(lambda: "node002" in world.stopped, 20 * MINUTE)
        assert world.is_usable("node001")

    await managed(world, story, plan(max_nodes=3, min_nodes=3, add_nodes_per_iter=2))


async def test_a_list_with_domains_and_capitals_is_of_the_same_nodes(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = worlds.Clouds.list

    async def lists(self: worlds.Clouds) -> Mapping[str, str] | Failed | None:
        found = await listed(self)
        assert isinstance(found, Mapping)
        return {f"{name.upper()}.cloud.example": address for name, address in found.items()}

    monkeypatch.setattr(worlds.Clouds, "list", lists)
    world = World(max_nodes=2)

    async def story() -> None:
        world.submit(3, lasts_s=2000)
        await until(lambda: world.used("node001"), 8 * MINUTE)
        await until(lambda: not world.tasks, 60 * MINUTE)
        assert world.launched == ["node001"]
        assert not any("unknown" in why for state in world.states for why in state.why)

    await managed(world, story, plan(max_nodes=2))


async def test_a_node_of_an_earlier_prefix_without_a_record_is_not_forgotten(autojump_clock: Any) -> None:
    world = World()
    for name in ("old-007", "other-008"):
        world.machines[name] = worlds.Machine(name, f"10.9.9.{name[-1]}", "", worlds.now(), worlds.now())
    unlisted = "old-007 (10.9.9.7) is paid for and unknown"

    async def story() -> None:
        await until(lambda: world.states and world.states[-1].size, 3 * MINUTE)
        assert next(why for why in world.states[-1].why if "paid for" in why).startswith(unlisted)
        assert world.states[-1].size == 2
        world.wrongs.clear()

    await managed(world, story, replace(plan(), former=("old-",)))


async def test_hosts_that_are_paid_for_without_a_record_are_told(autojump_clock: Any) -> None:
    """As when the file of records was lost."""
    world = World()
    for name in ("node005", "node006"):
        world.machines[name] = worlds.Machine(name, f"10.9.9.{name[-1]}", "", worlds.now(), worlds.now())
        world.hosts[name] = worlds.Registered(2)

    async def story() -> None:
        await until(lambda: world.states and world.states[-1].size == 3, 3 * MINUTE)
        told = "node005 and 1 more, without records, are hosts of the queue that the supplier lists"
        assert world.states[-1].why[0].startswith(told)
        assert not world.disk.records
        world.wrongs.clear()

    await managed(world, story, plan())


async def test_no_node_gets_the_name_of_the_queues_node(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may be no host of the queue. Its name in hosts tables would be that of the new node."""
    for module in (elastic_stories, worlds):
        monkeypatch.setattr(module, "MASTER", "node001")
    world = World(has_list=False)
    world.hosts.clear()

    async def story() -> None:
        world.submit(3)
        await until(lambda: world.launched, 8 * MINUTE)
        assert world.launched == ["node002"]

    await managed(world, story, plan())
