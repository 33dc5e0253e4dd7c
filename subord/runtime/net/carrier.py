"""Carries the frames of core/carriage/exchange.py over the edges: one sender per edge, which sleeps until a change.

In: edges whose both ends take part, their frames, and changes. Out: frames. A frame is an array in MessagePack; its
first byte tells it from a key ring, which is text.
"""

from __future__ import annotations

from math import inf

import trio

from subord.core.carriage.exchange import FIRST_BYTE_MIN
from subord.core.members.membership import DOCUMENTS
from subord.runtime.frames import Sender
from subord.runtime.state.tracker import Tracker


class Carrier:
    """The senders of one daemon. An edge is named by its sender."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._exchange = tracker.membership.exchange
        self._wakes: dict[Sender, trio.Event] = {}
        self._sleeps_until: dict[Sender, float] = {}
        tracker.wake = self._wake_all

    @staticmethod
    def is_frame(data: bytes) -> bool:
        """Whether it is one of these frames."""
        return data[:1] >= bytes([FIRST_BYTE_MIN])

    async def receive(self, edge: Sender, data: bytes) -> bool:
        """Take a frame, after its documents were judged; False: it is malformed."""
        is_valid = await self._tracker.receive(edge, data, edge.peer)
        self._wake(edge)  # an answer may be due
        return is_valid

    def has_documents(self, edge: Sender) -> bool:
        """Whether the other end is known to take documents."""
        return bool(self._exchange.has(edge, DOCUMENTS))

    def _wake_all(self) -> None:
        for sender in self._sleeps_until:
            self._wake(sender)

    def _wake(self, sender: Sender) -> None:
        """Wake a sender that has something to send before the end of its sleep."""
        if self._exchange.deadline(sender) < self._sleeps_until.get(sender, -inf):
            self._wakes[sender].set()

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
                self._sleeps_until[sender] = until = self._exchange.deadline(sender)
                with trio.move_on_at(until):
                    await wake.wait()
        finally:
            self._wakes.pop(sender, None)
            self._sleeps_until.pop(sender, None)
            self._exchange.closed(sender)
