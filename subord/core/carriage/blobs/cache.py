"""Which chunks are on the disk of a node, and which give way.

Inputs are chunks that come, their uses, and pins; outputs are chunks to delete. The least recently used gives way; a
pinned one never does. Invariant: the bytes of all chunks never exceed the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from subord.core.carriage.blobs.manifests import Name


class Cache:
    """The index of one node."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._sizes: dict[Name, int] = {}  # the least recently used first
        self._pins: Counter[Name] = Counter()

    def __contains__(self, name: Name) -> bool:
        return name in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def use(self, name: Name) -> None:
        """It was read."""
        self._sizes[name] = self._sizes.pop(name)

    def add(self, name: Name, size: int) -> list[Name] | None:
        """Room for a chunk; the chunks to delete first. None: there is no room, and nothing changes."""
        if name in self._sizes:
            self.use(name)
            return []
        gone, free = [], self.bytes_max - self.used_bytes
        for each, bytes_of in self._sizes.items():
            if free >= size:
                break
            if not self._pins[each]:
                gone.append(each)
                free += bytes_of
        if free < size:
            return None
        for each in gone:
            self.remove(each)
        self._sizes[name] = size
        self.used_bytes += size
        return gone

    def unpinned(self) -> list[tuple[Name, int]]:
        """The chunks that nothing needs, with their sizes."""
        return [(name, size) for name, size in self._sizes.items() if not self._pins[name]]

    def remove(self, name: Name) -> None:
        """It is not on the disk any more."""
        self.used_bytes -= self._sizes.pop(name, 0)

    def pin(self, names: Iterable[Name]) -> None:
        """They are in use, whether they are there yet or not."""
        self._pins.update(names)

    def unpin(self, names: Iterable[Name]) -> None:
        for each in names:
            self._pins[each] -= 1
            if self._pins[each] <= 0:
                del self._pins[each]
