"""One question that a node has open with another node."""

from __future__ import annotations

import enum
from math import inf
from typing import TYPE_CHECKING

from subord.core.carriage.engine import bounds

if TYPE_CHECKING:
    from subord.core.carriage.engine.links import LinkState
    from subord.core.carriage.engine.ranges import Ranges
    from subord.core.carriage.engine.tasks import Task
    from subord.core.view import Position


class Stage(enum.Enum):
    """How far a question is."""

    WAITING = "waiting"  # for a place among the direct streams
    ASKED = "asked"
    DOUBTED = "doubted"  # the peer counts as hung; its branch is asked directly, and only it itself is waited for
    OVER = "over"  # nothing is waited for; what still comes counts while the order is held


class Pending:
    """A question to `peer` for `part`, which the peer may answer for; nothing else of its answer counts."""

    def __init__(self, number: int, task: Task, peer: Position, part: Ranges, *, climbs: bool) -> None:
        self.number = number
        self.task = task
        self.peer = peer
        self.part = part
        self.climbs = climbs
        self.stage = Stage.WAITING
        self.link: LinkState | None = None
        self.asked_at = -inf
        """When the question, or the last check, was sent."""
        self.is_heard = False
        """Whether the peer has acknowledged since `asked_at`."""
        self.is_known = False
        """Whether the peer has ever acknowledged."""
        self.look_at = inf
        self.pause_s = bounds.CHECK_S

    @property
    def is_open(self) -> bool:
        return self.stage is not Stage.OVER

    @property
    def is_direct(self) -> bool:
        """Whether it has a stream of its own."""
        return self.link is None or self.link.link == self.number
