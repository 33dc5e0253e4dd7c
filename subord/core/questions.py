"""What we are looking for, and the candidates who have not answered yet.

Intuition: letters sent, with a note of when to write again.
"""

from __future__ import annotations

import enum

import msgspec

from subord.core.messages import Wish
from subord.core.view import Position


class Aim(enum.Enum):
    """What we are looking for."""

    NOTHING = "nothing"  # at home
    FIRST = "first place"
    NEXT = "next place"  # the leader is lost, or leaving
    LOWER = "lower root"  # we are root
    BETTER = "better place"  # we are a guest


class Question(msgspec.Struct, kw_only=True):
    """One candidate who has not answered yet."""

    position: Position
    exchange: int
    wish: Wish | None  # None: we only ask for advice
    next_at: float
    wait_s: float
    tries: int  # repetitions left
    patient: bool = False  # our home at first start: it may be a moment late
    busy: int = 0
