"""One answer for many readers: a question that any client may ask is not asked of the cluster each time.

Input is a question; output is its last answer, no older than a limit. Invariant: one question is under way at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic, TypeVar

import trio

Found = TypeVar("Found")


class Kept(Generic[Found]):
    """The answer to one question. A question that raises is asked again by the next reader."""

    def __init__(self, ask: Callable[[], Awaitable[Found]], kept_s: float) -> None:
        self._ask = ask
        self._kept_s = kept_s
        self._lock = trio.Lock()
        self._found: list[Found] = []
        self._asked_at = -inf

    async def get(self) -> Found:
        """The answer, asked anew if it is older than the limit."""
        async with self._lock:
            if trio.current_time() - self._asked_at >= self._kept_s:
                self._found, self._asked_at = [await self._ask()], trio.current_time()
            return self._found[0]
