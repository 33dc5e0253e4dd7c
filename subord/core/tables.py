"""A mapping with a bound, from which the oldest entry is dropped."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(dict[K, V]):
    """Holds at most `entries_max` entries. A key that is set becomes the newest; drops are counted.

    Only assignment keeps the bound: `setdefault` and `update` are not used with it.
    """

    def __init__(self, entries_max: int) -> None:
        super().__init__()
        self._entries_max = entries_max
        self.dropped = 0

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._entries_max:
            del self[next(iter(self))]
            self.dropped += 1
