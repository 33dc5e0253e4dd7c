"""Folding of results: equal results become one group with all its nodes.

Inputs are results with the nodes that gave them, each node once (tasks.py sees to it); outputs are groups, whole or
those since the last flush. Beyond GROUPS_MAX groups and ANSWER_BYTES_MAX bytes a result is left out and its nodes are
counted as `others`. Invariant: no node is left out of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.frames import Told
from subord.core.carriage.engine.ranges import Pair, Ranges

RESULT_HEAD_BYTES = 16  # of one group in a frame, besides its result and ranges


class Room:
    """Bytes of results that one node holds of all its orders."""

    def __init__(self, bytes_max: int = bounds.HELD_BYTES_MAX) -> None:
        self.held = 0
        self._bytes_max = bytes_max

    def take(self, size: int) -> bool:
        """Hold so many bytes more; False: there is no room."""
        if self.held + size > self._bytes_max:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size


class Fold:
    """The results of one order at one node since the last flush."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._groups: dict[bytes, list[Pair]] = {}
        self._others: list[Pair] = []
        self._held = 0
        self._groups_ever = 0
        self._bytes_ever = 0

    def __bool__(self) -> bool:
        return bool(self._groups or self._others)

    def add(self, result: bytes, nodes: Ranges) -> None:
        """These nodes gave this result."""
        group = self._groups.get(result)
        if group is None and self._has_room(len(result)):
            group = self._groups[result] = []
        (self._others if group is None else group).extend(nodes.pairs)

    def add_others(self, nodes: Ranges) -> None:
        """The results of these nodes were left out further down."""
        self._others.extend(nodes.pairs)

    def _has_room(self, size: int) -> bool:
        is_full = self._groups_ever >= bounds.GROUPS_MAX or self._bytes_ever + size > bounds.ANSWER_BYTES_MAX
        if is_full or not self._room.take(size):
            return False
        self._groups_ever += 1
        self._bytes_ever += size
        self._held += size
        return True

    @property
    def groups(self) -> tuple[tuple[bytes, Ranges], ...]:
        """The largest first."""
        found = [(result, Ranges.of_pairs(pairs)) for result, pairs in self._groups.items()]
        return tuple(sorted(found, key=lambda each: (-len(each[1]), each[1].pairs)))

    @property
    def others(self) -> Ranges:
        return Ranges.of_pairs(self._others)

    def clear(self) -> None:
        """What was held has been sent, or is not wanted any more."""
        self._room.give_back(self._held)
        self._held = 0
        self._groups.clear()
        self._others.clear()


def told_frames(
    number: int, fold: Fold, missing: dict[str, Ranges], lacks: str = "", *, is_last: bool = True
) -> Iterator[Told]:
    """An answer as frames."""
    groups: list[tuple[bytes, tuple[int, ...]]] = []
    causes: list[tuple[str, tuple[int, ...]]] = []
    others: tuple[int, ...] = ()
    size = 0
    for kind, word, nodes in _items(fold, missing):
        added = len(word) + nodes.wire_bytes + RESULT_HEAD_BYTES
        if size and (size + added > bounds.ITEMS_BYTES_MAX or (kind == "others" and others)):
            yield Told(number, tuple(groups), others, tuple(causes))
            groups, causes, others, size = [], [], (), 0
        size += added
        if isinstance(word, bytes) and kind == "group":
            groups.append((word, nodes.flat()))
        elif isinstance(word, str):
            causes.append((word, nodes.flat()))
        else:
            others = nodes.flat()
    if size or is_last:
        yield Told(number, tuple(groups), others, tuple(causes), is_last=is_last, lacks=lacks)


def _items(fold: Fold, missing: dict[str, Ranges]) -> Iterator[tuple[str, bytes | str, Ranges]]:
    """What an answer says, in parts that fit a frame."""
    for result, nodes in fold.groups:
        for part in nodes.chunks(bounds.PART_BYTES_MAX):
            yield "group", result, part
    for part in fold.others.chunks(bounds.PART_BYTES_MAX):
        yield "others", b"", part
    for cause, nodes in missing.items():
        for part in nodes.chunks(bounds.PART_BYTES_MAX):
            yield "missing", cause, part
