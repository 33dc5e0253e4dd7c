"""Asks the batch system and the supplier, for one poll.

Outputs are their answers, in which hosts have the names of records. Invariants: which nodes come, serve and go is
what was so before the questions, so a node that goes on meanwhile is counted once; a question without an answer is a
fault that is told, and ends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from subord.services.batch.adapter import Adapter
from subord.services.batch.naming import naming, number_of, short
from subord.services.batch.records import Finished, Host, Queue, Unavailable, Wanted
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing.averages import Averages, Ended
from subord.services.elastic.managing.kept import Kept
from subord.services.elastic.managing.working import Cluster
from subord.services.elastic.stages import Record
from subord.services.elastic.suppliers import Failed

OVERLAP_S: Final = 120.0
"""Of questions for jobs that have ended, as accounting is late."""
MINUTE_S: Final = 60.0


class Sight(NamedTuple):
    """`coming`, `serving`, `going`: before the questions. `listed`: by the supplier; None: it has not told.
    `unknown`: names of nodes that it lists, and that have neither a record nor a host. `faults`: of questions without
    which a decision is possible. `is_list_known`: the list did not fail. `wanted`: hosts that the batch system has
    started and ended. Those of them that are not up are in `hosts` only if they have a record. `unrecorded`: hosts
    that it lists, and that have no record."""

    queue: Queue
    hosts: tuple[Host, ...]
    coming: Mapping[str, Record]
    serving: Mapping[str, Record]
    going: Mapping[str, Record]
    listed: Mapping[str, str] | None
    unknown: tuple[str, ...]
    faults: tuple[str, ...] = ()
    is_list_known: bool = True
    wanted: tuple[Host, ...] = ()
    unrecorded: tuple[str, ...] = ()


class Sighting:
    """The polls of one cluster. `lookback_s`: for averages."""

    def __init__(
        self, cluster: Cluster, kept: Kept, clock: Clock, prefixes: tuple[str, ...], lookback_s: float
    ) -> None:
        self._cluster = cluster
        self._kept = kept
        self._clock = clock
        self._prefixes = prefixes
        self._lookback_s = lookback_s
        self._asked_until: float | None = None
        self._listed: set[str] = set()
        """The last answer, as far as it is of this cluster."""
        self.averages = Averages()

    async def sight(self) -> Sight | str:
        """The text: why nothing can be decided."""
        coming, serving, going = self._kept.coming, self._kept.serving, self._kept.going
        before = set(self._kept.records)
        listed = await self._cluster.supplier.list()
        queue = await self._cluster.adapter.queue()
        if isinstance(queue, Unavailable):
            return queue.reason
        hosts = await self._cluster.adapter.hosts()
        if isinstance(hosts, Unavailable):
            return hosts.reason
        faults = [fault] if (fault := await self._ask_history(self._cluster.adapter)) else []
        if isinstance(listed, Failed):
            faults.append(f"{listed.reason}; nodes without a record are not found")
        name_of = naming([*before, self._cluster.master])
        named = tuple(host._replace(name=name_of(host.name)) for host in hosts)
        wanted = tuple(host for host in named if host.wanted != Wanted.NOTHING)
        told = None
        if listed is not None and not isinstance(listed, Failed):
            told = {self._shortened(name_of(name)): address for name, address in listed.items()}
            self._listed = {each for each in told if self._is_own(each)} | told.keys() & {
                each.name for each in wanted
            }
        away = {host.name for host in wanted if host.wanted != Wanted.STAY} - before
        named = tuple(host for host in named if host.name not in away)
        known = {self._cluster.master, *before, *self._kept.records, *(host.name for host in named if host.slots)}
        unknown = self._listed - known
        recorded = {self._cluster.master, *before, *self._kept.records}
        return Sight(
            self._shown(queue),
            named,
            coming,
            serving,
            going,
            told,
            tuple(sorted(unknown)),
            tuple(faults),
            is_list_known=not isinstance(listed, Failed),
            wanted=wanted,
            unrecorded=tuple(sorted(self._listed - unknown - recorded)),
        )

    def _is_own(self, name: str) -> bool:
        """The supplier may have nodes of other clusters."""
        return any(number_of(each, name) is not None for each in self._prefixes)

    def _shortened(self, name: str) -> str:
        """Without the domain of the supplier, if the name is of this cluster."""
        return short(name) if self._is_own(name) else name

    async def _ask_history(self, adapter: Adapter) -> str:
        """Why the averages stay as they are; "": they are new."""
        now = self._clock.now()
        since = now - self._lookback_s if self._asked_until is None else min(self._asked_until, now) - OVERLAP_S
        found = await adapter.history(self._clock.real(since))
        if isinstance(found, Unavailable):
            return f"{found.reason}; the averages stay as they were"
        ended = (self._ended(job) for job in found.jobs)
        self.averages.add((each for each in ended if each is not None), now - self._lookback_s)
        self._asked_until = now
        return ""

    def _ended(self, job: Finished) -> Ended | None:
        """None: it has never started."""
        if job.started is None:
            return None
        shown = self._clock.shown
        name = job.id if job.task is None else f"{job.id}.{job.task}"
        return Ended(name, shown(job.submitted), shown(job.started), shown(job.ended))

    def _shown(self, queue: Queue) -> Queue:
        """By the clock of the manager."""
        shown = self._clock.shown
        jobs = (job if job.submitted is None else job._replace(submitted=shown(job.submitted)) for job in queue.jobs)
        return Queue(tuple(jobs), shown(queue.now))
