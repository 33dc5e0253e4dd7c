"""Look-ups that may block, in threads of their own: of users, whose database may be on a server, homes and programs.

Inputs are a function that blocks, and the time that its order has left; output is what it returns. A thread cannot
be ended: when an order is over, its look-up goes on until the server answers. Invariants: look-ups have at most
LOOKS_MAX threads, and take none of those that the rest of the agent needs, such as for the journal; an order that
cannot have its look-up is told so before its time is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import trio

logger = logging.getLogger("subord")
LOOKS_MAX: Final = 16
LOOK_S_MAX: Final = 30.0
LOOK_SHARE: Final = 0.5
"""Of the time of its order a look-up gets this share, and LOOK_S_MAX at most; while earlier ones have all threads, it
waits for one of these."""
Found = TypeVar("Found")
_threads: Final = trio.CapacityLimiter(LOOKS_MAX)


class LookError(Exception):
    """A look-up has not ended in time. The text is the same on all nodes."""


def limit_of(left_s: float) -> float:
    """How long an order that has so much time left waits for what may hang."""
    return min(LOOK_S_MAX, left_s * LOOK_SHARE)


async def looked_up(left_s: float, look: Callable[..., Found], *words: object) -> Found:
    """What `look` returns, or raises. `left_s`: of the order. Raises LookError."""
    limit_s = limit_of(left_s)
    with trio.move_on_after(limit_s):
        return await trio.to_thread.run_sync(look, *words, abandon_on_cancel=True, limiter=_threads)
    words_of_log = "a look-up of a user, a home or a program has not ended after %.3g s; %d of %d are under way"
    logger.warning(words_of_log, limit_s, _threads.borrowed_tokens, LOOKS_MAX)
    raise LookError("look-ups of users, homes and programs do not end in time")
