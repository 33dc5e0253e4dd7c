"""Which orders an issuer gives, and a coordinator distributes, now, and which wait for a place.

Inputs are orders that begin and end, times, and whether messages are late; output is the order that begins next.
Without this, very many orders at once would each take so much longer that none is answered in time. No node knows how
many readings all nodes together can take at once, so it begins with few. Signed orders are fewer, run for long, and
must be passed on again before their leases are over, so some places are for them only. Invariants: at most ACTIVE_MAX
orders hold a place, each for SLOT_S at most; of the neighbours whose orders of a kind wait, a place goes to the one
with the fewest for this kind, then to the one whose last turn is the longest ago, and of its orders to the oldest.
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
        self._turns: dict[tuple[Position, bool], int] = {}
        """Of askers whose orders wait: the number of the turn in which they had their last place."""
        self._turn = 0

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
        held = Counter(map(_kind, self._holders))

        def rank(task: Task) -> tuple[int, int]:
            return held[_kind(task)], self._turns.get(_kind(task), 0)

        task = min(self._admissible(self._queue), key=rank, default=None)
        if task is not None:
            self._queue.remove(task)
            self._hold(task, now)
            self._pass_turn(_kind(task))
        return task

    def _pass_turn(self, kind: tuple[Position, bool]) -> None:
        """The others that wait come first."""
        self._turn += 1
        self._turns[kind] = self._turn
        waiting = set(map(_kind, self._queue))
        self._turns = {each: turn for each, turn in self._turns.items() if each in waiting}


def _kind(task: Task) -> tuple[Position, bool]:
    """The neighbour, which a node cannot choose, unlike the issuer that an order names; and whether it is signed."""
    return task.neighbour, bool(task.order.authority)
