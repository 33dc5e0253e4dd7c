"""Keeps the history of a daemon up to date.

In: notices of the core. Out: calls of `History.look`, soon after a change of the roster, at most one in LOOKS_S_MIN,
so that many changes at once cost one comparison.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Final

import trio

from subord.core import snapshots
from subord.core.events import FAILURES, LeaderLost, Notice, PlaceChanged, RosterChanged
from subord.core.node import Node
from subord.core.view import Place
from subord.runtime.state.history import SETTLE_S, History

LOOKS_S_MIN: Final = 1.0
"""Between two looks after notices; the cost of a look grows with the number of nodes below."""
READERS_LOOK_S_MIN: Final = 0.25
"""Between two looks, also by request."""


class Tracker:
    """The tracker of one daemon. `look` may be called at any time and is cheap while nothing has changed."""

    def __init__(self, node: Node, now: Callable[[], float] = trio.current_time) -> None:
        self.register = History()
        self._node = node
        self._now = now
        self._changed = trio.Event()
        self._seen_revision = -1
        self._looked_at = -inf

    def observe(self, notice: Notice) -> None:
        """Note a loss or goodbye above, and schedule a look if the notice may have changed the roster."""
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self.register.lost_above(notice.leader, self._now())
        if isinstance(notice, PlaceChanged) and notice.place is Place.ROOT and notice.old is not None:
            self.register.parted_above(notice.old, self._now())
        if isinstance(notice, RosterChanged | PlaceChanged):
            self._changed.set()

    def look(self) -> None:
        """Bring the history up to date."""
        revision, now = self._node.roster.revision, self._now()
        is_current = revision == self._seen_revision and not self.register.is_waiting
        if is_current or now - self._looked_at < READERS_LOOK_S_MIN:
            return
        self._seen_revision, self._looked_at = revision, now
        uplink = self._node.uplink
        self.register.look(snapshots.roster(self._node, now), uplink.path, now, time.time())

    async def keep_forever(self) -> None:
        """Look after each change, and again SETTLE_S after a node vanished."""
        while True:
            with trio.move_on_after(SETTLE_S if self.register.is_waiting else inf):
                await self._changed.wait()
            self._changed = trio.Event()
            await trio.sleep(LOOKS_S_MIN)
            self.look()
