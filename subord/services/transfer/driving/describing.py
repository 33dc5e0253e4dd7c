"""What jobs in the transfer queue need: one query for all that have come since the last one.

Inputs are numbers of jobs; outputs are specs, or why a job cannot go elsewhere. A batch system that does not answer
is asked again, because the job is there: it has a starter. Invariant: at most one query is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

import trio

from subord.services.batch.records import Refused, Unavailable
from subord.services.transfer.cells.interface import Cell
from subord.services.transfer.jobs import Spec

JOBS_MAX: Final = 100
"""Of one query: its answer has all their environments."""
UNKNOWN: Final = Refused("the batch system does not know the job; nothing was changed: it has ended")


class Describing:
    def __init__(self, cell: Cell, retry_s: float) -> None:
        self._cell = cell
        self._retry_s = retry_s
        self._turn = trio.Lock()
        self._wanted = dict[str, int]()
        """With the number of those that wait for it."""
        self._found = dict[str, Spec | Refused]()

    async def described(self, job: str) -> Spec | Refused:
        """The first that has its turn asks for the others, too."""
        self._wanted[job] = self._wanted.get(job, 0) + 1
        try:
            async with self._turn:
                while job not in self._found:
                    await self._ask(job)
                return self._found[job]
        finally:
            self._wanted[job] -= 1
            if not self._wanted[job]:
                del self._wanted[job]
                self._found.pop(job, None)

    async def _ask(self, job: str) -> None:
        others = (each for each in self._wanted if each != job and each not in self._found)
        jobs = [job, *islice(others, JOBS_MAX - 1)]
        found: Mapping[str, Spec | Refused] | Unavailable = await self._cell.describe(jobs)
        if isinstance(found, Unavailable):
            await trio.sleep(self._retry_s)
            return
        self._found.update((each, found.get(each, UNKNOWN)) for each in jobs if each in self._wanted)
