"""Mappings: one with a bound, and one that grows without a pause."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from itertools import chain
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

BLOCK_BITS = 12  # of consecutive integers, which share a part
WHOLE_MAX = 1 << BLOCK_BITS
PARTS = 61  # a prime: also every hundredth block fills all parts


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


class SplitMap(MutableMapping[int, V], Generic[V]):
    """A mapping of integers, divided when it holds more than WHOLE_MAX entries; until then it keeps their order.

    A dict of 100,000 entries is copied when it grows, and all events wait 8 ms (docs/evaluation/simulator.md). Parts
    grow one after the other, because they hold blocks: all would grow at once if neighbours went to different parts.
    """

    __slots__ = ("_entries", "_parts")

    def __init__(self) -> None:
        self._parts: list[dict[int, V]] = [{}]
        self._entries = 0

    def __getitem__(self, key: int) -> V:
        return self._parts[(key >> BLOCK_BITS) % len(self._parts)][key]

    def get(self, key: int, default: V | None = None) -> V | None:  # type: ignore[override]
        return self._parts[(key >> BLOCK_BITS) % len(self._parts)].get(key, default)

    def __contains__(self, key: int) -> bool:  # type: ignore[override]
        return key in self._parts[(key >> BLOCK_BITS) % len(self._parts)]

    def __setitem__(self, key: int, value: V) -> None:
        part = self._parts[(key >> BLOCK_BITS) % len(self._parts)]
        self._entries += key not in part
        part[key] = value
        if self._entries > WHOLE_MAX and len(self._parts) == 1:
            self._divide()

    def __delitem__(self, key: int) -> None:
        del self._parts[(key >> BLOCK_BITS) % len(self._parts)][key]
        self._entries -= 1

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return self._entries

    def items(self) -> Iterator[tuple[int, V]]:  # type: ignore[override]
        return chain.from_iterable(part.items() for part in self._parts)

    def values(self) -> Iterator[V]:  # type: ignore[override]
        return chain.from_iterable(part.values() for part in self._parts)

    def parts(self) -> list[dict[int, V]]:
        """At least one part, and those that hold entries, to be read one at a time."""
        return [part for part in self._parts if part] or self._parts[:1]

    def drain(self) -> Iterator[int]:
        """Yield the keys, and free each part after its last one. The first key empties the mapping."""
        parts, self._parts, self._entries = self._parts[::-1], [{}], 0
        while parts:
            yield from parts.pop()

    def _divide(self) -> None:
        whole = self._parts[0]
        self._parts = [{} for _ in range(PARTS)]
        for key, value in whole.items():
            self._parts[(key >> BLOCK_BITS) % PARTS][key] = value
