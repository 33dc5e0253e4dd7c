"""Which orders an issuer gives, and a coordinator distributes, now, and which wait for a place.

Inputs are orders that begin and end, and times; output is the order that begins next. Without this, very many orders
at once would each take so much longer that none is answered in time. Invariants: at most ACTIVE_MAX orders hold a
place, of them READINGS_ACTIVE_MAX readings, each for SLOT_S at most; places go in the order of arrival, but an order
that an operator has signed does not wait for a reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.tasks import Task


class Admission:
    """The places of one node."""

    def __init__(self, due: Due) -> None:
        self._due = due
        self._holders: dict[Task, None] = {}
        self._queue: deque[Task] = deque()

    def __len__(self) -> int:
        """Entries, for the bound of tables."""
        return len(self._holders) + len(self._queue)

    def enter(self, task: Task, now: float) -> bool:
        """Whether the order may begin now; else it waits, and `following` returns it later."""
        if task in self._holders:
            return True
        if task.is_queued:  # an answer to an earlier attempt has it climb again
            return False
        if task not in self._admissible((task,)):
            task.is_queued = True
            self._queue.append(task)
            return False
        self._hold(task, now)
        return True

    def _admissible(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Those that may have a place now."""
        if len(self._holders) < bounds.ACTIVE_MAX:
            readings = sum(not each.order.authority for each in self._holders)
            may_read = readings < bounds.READINGS_ACTIVE_MAX
            yield from (each for each in tasks if may_read or each.order.authority)

    def _hold(self, task: Task, now: float) -> None:
        task.is_queued = False
        self._holders[task] = None
        self._due.plan(task, "slot_until", now + bounds.SLOT_S)

    def leave(self, task: Task) -> None:
        """The order is over, or has held its place for SLOT_S."""
        self._holders.pop(task, None)
        if task.is_queued:
            task.is_queued = False
            self._queue.remove(task)

    def following(self, now: float) -> Task | None:
        """The next order that has a place now; None: there is no such order."""
        task = next(self._admissible(self._queue), None)
        if task is not None:
            self._queue.remove(task)
            self._hold(task, now)
        return task
