"""The two sides of one process, and their records: nothing that follows from a change is done before it is written.

Inputs are calls of the sides, which change them without a wait, and `commit` behind each; outputs are records on the
disk, and what starters are told. Invariants: commits do not overlap, so records are written in the order of the
changes; a starter hears that its job is accepted, sent or over when the record that says so is on the disk; after a
write that failed nothing is done any more, because the sides are ahead of the disk.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from subord.runtime.record_file import RecordsError
from subord.services.transfer import away, home
from subord.services.transfer.away import Away
from subord.services.transfer.driving.counting import Counts
from subord.services.transfer.driving.presence import Presence
from subord.services.transfer.driving.telling import ending_text
from subord.services.transfer.home import Home
from subord.services.transfer.jobs import Key
from subord.services.transfer.states import HomeRecord

logger = logging.getLogger("subord")
Write = Callable[[home.Changes, away.Changes], int]
Tell = Callable[[Sequence[Key], Sequence[HomeRecord]], Awaitable[None]]
OVER_MAX: Final = 200
"""Jobs of this cluster whose end is kept for `subord transfer jobs`."""
TELL_S_MAX: Final = 5.0
"""For all starters that have news together; they are processes of this host that read."""


async def _told(_accepted: Sequence[Key], _news: Sequence[HomeRecord]) -> None:
    await trio.lowlevel.checkpoint()


class Sides:
    """`clock`: one that does not jump, in seconds."""

    def __init__(self, of_home: Home, of_away: Away, write: Write, clock: Callable[[], float]) -> None:
        self.home = of_home
        self.away = of_away
        self.clock = clock
        self.counts = Counts()
        self.over = deque[HomeRecord](maxlen=OVER_MAX)
        """The last jobs of this cluster that have ended, as they were then."""
        self.presence = Presence()
        self.tell: Tell = _told
        """What is done with the news of starters."""
        self.accepted = list[Key]()
        """Of starters that are to hear of it with the next commit."""
        self._write = write
        self._turn = trio.Lock()
        self._failure: RecordsError | None = None

    async def commit(self) -> None:
        """When it returns, all that has changed before is on the disk, and starters have heard of it. It is not
        cancelled in between. Raises RecordsError."""
        with trio.CancelScope(shield=True):
            async with self._turn:
                if self._failure is not None:
                    raise self._failure
                await self._commit()

    async def _commit(self) -> None:
        of_home, of_away, news = self.home.changes(), self.away.changes(), self.home.news()
        accepted, self.accepted = self.accepted, []  # what comes while it is written is not on the disk
        if of_home.records or of_home.peer is not None or of_away.records or of_away.restored_life is not None:
            ended = self.counts.note(of_home.records, of_away.records)
            try:
                self.away.written = await trio.to_thread.run_sync(self._write, of_home, of_away)
            except RecordsError as error:
                self._failure = error
                raise
            self.over.extend(ended)
            for record in ended:
                logger.info("transfer: %s", ending_text(record))
        with trio.move_on_after(TELL_S_MAX):
            await self.tell(accepted, news)
