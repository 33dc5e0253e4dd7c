"""What an operator may see of the orders at a node: those under way, and the last ones that ended.

Input is an order as it is now (tasks.py); output are plain values. Numbers of passing orders are those of the node's
own part. Invariant: the list of those that ended is bounded.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from subord.core.carriage.engine.tasks import Task
from subord.core.view import Position

ENDED_MAX: Final = 16


class Overview(NamedTuple):
    """`is_own`: a command of this node gave it. `asked` 0: the targets are not known yet. `missing`: with a cause so
    far. `age_s`: since it came to this node."""

    service: str
    issuer: Position
    is_own: bool
    asked: int
    told: int
    missing: int
    age_s: float
    left_s: float


class Ended(NamedTuple):
    """`at`: by the clock of the engine."""

    order: Overview
    at: float


EndedOrders = deque[Ended]


def ended_orders() -> EndedOrders:
    """The last orders that ended, newest last."""
    return deque(maxlen=ENDED_MAX)


def overview(task: Task, now: float) -> Overview:
    """An order as it is now."""
    return Overview(
        service=task.order.service,
        issuer=task.order.issuer,
        is_own=task.asker is None,
        asked=len(task.targets),
        told=len(task.targets) - len(task.remaining),
        missing=sum(map(len, task.missing.values())),
        age_s=now - task.began_at,
        left_s=max(0.0, task.until - now),
    )
