"""A stream of its own to another node, from the call of the engine to its end.

Inputs are frames of the engine, also before the stream is open, and the end; output is when the stream closes.
Invariant: at most EARLY_BYTES_MAX wait for the stream.
"""

from __future__ import annotations

from typing import Final

import trio

from subord.core.carriage.engine.bounds import FRAME_BYTES_MAX
from subord.core.carriage.engine.lanes import lane_of
from subord.runtime.orders.link import OrderLink

HANG_UP_S_MAX: Final = 1.0
EARLY_BYTES_MAX: Final = 4 * FRAME_BYTES_MAX


class Call:
    """`data`: the first frame."""

    def __init__(self, data: bytes) -> None:
        self.scope = trio.CancelScope()
        self._early = [data]
        self._early_bytes = len(data)

    def take(self, data: bytes) -> bool:
        """A frame before the stream is open; False: there is no room."""
        has_room = self._early_bytes + len(data) <= EARLY_BYTES_MAX
        if has_room:
            self._early.append(data)
            self._early_bytes += len(data)
        return has_room

    def opened(self, link: OrderLink) -> None:
        """Send what waits."""
        for data in self._early:
            link.offer(lane_of(data), data)
        self._early.clear()

    def hang_up(self, link: OrderLink | None) -> None:
        """End when what waits on the link is sent. `link` None: the stream is not open."""
        if link is None:
            self.scope.cancel()
        else:
            self.scope.deadline = trio.current_time() + HANG_UP_S_MAX
            link.finish()
