"""The register is kept: when a daemon compares its roster with what it remembers.

Intuition: the teacher looks up when there is noise at the door, not all day long. Many who come in together are
written down in one go.
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
from subord.core.state.view import Place
from subord.runtime.state.history import SETTLE_S, History

LOOKS_S_MIN: Final = 1.0
"""Between two looks that nobody asked for: each costs as much as there are nodes below."""
READERS_LOOK_S_MIN: Final = 0.25
"""Between two looks, however many ask."""


class Tracker:
    """Of one daemon. `look` may be called at any time, and is cheap while nothing has changed."""

    def __init__(self, node: Node, now: Callable[[], float] = trio.current_time) -> None:
        self.register = History()
        self._node = node
        self._now = now
        self._noise = trio.Event()
        self._seen_revision = -1
        self._looked_at = -inf

    def heed(self, notice: Notice) -> None:
        """A notice of the core, which may be a reason to look."""
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self.register.lost_above(notice.leader, self._now())
        if isinstance(notice, PlaceChanged) and notice.place is Place.ROOT and notice.old is not None:
            self.register.parted_above(notice.old, self._now())
        if isinstance(notice, RosterChanged | PlaceChanged):
            self._noise.set()

    def look(self) -> None:
        """Bring the register up to date."""
        revision, now = self._node.roster.revision, self._now()
        is_quiet = revision == self._seen_revision and not self.register.is_waiting
        if is_quiet or now - self._looked_at < READERS_LOOK_S_MIN:
            return
        self._seen_revision, self._looked_at = revision, now
        uplink = self._node.uplink
        self.register.look(snapshots.roster(self._node, now), uplink.path, now, time.time())

    async def keep_forever(self) -> None:
        """Look whenever something happened, and once more when those who vanished have had their time."""
        while True:
            with trio.move_on_after(SETTLE_S if self.register.is_waiting else inf):
                await self._noise.wait()
            self._noise = trio.Event()
            await trio.sleep(LOOKS_S_MIN)
            self.look()
