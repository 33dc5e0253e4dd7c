"""Keeps a TCP stream to the leader, whose end tells the core that the leader's process ended.

core/pacing/edge_pace.py decides when the stream opens.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NoReturn

import trio

from subord.core.events import Notice
from subord.core.pacing.edge_pace import EdgeChange, EdgePace, edge_change
from subord.runtime.net.streams import Streams


class Edge:
    """One stream to the leader. `leader` returns its address or None; `closed` receives the address at its end."""

    def __init__(
        self, streams: Streams, chance: Random, leader: Callable[[], str | None], closed: Callable[[str], None]
    ) -> None:
        self._streams = streams
        self._pace = EdgePace(chance)
        self._leader = leader
        self._closed = closed
        self._scope = trio.CancelScope()
        self._moved = trio.Event()

    def observe(self, notice: Notice) -> None:
        """Follow changes of place."""
        change = edge_change(notice)
        if change is not None:
            self._pace.moved()
            self._moved.set()
        if change is EdgeChange.MOVE:
            self._scope.cancel()

    async def hold_forever(self) -> NoReturn:
        """Open the stream, and open it again after each end."""
        while True:
            if self._leader() is None:
                await self._moved.wait()
            self._moved = trio.Event()
            leader = self._leader()
            if leader is None:
                continue
            with trio.CancelScope() as self._scope:
                await trio.sleep(self._pace.opening_delay_s())
                self._pace.tried()
                began = trio.current_time()
                held = await self._streams.hold_edge(leader)
                retry_s = self._pace.retry_delay_s(trio.current_time() - began if held else 0.0)
                if held:
                    self._closed(leader)
                await trio.sleep(retry_s)
