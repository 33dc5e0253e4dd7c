"""How much of what all users of this host share one of them may have at a time.

Inputs are uids and amounts; output is whether there is room. Invariants: all together never have more than `most`,
and one user half of it, so another one always finds some; root has no bound of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

ROOT: Final = 0


class Shares:
    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = Counter[int]()

    def take(self, uid: int, amount: int = 1) -> bool:
        """False: there is no room, and nothing was taken."""
        is_full = self._taken.total() + amount > self._most
        if is_full or (uid != ROOT and self._taken[uid] + amount > self._most // 2):
            return False
        self._taken[uid] += amount
        return True

    def give(self, uid: int, amount: int = 1) -> None:
        """Back, of what was taken."""
        self._taken[uid] -= amount
        if not self._taken[uid]:
            del self._taken[uid]
