"""A command that waits for an answer, and others that follow it."""

from __future__ import annotations

import trio
import trio.testing

from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.runtime.orders.waiting import Waiting

FIRST, SECOND, LAST = (Answer(targets=Ranges(((1, each),))) for each in (1, 2, 3))


async def test_a_follower_gets_what_is_known_what_comes_and_the_end() -> None:
    told: list[Answer] = []
    heard: list[Answer] = []
    waiting = Waiting("exec", told.append)
    waiting.take(FIRST)
    ends: list[Answer] = []

    async def follow() -> None:
        ends.append(await waiting.follow(heard.append))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        waiting.take(SECOND)
        waiting.answer = LAST
        waiting.is_over.set()
    assert (heard, told, ends) == ([FIRST, SECOND], [FIRST, SECOND], [LAST])
    assert len(waiting.listeners) == 1


async def test_a_follower_that_leaves_hears_no_more_and_ends_nothing() -> None:
    heard: list[Answer] = []
    waiting = Waiting("exec", lambda _: None)
    with trio.move_on_after(0.01):
        await waiting.follow(heard.append)
    waiting.take(FIRST)
    assert heard == []
    assert not waiting.is_over.is_set()


async def test_the_end_without_an_answer() -> None:
    waiting = Waiting("exec", lambda _: None)
    waiting.is_over.set()
    assert (await waiting.follow(None)).targets == NONE


def test_results_that_count_at_the_end_only_are_not_followed() -> None:
    async def run() -> bool:
        return Waiting("exec", None).is_live

    assert not trio.run(run)
