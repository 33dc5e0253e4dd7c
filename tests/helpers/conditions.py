"""Waiting for conditions in tests, instead of for fixed times."""

from __future__ import annotations

from collections.abc import Callable

import trio

WAIT_S_MAX = 60.0
IO_S = 0.3
"""What a clock that jumps waits for before it does: on a busy machine threads, files and sockets may take so long."""


async def until(condition: Callable[[], object], what: str) -> None:
    """Raises AssertionError if the condition is not true within WAIT_S_MAX."""
    with trio.move_on_after(WAIT_S_MAX):
        while not condition():  # noqa: ASYNC110 - the kernel sets no Event
            await trio.sleep(0.005)
        return
    raise AssertionError(f"never happened: {what}")
