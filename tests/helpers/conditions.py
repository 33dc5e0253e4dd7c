"""Waiting for conditions in tests, instead of for fixed times."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

WAIT_S_MAX = 60.0
IO_S = 0.3
"""What a clock that jumps waits for before it does: on a busy machine threads, files and sockets may take so long."""


LOOK_PAUSE_S_MIN, LOOK_PAUSE_S, LOOK_PAUSE_S_MAX = 0.02, 0.3, 2.0
PAUSE_OF_LOOK = 2.0


def look_until(condition: Callable[[], object], what: Callable[[], str], within_s: float = WAIT_S_MAX) -> None:
    """Raises AssertionError if the condition is not true within this time.

    Pauses grow to LOOK_PAUSE_S, and are twice as long as a look: that may be a command, which takes processor time
    from what is waited for.
    """
    deadline, pause_s = time.monotonic() + within_s, LOOK_PAUSE_S_MIN
    while True:
        began = time.monotonic()
        if condition():
            return
        ended = time.monotonic()
        assert ended < deadline, f"waited {within_s:g} s in vain: {what()}"
        time.sleep(min(max(pause_s, PAUSE_OF_LOOK * (ended - began)), LOOK_PAUSE_S_MAX))
        pause_s = min(2 * pause_s, LOOK_PAUSE_S)


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
