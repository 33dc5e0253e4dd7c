"""Which jobs the last look has shown in a transfer queue, and whose they are.

Inputs are looks; output is what they have shown of a job. Invariant: what a process says of itself counts for
nothing here; a look may miss a job whose method has just begun, so a caller waits for some more of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from subord.services.transfer.cells.interface import Leaving

LOOKS_MAX: Final = 4
"""One may be under way when a method begins, and the next one may still miss its job."""


class Presence:
    def __init__(self) -> None:
        self._leaving = dict[tuple[str, int], Leaving]()
        self._next = trio.Event()
        """Is set with the next look."""

    def looked(self, leaving: Iterable[Leaving]) -> None:
        self._leaving = {(each.job, each.task): each for each in leaving}
        before, self._next = self._next, trio.Event()
        before.set()

    def shown(self, job: str, task: int) -> Leaving | None:
        """By the last look."""
        return self._leaving.get((job, task))

    async def awaited(self, job: str, task: int, looks_max: int | None) -> Leaving | None:
        """By the last look, or one of the next. `looks_max`: None: as many as it takes."""
        looks = 0
        while (found := self.shown(job, task)) is None and (looks_max is None or looks < looks_max):
            await self._next.wait()
            looks += 1
        return found
