"""What the classes of a node were given between two measurements, when the row may change in between. Pure.

Inputs are tickets with the times at which they came into force; output is their mean over the time. Times are of a
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence


class Given:
    """The tickets of one plan, in the order of its classes."""

    def __init__(self) -> None:
        self._row: Sequence[float] = ()
        self._since = self._begun = 0.0
        self._gathered: list[float] = []

    def set(self, percents: Sequence[float], now: float) -> None:
        """From now on each class has so many percent."""
        if self._row:
            self._gather(now)
        else:
            self._begun, self._gathered = now, [0.0] * len(percents)
        self._row, self._since = percents, now

    def taken(self, now: float) -> Sequence[float]:
        """The mean since the last call, or since the first `set`. Empty: nothing was set yet."""
        if not self._row:
            return ()
        self._gather(now)
        elapsed_s = now - self._begun
        found = [each / elapsed_s for each in self._gathered] if elapsed_s > 0 else self._row
        self._begun, self._gathered = now, [0.0] * len(self._row)
        return found

    def _gather(self, now: float) -> None:
        elapsed_s = now - self._since
        self._gathered = [each + share * elapsed_s for each, share in zip(self._gathered, self._row, strict=True)]
        self._since = now
