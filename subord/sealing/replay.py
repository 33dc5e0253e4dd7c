"""Was this number used before? A sliding window (RFC 4303, section 3.4.3).

Intuition: a doorkeeper who remembers the last tickets. Numbers only go up; one that is much older than the highest
seen is turned away unread, one in between is let in once.
"""

from __future__ import annotations

WINDOW = 256  # datagrams may overtake each other by so many


class Window:
    """The numbers of one sender, from 1 on."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0  # bit i: highest - i was seen

    def is_ahead(self, number: int) -> bool:
        """Higher than all that were seen."""
        return number > self._highest

    def accept(self, number: int) -> bool:
        """Is it new? It is not any more afterwards."""
        ahead = number - self._highest
        if ahead > 0:
            kept = self._seen << ahead if ahead < WINDOW else 0
            self._seen = (kept | 1) & ((1 << WINDOW) - 1)
            self._highest = number
            return True
        if -ahead >= WINDOW or self._seen >> -ahead & 1 or number < 1:
            return False
        self._seen |= 1 << -ahead
        return True
