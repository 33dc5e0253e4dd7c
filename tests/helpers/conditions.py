"""Tests wait for what has to happen, never for a time."""

from __future__ import annotations

from collections.abc import Callable

import trio

WAIT_S_MAX = 20.0


async def until(condition: Callable[[], object], what: str) -> None:
    """Raises AssertionError when it does not come true within WAIT_S_MAX."""
    with trio.move_on_after(WAIT_S_MAX):
        while not condition():  # noqa: ASYNC110 - we wait for the kernel, which sets no Event
            await trio.sleep(0.005)
        return
    raise AssertionError(f"never happened: {what}")
