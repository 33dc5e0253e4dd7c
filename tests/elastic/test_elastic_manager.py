"""The manager in a simulated cluster: each stage with the death of the manager, of the node, and of what it needs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
from elastic_stories import HOUR, MINUTE, PLAN, managed, plan, serving, until
from elastic_world import Killed, World, now
from msgspec.structs import replace

from subord.services.elastic.options import Options
from subord.services.elastic.stages import ADDING, REMOVING, Record, Stage

STEPS = (*ADDING, *REMOVING)


class KillOnce:
    """Kills the manager at a stage, before or after the effect."""

    def __init__(self, world: World, stage: Stage, when: str) -> None:
        self.world, self.stage, self.when = world, stage, when
        self.at = 0.0

    def __call__(self, record: Record, when: str) -> None:
        if not self.at and (record.stage, when) == (self.stage, self.when):
            self.at = now()
            self.world.life.is_dead = True
            raise Killed


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("stage", STEPS)
async def test_a_manager_that_is_killed_goes_on_where_it_was(stage: Stage, when: str, autojump_clock: Any) -> None:
    world = World(max_nodes=2)
    kill = KillOnce(world, stage, when)

    async def story() -> None:
        world.submit(3, lasts_s=400)
        await until(lambda: kill.at if stage in ADDING else serving(world), 5 * MINUTE)
        await until(lambda: not world.halves() and serving(world), 2 * MINUTE + 10 + world.boot_s)
        assert world.launched == ["node001"]
        if stage in REMOVING:
            await until(lambda: kill.at, 25 * MINUTE)
            await until(lambda: not world.halves(), 2 * MINUTE + 10)
        await until(lambda: not world.machines and not world.halves(), 25 * MINUTE)
        assert world.launched == world.stopped == ["node001"]
        assert len(world.ended) == 3
        await until(lambda: world.states[-1].removed == 1, 2)
        assert (world.states[-1].added, world.states[-1].undone) == (1, 0)

    await managed(world, story, plan(max_nodes=2), kill)


@pytest.mark.slow
@pytest.mark.parametrize("vanishes", [True, False])
@pytest.mark.parametrize("stage", [*STEPS, Stage.SERVING])
async def test_a_node_that_dies_is_removed_and_another_one_added(
    stage: Stage, vanishes: bool, autojump_clock: Any
) -> None:
    world = World(max_nodes=3)
    killed = list[float]()

    def hook(record: Record, when: str) -> None:
        """It is there only after the first stage."""
        if (record.stage, when) == (stage, "after" if stage == Stage.STARTING else "before") and not killed:
            killed.append(now())
            world.die(record.name, vanishes=vanishes)

    async def story() -> None:
        world.submit(3, lasts_s=2000)
        if stage == Stage.SERVING:
            await until(lambda: world.used("node001"), 5 * MINUTE)
            world.die("node001", vanishes=vanishes)
            killed.append(now())
        await until(lambda: killed, 50 * MINUTE)
        await until(lambda: not world.tasks and not world.machines and not world.halves(), 90 * MINUTE)
        assert len(world.ended) == 3
        assert len(world.launched) == (1 if stage in REMOVING else 2)
        await until(lambda: world.states[-1].removed == len(world.launched), 2)
        assert world.states[-1].undone == int(stage in ADDING)

    await managed(world, story, plan(max_nodes=3), hook)


@pytest.mark.parametrize("what", ["orders", "batch", "supplier"])
async def test_what_does_not_answer_for_a_while_is_asked_again(what: str, autojump_clock: Any) -> None:
    """Twice, while a node is added, and while it is removed."""
    world = World(max_nodes=2)

    async def breaks() -> None:
        world.down_until[what] = now() + 150
        await until(lambda: any(state.fault or any(node.fault for node in state.nodes) for state in world.states), 90)
        await trio.sleep(world.down_until[what] - now())

    async def story() -> None:
        world.submit(3, lasts_s=400)
        await until(lambda: world.disk.records, 3 * MINUTE)
        await breaks()
        await until(lambda: serving(world) and not world.halves(), 3 * MINUTE)
        await until(lambda: not serving(world), 25 * MINUTE)
        world.states.clear()
        await breaks()
        await until(lambda: not world.machines and not world.halves(), 3 * MINUTE)
        assert world.launched == world.stopped == ["node001"]
        assert len(world.ended) == 3

    await managed(world, story, plan(max_nodes=2))


@pytest.mark.slow
async def test_the_cluster_of_the_text_grows_to_20_and_shrinks_to_one(autojump_clock: Any) -> None:
    """-m 20 -a 2, with 200 jobs of an hour that come at once."""
    options = Options(max_nodes=20, add_nodes_per_iter=2)
    world = World(max_nodes=20, min_nodes=1, tick_s=30)
    waiting = []

    async def story() -> None:
        world.submit(200, lasts_s=HOUR)
        await until(lambda: world.launched, 17 * MINUTE)
        waiting.extend(world.states)
        await until(lambda: len(world.machines) == 19, 2 * HOUR)
        await until(lambda: not world.tasks, 10 * HOUR)
        await until(lambda: not world.machines and not world.halves(), 2 * HOUR)

    await managed(world, story, replace(PLAN, options=options))
    assert max(after - before for before, after in pairwise(world.sizes)) <= 2
    assert len(world.launched) == len(world.stopped) == 19
    assert len(world.ended) == 200
    assert "99 nodes are not added: the oldest job has waited 360 of 900 s" in {
        why for state in waiting for why in state.why
    }
    assert all(each % HOUR > 45 * MINUTE for each in world.paid_s), "an hour that is paid for is used"


@pytest.mark.slow
async def test_from_one_to_a_hundred_and_back(autojump_clock: Any) -> None:
    world = World(max_nodes=100, min_nodes=1, tick_s=20)

    async def story() -> None:
        world.submit(1000, lasts_s=400)
        await until(lambda: len(serving(world)) == 99, HOUR)
        await until(lambda: not world.tasks, HOUR)
        await until(lambda: not world.machines and not world.halves(), HOUR)

    await managed(world, story, plan(max_nodes=100, add_nodes_per_iter=50))
    assert world.most_works <= 16
    assert len(world.launched) == len(world.stopped) == 99


@pytest.mark.slow
async def test_a_hundred_removals_under_load_kill_no_job(autojump_clock: Any) -> None:
    """Short jobs come all the time, and now and then none, just when nodes are removed."""
    world = World(max_nodes=40, min_nodes=3, seed=7, boot_s=5, rush=0.3)
    ordered = plan(max_nodes=40, min_nodes=3, add_nodes_per_iter=40, job_wait_time_s=0, idle_min=1, interval_s=10)

    async def load() -> None:
        while True:
            world.submit(world.chance.randint(20, 90), lasts_s=world.chance.uniform(20, 200))
            await trio.sleep(world.chance.uniform(200, 700))
            for _ in range(20):
                world.submit(lasts_s=world.chance.uniform(5, 40))
                await trio.sleep(world.chance.uniform(1, 40))

    async def story() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load)
            await until(lambda: len(world.stopped) >= 100, 40 * HOUR)
            nursery.cancel_scope.cancel()

    await managed(world, story, ordered)
    assert world.lost == 0
    assert world.backs > 2, "jobs came just then"


# -- by chance ------------------------------------------------------------------------------------------------------


async def troubled(seed: int, *, list_is_known: bool) -> World:
    """Hours of jobs, deaths of the manager and of nodes, and answers that do not come; then calm."""
    world = World(seed=seed, max_nodes=12, min_nodes=2, has_list=list_is_known, tick_s=10, rush=0.1)
    ordered = plan(max_nodes=12, min_nodes=2, add_nodes_per_iter=4, interval_s=30)
    chance = world.chance

    async def trouble() -> None:
        while True:
            await trio.sleep(chance.expovariate(1 / 200))
            match chance.choice(["jobs", "jobs", "node", "orders", "batch", "supplier", "none"]):
                case "jobs":
                    world.submit(chance.randint(1, 25), chance.choice([1, 1, 2]), chance.uniform(10, 900))
                case "node" if world.machines:
                    world.die(chance.choice(sorted(world.machines)), vanishes=chance.random() < 0.5)
                case "orders" | "batch" | "supplier" as what:
                    world.down_until[what] = now() + chance.uniform(5, 400)

    async def story() -> None:
        world.deadly = 0.003
        with trio.move_on_after(4 * HOUR):
            await trouble()
        world.deadly = 0.0
        world.down_until.clear()
        await until(lambda: not world.tasks, 4 * HOUR)
        await until(lambda: len(world.machines) == 1 and not world.halves(), 2 * HOUR)
        disk = world.disk
        await until(lambda: world.states[-1].removed == disk.begun - len(disk.records), 5)

    await managed(world, story, ordered, None, 300)
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_after_any_trouble_no_node_is_half_in_the_cluster(seed: int, autojump_clock: Any) -> None:
    world = await troubled(seed, list_is_known=seed % 2 == 0)
    assert world.killed > 3
    assert len(world.launched) > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
async def test_after_any_trouble_of_many_seeds(seed: int, autojump_clock: Any) -> None:
    await troubled(seed, list_is_known=seed % 2 == 0)
