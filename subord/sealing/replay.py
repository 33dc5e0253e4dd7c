"""The replay window of one sender (RFC 4303, section 3.4.3).

Input are numbers of authentic datagrams; output is whether a number is new. Numbers far below the highest are
refused; those between count once.
"""

from __future__ import annotations

WINDOW = 256  # by so many numbers datagrams may overtake each other


class Window:
    """The numbers of one sender, from 1 on."""

    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = 0
        self._seen = 0  # bit i: highest - i was seen

    def is_ahead(self, number: int) -> bool:
        """Whether `number` is higher than all seen."""
        return number > self._highest

    def accept(self, number: int) -> bool:
        """Whether `number` is new; it is seen from now on."""
        ahead = number - self._highest
        if ahead > 0:
            shifted = self._seen << ahead if ahead < WINDOW else 0
            self._seen = (shifted | 1) & ((1 << WINDOW) - 1)
            self._highest = number
            return True
        if -ahead >= WINDOW or self._seen >> -ahead & 1 or number < 1:
            return False
        self._seen |= 1 << -ahead
        return True
