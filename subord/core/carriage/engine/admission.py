"""Which orders an issuer gives, and a coordinator distributes, now, and which wait for a place.

Inputs are orders that begin and end, times, and whether messages are late; output is the order that begins next.
Without this, very many orders at once would each take so much longer that none is answered in time. No node knows how
many readings all nodes together can take at once, so it begins with few. Signed orders are fewer, run for long, and
must be passed on again before their leases are over, so some places are for them only. Invariants: at most ACTIVE_MAX
orders hold a place, each for SLOT_S at most; of the neighbours whose orders of a kind wait, a place goes to the one
with the fewest for this kind, of these to one that had no turn in this round, and of its orders to the oldest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.slowness import Slowness
from subord.core.carriage.engine.tasks import Task
from subord.core.view import Position


class Admission:
    """The places of one node."""

    def __init__(self, due: Due, slowness: Slowness) -> None:
        self._due = due
        self._slowness = slowness
        self._readings_max = bounds.READINGS_ACTIVE_MIN
        """How many readings may have a place now."""
        self._holders: dict[Task, None] = {}
        self._queue: deque[Task] = deque()
        self._round = 0
        """In each, every neighbour with orders that wait has its turn."""
        self._next_rounds: dict[tuple[Position, bool], int] = {}
        """In which round those have their next turn that had one in this, also if none of their orders waits: else
        nodes that give one order at a time would come first each time."""

    def __len__(self) -> int:
        """Entries, for the bound of tables."""
        return len(self._holders) + len(self._queue)

    def enter(self, task: Task, now: float) -> bool:
        """Whether the order may begin now; else it waits, and `following` returns it later."""
        if task in self._holders:
            return True
        if task.is_queued:  # an answer to an earlier attempt has it climb again
            return False
        if self._slowness.is_late(now):
            self._readings_max = bounds.READINGS_ACTIVE_MIN
        if task not in self._admissible((task,)):
            task.is_queued = True
            self._queue.append(task)
            return False
        self._hold(task, now)
        return True

    def _admissible(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Those that may have a place now."""
        if len(self._holders) < bounds.ACTIVE_MAX:
            may_read = self._readings < self._readings_max
            yield from (each for each in tasks if may_read or each.order.authority)

    @property
    def _readings(self) -> int:
        return sum(not each.order.authority for each in self._holders)

    def _hold(self, task: Task, now: float) -> None:
        task.is_queued = False
        self._holders[task] = None
        self._due.plan(task, "slot_until", now + bounds.SLOT_S)

    def leave(self, task: Task, now: float) -> None:
        """The order is over, or has held its place for SLOT_S."""
        if task in self._holders:
            del self._holders[task]
            if not task.order.authority:
                may_grow = self._readings > 0 and not self._slowness.is_late(now)
                more = min(self._readings_max + 1, bounds.READINGS_ACTIVE_MAX)
                self._readings_max = more if may_grow else bounds.READINGS_ACTIVE_MIN
        if task.is_queued:
            task.is_queued = False
            self._queue.remove(task)

    def following(self, now: float) -> Task | None:
        """The next order that has a place now; None: there is no such order."""
        if not self._queue:
            self._next_rounds.clear()
            return None
        held = Counter(map(_kind, self._holders))
        waiting = self._admissible(self._queue)
        task = min(waiting, key=lambda each: (held[_kind(each)], self._round_of(each)), default=None)
        if task is not None:
            self._queue.remove(task)
            self._hold(task, now)
            self._pass_turn(task)
        return task

    def _round_of(self, task: Task) -> int:
        return self._next_rounds.get(_kind(task), self._round)

    def _pass_turn(self, task: Task) -> None:
        self._round = self._round_of(task)
        self._next_rounds[_kind(task)] = self._round + 1
        self._next_rounds = {kind: number for kind, number in self._next_rounds.items() if number > self._round}


def _kind(task: Task) -> tuple[Position, bool]:
    """The neighbour, which a node cannot choose, unlike the issuer that an order names; and whether it is signed."""
    return task.neighbour, bool(task.order.authority)
