"""Waiting for conditions in tests, instead of for fixed times."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


@contextmanager
def real_time(seconds: float = WAIT_S_MAX) -> Iterator[None]:
    """A limit by the clock of the machine: one that jumps would reach its own limit while a thread is at work.

    Raises TooSlowError."""
    token, scope = trio.lowlevel.current_trio_token(), trio.CancelScope()
    timer = threading.Timer(seconds, token.run_sync_soon, [scope.cancel])
    timer.daemon = True
    timer.start()
    try:
        with scope:
            yield
    finally:
        timer.cancel()
    if scope.cancelled_caught:
        raise trio.TooSlowError
