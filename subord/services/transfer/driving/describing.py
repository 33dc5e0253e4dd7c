"""What jobs in the transfer queue need: one query for all that have come since the last one.

Inputs are numbers of jobs; outputs are specs, or why a job cannot go elsewhere. A batch system that does not answer
is asked again, because the job is there: it has a starter. After a query without an answer half as many jobs are
asked for, since one of them may be why; of one alone whose answer cannot be read, it is Refused. Invariants: at most
one query is under way; a job that has no answer does not keep others from theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

import trio

from subord.services.batch.records import Fault, Refused, Unavailable
from subord.services.transfer.cells.interface import Cell
from subord.services.transfer.jobs import Spec

JOBS_MAX: Final = 100
"""Of one query: its answer has all their environments."""
OF_THE_JOB: Final = (Fault.GARBLED, Fault.LARGE)
"""What the answer to a query of one job may be because of this job."""
UNKNOWN: Final = Refused("the batch system does not know the job; nothing was changed: it has ended")


class Describing:
    def __init__(self, cell: Cell, retry_s: float) -> None:
        self._cell = cell
        self._retry_s = retry_s
        self._turn = trio.Lock()
        self._jobs_max = JOBS_MAX
        """Of the next query."""
        self._wanted = dict[str, int]()
        """With the number of those that wait for it."""
        self._found = dict[str, Spec | Refused]()

    async def described(self, job: str) -> Spec | Refused:
        """The first that has its turn asks for the others, too."""
        self._wanted[job] = self._wanted.get(job, 0) + 1
        try:
            while True:
                async with self._turn:
                    if job not in self._found:
                        await self._ask(job)
                    if job in self._found:
                        return self._found[job]
        finally:
            self._wanted[job] -= 1
            if not self._wanted[job]:
                del self._wanted[job]
                self._found.pop(job, None)

    async def _ask(self, job: str) -> None:
        others = (each for each in self._wanted if each != job and each not in self._found)
        jobs = [job, *islice(others, self._jobs_max - 1)]
        found: Mapping[str, Spec | Refused] | Unavailable = await self._cell.describe(jobs)
        if isinstance(found, Unavailable):
            self._jobs_max = max(1, len(jobs) // 2)
            if len(jobs) == 1 and found.fault in OF_THE_JOB:
                self._found[job] = Refused(f"what it needs cannot be read: {found.reason}")
            else:
                await trio.sleep(self._retry_s)
            return
        self._jobs_max = min(JOBS_MAX, 2 * self._jobs_max)
        self._found.update((each, found.get(each, UNKNOWN)) for each in jobs if each in self._wanted)
