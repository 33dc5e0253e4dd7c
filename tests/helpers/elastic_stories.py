"""Stories of a cluster with a manager: a plan, a manager that is started again when it was killed, and the end.

In a story nothing is that must never be (elastic_world.World.wrongs).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio
from elastic_world import MASTER, Clouds, Crowd, Killed, Life, Reach, World, Writing, now
from msgspec.structs import replace

from subord.services.elastic.clock import Clock
from subord.services.elastic.managing import Cluster, Manager
from subord.services.elastic.managing.advancing import Back
from subord.services.elastic.managing.working import Working
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Mount, Plan, User
from subord.services.elastic.stages import Record, Stage

MINUTE, HOUR = 60.0, 3600.0
RESTART_S = 5.0
OPTIONS = Options(max_nodes=20, job_wait_time_s=60, idle_min=5)
PLAN = Plan(
    manager=1,
    options=OPTIONS,
    users=(User(name="ann", uid=1001, group="ann", gid=1001, home="/h/ann"),),
    mounts=(Mount(source="/h", target="/h"),),
)
Hook = Callable[[Record, str], None]


def plan(**changes: Any) -> Plan:
    return replace(PLAN, options=replace(OPTIONS, **changes))


async def until(is_so: Callable[[], object], limit_s: float) -> None:
    with trio.move_on_after(limit_s):
        while not is_so():  # noqa: ASYNC110 - the world tells nobody
            await trio.sleep(max(1.0, limit_s / 400))
    assert is_so(), f"not in {limit_s:g} s"


async def managed(world: World, story: Callable[[], Awaitable[None]], /, *args: Any, **options: Any) -> None:
    """A story in a cluster with a manager; nothing that must never be has been."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        nursery.start_soon(lambda: lives(world, *args, **options))
        await story()
        nursery.cancel_scope.cancel()
    assert world.wrongs == []


def serving(world: World) -> list[str]:
    return [name for name, each in world.disk.records.items() if each.stage == Stage.SERVING]


class Watched:
    """Calls `hook(record, "before" | "after")` around each work, and may be killed there."""

    def __init__(self, working: Working, world: World, life: Life, hook: Hook | None) -> None:
        self._working, self._world, self._life, self._hook = working, world, life, hook

    async def work(self, record: Record) -> object:
        self._call(record, "before")
        self._world.works += 1
        self._world.most_works = max(self._world.most_works, self._world.works)
        try:
            found = await self._working.work(record)
        finally:
            self._world.works -= 1
        self._world.backs += isinstance(found, Back)
        self._call(record, "after")
        return found

    def _call(self, record: Record, when: str) -> None:
        if self._life.is_dead:
            raise Killed
        if self._hook is not None:
            self._hook(record, when)


def made(world: World, plan: Plan, hook: Hook | None = None, wait_s: float = 600.0) -> Manager:
    world.life.is_dead = True
    world.life = life = Life()
    cluster = Cluster(
        adapter=world.batch(world, life),
        supplier=Clouds(world, life),
        nodes=Crowd(world, life),
        records=Writing(world, life),
        master=MASTER,
        kinds={name: slots for name, slots in world.slots.items() if name},
        wait_s=wait_s,
    )
    reach = Reach(world, life)
    manager = Manager(cluster, plan, reach.tell, clock=Clock(now), in_thread=reach.in_thread)
    walks = manager._walks
    walks._working = Watched(walks._working, world, life, hook)  # type: ignore[assignment]
    return manager


async def lives(
    world: World, plan: Plan, hook: Hook | None = None, wait_s: float = 600.0, pause_s: float = 5.0
) -> None:
    """A manager that is started again whenever it was killed."""
    while True:
        try:
            await made(world, plan, hook, wait_s).run()
        except* Killed:
            world.killed += 1
        world.life.is_dead = True
        await trio.sleep(RESTART_S)
