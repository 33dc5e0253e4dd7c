"""What is due next, of many things that each have a few times of their own.

Inputs are times of attributes (`look_at`, `until`); output is what is due, each once. A time that has changed since
is void. Invariant: the table is at most twice as long as what it stands for, however often times change.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any

SPARE = 64  # void entries that need no tidying


class Due:
    """Owners and the names of their times."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any, str]] = []
        self._tie = count()
        self._tidied = 0

    def __len__(self) -> int:
        return len(self._heap)

    def plan(self, owner: Any, name: str, at: float) -> None:
        """Set a time; infinity: it is not due."""
        setattr(owner, name, at)
        if at < inf:
            heappush(self._heap, (at, next(self._tie), owner, name))
            if len(self._heap) > 2 * self._tidied + SPARE:
                self._tidy()

    def forget(self, owner: Any, names: Iterable[str]) -> None:
        """Nothing of the owner is due any more."""
        for name in names:
            setattr(owner, name, inf)

    @property
    def deadline(self) -> float:
        while self._heap and not self._is_valid(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else inf

    def take(self, now: float) -> tuple[Any, str] | None:
        """The next that is due; its time is infinity from now on."""
        if self.deadline > now:
            return None
        _, _, owner, name = heappop(self._heap)
        setattr(owner, name, inf)
        return owner, name

    @staticmethod
    def _is_valid(entry: tuple[float, int, Any, str]) -> bool:
        at, _, owner, name = entry
        return bool(getattr(owner, name) == at)

    def _tidy(self) -> None:
        self._heap = [each for each in self._heap if self._is_valid(each)]
        heapify(self._heap)
        self._tidied = len(self._heap)
