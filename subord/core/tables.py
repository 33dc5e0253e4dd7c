"""A table with a bound: the one mapping of the core and the runtime from which the oldest entry drops out."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(dict[K, V]):
    """Holds at most `entries_max` entries. A key that is set is the newest; the oldest drops out and is counted.

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
