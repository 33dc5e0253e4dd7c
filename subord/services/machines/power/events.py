"""Events in a channel that is never longer than its limit: what does not fit is dropped, and that is told."""

from __future__ import annotations

from typing import Final

import trio

from subord.services.machines.power.records import Event, EventKind

EVENTS_MAX: Final = 256

KINDS: Final = {
    0: EventKind.DEFINED,
    1: EventKind.UNDEFINED,
    2: EventKind.STARTED,
    3: EventKind.PAUSED,
    4: EventKind.RESUMED,
    5: EventKind.STOPPED,
    6: EventKind.STOPPED,  # the guest has shut down; "stopped" follows, but not in each driver
    7: EventKind.PAUSED,  # the guest suspended itself
    8: EventKind.PAUSED,  # it crashed, and is kept
}
"""By the numbers of libvirt's virDomainEventType."""


class Events:
    """One place is kept free for MISSED."""

    def __init__(self, most: int = EVENTS_MAX) -> None:
        self._most = most
        self._send, self.received = trio.open_memory_channel[Event](most)
        self._is_missed = False

    def put(self, event: Event) -> None:
        if self._send.statistics().current_buffer_used < self._most - 1:
            self._is_missed = False
            self._send.send_nowait(event)
        elif not self._is_missed:
            self._is_missed = True
            self._send.send_nowait(Event(EventKind.MISSED))
