"""What one poll sees: the jobs that wait and run, and the nodes with their slots. Pure.

Times are seconds since 1970 by the clock of the queue's master, which is "now" for all of them. Invariant: nothing
here is assumed of equal nodes; each has slots of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple


class Waiting(NamedTuple):
    """A job in the state `qw`: neither held nor in error. `slots`: of one task. `tasks`: of an array, all of which
    wait."""

    job: str
    slots: int
    since: float
    tasks: int = 1


class Node(NamedTuple):
    """`slots`, `used`: of the queue. `jobs`: of any queue. `up_since`: since when it is paid for; None: it is not
    ours to remove. `idle_since`: None: it is not idle. `is_usable`: the queue starts jobs there. `is_wanted`: the
    batch system has it started and ended."""

    name: str
    slots: int
    used: int = 0
    jobs: int = 0
    up_since: float | None = None
    idle_since: float | None = None
    is_master: bool = False
    is_usable: bool = True
    is_wanted: bool = False

    @property
    def is_idle(self) -> bool:
        return not self.jobs and not self.used

    @property
    def free(self) -> int:
        return max(0, self.slots - self.used) if self.is_usable else 0


class Kind(NamedTuple):
    """Of nodes that can be added. `slots`: 0: as most hosts have."""

    name: str = ""
    slots: int = 0


class Seen(NamedTuple):
    """`coming`: nodes that are being added, `going`: that are being removed. `slots_of_new`: of the next node, if its
    kind does not say it. `duration_s`: of jobs that have ended, the mean; 0: not known. `kinds`: the cheapest first;
    (): one kind. `slots_of_coming`: None: each as `slots_of_new`. `unknown`: nodes that are paid for, and neither
    recorded nor hosts of the queue."""

    now: float
    waiting: Sequence[Waiting]
    nodes: Sequence[Node]
    coming: int = 0
    going: int = 0
    slots_of_new: int = 1
    duration_s: float = 0.0
    kinds: Sequence[Kind] = ()
    slots_of_coming: int | None = None
    unknown: int = 0

    @property
    def size(self) -> int:
        """Nodes that are there, or paid for soon."""
        return len(self.nodes) + self.coming + self.unknown

    @property
    def paid(self) -> int:
        """Also those that are not removed yet."""
        return self.size + self.going

    @property
    def coming_slots(self) -> int:
        return self.coming * self.slots_of_new if self.slots_of_coming is None else self.slots_of_coming

    @property
    def next_kind(self) -> Kind:
        """The cheapest whose slots hold the largest task that waits, else the largest."""
        largest = max((each.slots for each in self.waiting), default=0)
        kinds = [each._replace(slots=each.slots or self.slots_of_new) for each in self.kinds or (Kind(),)]
        enough = (each for each in kinds if each.slots >= largest)
        return next(enough, max(kinds, key=lambda each: each.slots))

    @property
    def total_slots(self) -> int:
        return sum(node.slots for node in self.nodes if node.is_usable)

    @property
    def free_slots(self) -> int:
        return sum(node.free for node in self.nodes)

    @property
    def waiting_slots(self) -> int:
        return sum(each.slots * each.tasks for each in self.waiting)

    @property
    def oldest_s(self) -> float:
        """How long the job has waited that waits longest, whatever its place in the queue; -inf: none waits."""
        return max((self.now - each.since for each in self.waiting), default=-inf)

    @property
    def lasts_s(self) -> float:
        """How long until the last job that waits has started, if all jobs take as long as those that have ended."""
        return self.duration_s * sum(each.tasks for each in self.waiting) / max(1, self.size)

    def fits(self, job: Waiting) -> bool:
        """Whether the free slots of one node are enough for it."""
        return any(node.free >= job.slots for node in self.nodes)
