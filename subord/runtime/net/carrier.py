"""Carries the frames of core/carriage/exchange.py over the edges: one sender per edge, which sleeps until a change.

In: edges whose both ends take part, their frames, and changes. Out: frames. A frame is an array in MessagePack; its
first byte tells it from a key ring, which is text.
"""

from __future__ import annotations

import trio

from subord.core.carriage.exchange import FIRST_BYTE_MIN
from subord.runtime.frames import Sender
from subord.runtime.state.tracker import Tracker


class Carrier:
    """The senders of one daemon. An edge is named by its sender."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._exchange = tracker.membership.exchange
        self._wakes: dict[Sender, trio.Event] = {}
        tracker.wake = self._wake_all

    @staticmethod
    def is_frame(data: bytes) -> bool:
        """Whether it is one of these frames."""
        return data[:1] >= bytes([FIRST_BYTE_MIN])

    async def receive(self, edge: Sender, data: bytes) -> bool:
        """Take a frame, after its documents were judged; False: it is malformed."""
        is_valid = await self._tracker.receive(edge, data, edge.peer)
        if edge in self._wakes:
            self._wakes[edge].set()  # an answer may be due; all edges are woken by a change alone
        return is_valid

    def _wake_all(self) -> None:
        for wake in self._wakes.values():
            wake.set()

    def begin(self, sender: Sender, nursery: trio.Nursery) -> None:
        """The other end of this edge takes frames; frames that come from now on are answered."""
        self._exchange.opened(sender)
        nursery.start_soon(self._send_forever, sender)

    async def _send_forever(self, sender: Sender) -> None:
        """Send what waits for this edge, until cancelled."""
        try:
            while True:
                self._wakes[sender] = wake = trio.Event()
                while (data := self._exchange.next_frame(sender, trio.current_time())) is not None:
                    await sender.send(data)
                with trio.move_on_at(self._exchange.deadline(sender)):
                    await wake.wait()
        finally:
            self._wakes.pop(sender, None)
            self._exchange.closed(sender)
