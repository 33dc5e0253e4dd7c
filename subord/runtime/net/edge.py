"""The stream along the edge to our leader: opened when the edge has settled, and its end is news for the core.

Intuition: after moving house one puts the telephone in last, when it is clear that one stays. While a whole
cluster starts there are better things to do than 500 TLS handshakes, so the first one waits longer.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NoReturn

import trio

from subord.runtime.net.streams import Streams

FIRST_DELAY_S = (5.0, 9.0)
DELAY_S = (0.5, 1.5)
RETRY_S_MAX = 30.0


class Edge:
    """Keeps one stream to whoever leads us. `leader` names its address, None while there is none."""

    def __init__(
        self, streams: Streams, chance: Random, leader: Callable[[], str | None], closed: Callable[[str], None]
    ) -> None:
        self._streams = streams
        self._chance = chance
        self._leader = leader
        self._closed = closed
        self._scope = trio.CancelScope()
        self._moved = trio.Event()

    def move(self) -> None:
        """Our place changed: let go of the old stream."""
        self._scope.cancel()
        self._moved.set()

    def look_again(self) -> None:
        """We have a leader again, perhaps the same as before: a stream that holds is left alone."""
        self._moved.set()

    async def hold_forever(self) -> NoReturn:
        """Open it, hold it, open it again."""
        delay_s, retry_s = FIRST_DELAY_S, DELAY_S[1]
        while True:
            if self._leader() is None:
                await self._moved.wait()
            if self._moved.is_set():
                retry_s = DELAY_S[1]
            self._moved = trio.Event()
            leader = self._leader()
            if leader is None:
                continue
            with trio.CancelScope() as self._scope:
                await trio.sleep(self._chance.uniform(*delay_s))
                delay_s = DELAY_S
                began = trio.current_time()
                held = await self._streams.hold_edge(leader)
                # A leader without room for streams takes each one and closes it: no reason to ask it every second.
                lasted = held and trio.current_time() - began > RETRY_S_MAX
                retry_s = DELAY_S[1] if lasted else min(2 * retry_s, RETRY_S_MAX)
                if held:
                    self._closed(leader)
                await trio.sleep(retry_s)
