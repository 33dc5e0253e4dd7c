"""A loop that is called before its time."""

from __future__ import annotations

import trio


class Wake:
    """Invariant: a call while nothing waits is not lost."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def call(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Whether it was called within this time; the calls so far are answered then."""
        with trio.move_on_after(max(0.0, seconds)):
            await self._event.wait()
        was_called = self._event.is_set()
        if was_called:
            self._event = trio.Event()
        return was_called
