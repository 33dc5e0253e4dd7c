"""The last answer of each candidate, for `subord why`. Bounded; the oldest is dropped."""

from __future__ import annotations

from subord.core.tables import BoundedMap
from subord.core.view import Asked, Position

ASKED_MAX = 64


class Answers:
    """The last answers of at most ASKED_MAX candidates."""

    def __init__(self) -> None:
        self._last: BoundedMap[Position, tuple[str, float]] = BoundedMap(ASKED_MAX)

    def __len__(self) -> int:
        return len(self._last)

    def mark(self, now: float, position: Position, answer: str) -> None:
        """`answer` is a word or sentence for the operator."""
        self._last[position] = (answer, now)

    def shown(self, now: float) -> tuple[Asked, ...]:
        """Newest first."""
        return tuple(
            Asked(position=position, answer=answer, ago_s=now - at)
            for position, (answer, at) in reversed(self._last.items())
        )
