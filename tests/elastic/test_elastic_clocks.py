"""A clock of the queue's node that is set back, or leaps."""

from __future__ import annotations

from typing import Any

import elastic_stories
import elastic_world as worlds
import pytest
from elastic_stories import MINUTE, managed, plan, serving, until
from elastic_world import World

DAY = 86_400.0


class Skewed:
    """A clock that can be set. Jobs end by it as well, so those of these stories last long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        right = worlds.now
        for module in (elastic_stories, worlds):
            monkeypatch.setattr(module, "now", lambda: right() + self.offset)


@pytest.mark.parametrize("jump", [-DAY, DAY])
async def test_a_clock_that_jumps_holds_up_no_growth(
    jump: float, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back by a day, the effect of the last change would be looked at for a day."""
    clock, world = Skewed(monkeypatch), World(max_nodes=3)

    async def story() -> None:
        world.submit(3, lasts_s=1e9)
        await until(lambda: serving(world), 8 * MINUTE)
        clock.offset = jump
        world.submit(9, lasts_s=1e9)
        await until(lambda: len(serving(world)) == 2, 20 * MINUTE)
        assert world.stopped == []

    await managed(world, story, plan(max_nodes=3))


async def test_a_clock_that_is_set_back_holds_up_no_removal(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of an idle node nor of one that could not be added."""
    clock, world = Skewed(monkeypatch), World(max_nodes=3)

    async def story() -> None:
        world.submit(3, lasts_s=300)
        await until(lambda: serving(world), 8 * MINUTE)
        await until(lambda: not world.tasks, 10 * MINUTE)
        world.down_until["orders"] = worlds.now() + 20 * MINUTE
        world.submit(9, lasts_s=1e9)
        await until(lambda: len(world.launched) == 2, 20 * MINUTE)
        world.tasks.clear()
        clock.offset = -DAY
        world.down_until.clear()
        await until(lambda: not world.machines, 40 * MINUTE)

    await managed(world, story, plan(max_nodes=3))


async def test_nodes_that_could_not_be_added_are_tried_again_though_the_clock_was_set_back(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, world = Skewed(monkeypatch), World(max_nodes=2)

    async def story() -> None:
        world.down_until["orders"] = worlds.now() + 20 * MINUTE
        world.submit(9, lasts_s=1e9)
        await until(lambda: world.states and world.states[-1].undone, 25 * MINUTE)
        clock.offset = -DAY
        world.down_until.clear()
        await until(lambda: serving(world), 30 * MINUTE)

    await managed(world, story, plan(max_nodes=2))
