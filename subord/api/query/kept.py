"""One answer for many readers: a question that any client may ask is not asked of the cluster each time.

Input is a question; output is its last answer, no older than a limit. Invariants: one question is under way at most;
of questions with names, as many as a bound are asked within the limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
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

    @property
    def over_at(self) -> float:
        """When the answer is older than the limit; infinity: it is under way."""
        return inf if self._lock.locked() else self._asked_at + self._kept_s


class TooManyError(Exception):
    """Questions of other names take all places. Says when one is free, as the end of a sentence."""


class KeptByName(Generic[Found]):
    """The answers to questions that differ in a name, at most `names_max` of them."""

    def __init__(self, ask: Callable[[str], Awaitable[Found]], kept_s: float, names_max: int) -> None:
        self._ask = ask
        self._kept_s = kept_s
        self._names_max = names_max
        self._kept: dict[str, Kept[Found]] = {}

    async def get(self, name: str) -> Found:
        """The answer for a name. Raises TooManyError."""
        now = trio.current_time()
        if name not in self._kept:
            for each, kept in list(self._kept.items()):
                if kept.over_at <= now:
                    del self._kept[each]
            if len(self._kept) >= self._names_max:
                free_s = min(each.over_at for each in self._kept.values()) - now
                raise TooManyError(f"in {free_s:.0f} s" if free_s < inf else "in some seconds")
            self._kept[name] = Kept(partial(self._ask, name), self._kept_s)
        return await self._kept[name].get()
