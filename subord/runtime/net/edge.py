"""Keeps a TCP stream to the leader, whose end tells the core that the leader's process ended.

The stream opens a random delay after a change of place, when the edge is likely to stay. The first delay is longer,
because hundreds of TLS handshakes would slow down the start of a cluster.
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
    """One stream to the leader. `leader` returns its address or None; `closed` receives the address at its end."""

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
        """The place changed: close the stream."""
        self._scope.cancel()
        self._moved.set()

    def look_again(self) -> None:
        """There is a leader again, perhaps the same one: open a stream unless one is open."""
        self._moved.set()

    async def hold_forever(self) -> NoReturn:
        """Open the stream and open it again after each end, with backoff."""
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
                # A leader at its limit of streams accepts each one and closes it: the backoff must grow.
                lasted = held and trio.current_time() - began > RETRY_S_MAX
                retry_s = DELAY_S[1] if lasted else min(2 * retry_s, RETRY_S_MAX)
                if held:
                    self._closed(leader)
                await trio.sleep(retry_s)
