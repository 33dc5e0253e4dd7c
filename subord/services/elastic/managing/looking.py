"""What a poll sees, from the answers of the batch system. Pure but for the memory of earlier polls.

Inputs are the queue and the hosts of an adapter (services/batch), and which nodes are this cluster's own, with the
times since when they are paid for; output is Seen. Invariant: a node is idle since the first of the polls in a row
that have seen no job on it; one that was not seen for a poll begins anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from subord.services.batch.records import Host, JobState, Queue, Wanted
from subord.services.elastic.seen import Kind, Node, Seen, Waiting


class Own(NamedTuple):
    """The nodes that this cluster has added. `up_since`: by name, since when each is paid for. `coming`: those that
    are being added, which the batch system may know already, with the slots that they will have. `going`: those that
    are being removed. `unknown`: how many others the supplier lists."""

    up_since: Mapping[str, float]
    coming: Mapping[str, int] = {}
    going: Collection[str] = ()
    unknown: int = 0


class Looking:
    """The polls of one cluster. `queue`: the one that counts, "": any."""

    def __init__(self, queue: str, master: str, kinds: Sequence[Kind] = ()) -> None:
        self._queue = queue
        self._master = master
        self._kinds = kinds
        self._idle_since: dict[str, float] = {}
        self._odd_since: dict[str, float] = {}

    def seen(self, queue: Queue, hosts: Collection[Host], own: Own, duration_s: float = 0.0) -> Seen:
        """What one poll sees. `duration_s`: of the jobs that have ended, the mean."""
        others = {*own.coming, *own.going}
        known = [host for host in hosts if host.slots and host.name not in others]
        now, before = queue.now, self._idle_since
        self._idle_since = {each.name: min(before.get(each.name, now), now) for each in known if not each.busy}
        return Seen(
            now=queue.now,
            waiting=self._waiting(queue),
            nodes=[self._node(host, own) for host in known],
            coming=len(own.coming),
            going=len(own.going),
            slots_of_new=_usual([host for host in known if host.name != self._master] or known),
            duration_s=duration_s,
            kinds=self._kinds,
            slots_of_coming=sum(own.coming.values()),
            unknown=own.unknown,
        )

    def _waiting(self, queue: Queue) -> list[Waiting]:
        """Jobs that more hosts would start. Of one that was submitted in time to come, as the clock was set back
        since, the first poll counts that has seen it."""
        jobs = [job for job in queue.jobs if job.state == JobState.QUEUED and job.may_use(self._queue)]
        odd = (job.id for job in jobs if job.submitted is None or job.submitted > queue.now)
        self._odd_since = {job: min(self._odd_since.get(job, queue.now), queue.now) for job in odd}
        return [
            Waiting(job.id, job.slots, self._odd_since.get(job.id, job.submitted or queue.now), job.tasks)
            for job in jobs
        ]

    def _node(self, host: Host, own: Own) -> Node:
        is_master = host.name == self._master
        return Node(
            name=host.name,
            slots=host.slots,
            used=host.used,
            jobs=host.busy,
            up_since=own.up_since.get(host.name),
            idle_since=self._idle_since.get(host.name),
            is_master=is_master,
            is_usable=host.is_usable,
            is_wanted=host.wanted != Wanted.NOTHING,
        )


def _usual(hosts: Collection[Host]) -> int:
    """The number of slots that most of them have; of several, the smallest, so no job stays without a node."""
    counts = Counter(host.slots for host in hosts)
    return min(counts, key=lambda slots: (-counts[slots], slots), default=1)
