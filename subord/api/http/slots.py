"""How many connections of one socket wait, are answered, and read events.

Input: connections that begin to wait, ask for a place, and end. Output: which wait ends for a new one, and which has
a place among those that are answered. Invariant: each of the three has a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

LOAD_S_MAX = 30.0
"""To load h11 for the first connections. On a busy machine that takes seconds, and is not the fault of the client."""
ANSWERED_MAX = 16
"""Answered at the same time; further requests wait."""
READERS_MAX = 8
"""How many of those may be readers of events; the next one gets 503."""
WAITING_MAX = 64
"""Connections without a request, or waiting for a place; one more ends the wait of the one that waits longest."""


class Slots:
    """The connections of one socket, waiting or being answered. A new one may end the wait of the longest waiting."""

    def __init__(self) -> None:
        self.places = trio.Semaphore(ANSWERED_MAX)
        self.readers = trio.Semaphore(READERS_MAX)
        self._waiting: dict[trio.CancelScope, None] = {}

    @property
    def has_room(self) -> bool:
        """Whether more connections may begin to wait at once without ending the wait of others."""
        return len(self._waiting) < ANSWERED_MAX

    async def take_place(self) -> None:
        """Wait until fewer than ANSWERED_MAX are answered. Without a checkpoint if a place is free."""
        try:
            self.places.acquire_nowait()
        except trio.WouldBlock:
            await self.places.acquire()

    @contextmanager
    def waiting(self) -> Iterator[trio.CancelScope]:
        """The scope of a waiting connection; cancelled when time is up, or its slot is needed."""
        if len(self._waiting) >= WAITING_MAX:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.cancel()
        with trio.move_on_after(LOAD_S_MAX) as scope:
            self._waiting[scope] = None
            try:
                yield scope
            finally:
                self._waiting.pop(scope, None)
