"""Selectors: which positions of a cluster a text such as `1-4,level 2` names.

Ranges stay two numbers until their total is known to be within NODES_MAX, so a hostile selector costs little.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from subord.config.source import cut
from subord.core.address.numbering import Numbering
from subord.core.view import Position

NODES_MAX = 1_000_000
RANGE = re.compile(r"\s*([1-9][0-9]{0,17})(?:-([1-9][0-9]{0,17}))?\s*")
LEVEL = re.compile(r"level ([0-9]{1,4})")
ROOT = "root"

Span = tuple[int, int]
"""Start, and exclusive end."""


class ScenarioError(Exception):
    """The scenario is wrong; the text is one plain line for its author. Nothing was started."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(each if each.isprintable() else "?" for each in " ".join(text.split())))


class Selection:
    """The positions of a cluster, ascending, and what selectors name of them."""

    def __init__(self, positions: Iterable[Position], rule: Numbering) -> None:
        self.positions = tuple(positions)
        self._rule = rule
        self._deepest = rule.level_and_offset(self.positions[-1])[0]

    def named(self, selector: str, root: Position | None = None) -> tuple[Position, ...]:
        """The positions that the selector names, ascending; `root` is the present root. Raises ScenarioError."""
        found = _merged(span for word in _words(selector) for span in self._of(word, selector, root))
        return tuple(position for start, end in found for position in self.positions[start:end])

    def count(self, selector: str) -> int:
        """How many nodes a selector names at most. Raises ScenarioError also when a word of it names no node."""
        spans: list[Span] = []
        for word in _words(selector):
            found = self._of(word, selector, None)
            if not found and word != ROOT:
                raise ScenarioError(f"`{word}` names no node: the deepest level of this cluster is {self._deepest}")
            spans += found
        known = sum(end - start for start, end in _merged(spans))
        return min(len(self.positions), known + (ROOT in _words(selector)))

    def _of(self, word: str, selector: str, root: Position | None) -> list[Span]:
        """What a word names, as indices of `positions`."""
        if word == "all":
            return [(0, len(self.positions))]
        if word == ROOT:
            return [] if root is None else [self._indices(root, root)]
        if level := LEVEL.fullmatch(word):
            return self._of_level(int(level[1]))
        first, last = _range(word, selector)
        start, end = found = self._indices(first, last)
        if end - start <= last - first:
            missing = next(p for p, q in enumerate([*self.positions[start:end], 0], first) if p != q)
            raise ScenarioError(f"`{cut(selector)}` names {missing}, which is no node of the cluster")
        return [found]

    def _of_level(self, level: int) -> list[Span]:
        if level > self._deepest:
            return []
        first = self._rule.position_at(level, 0)
        start, end = self._indices(first, first + self._rule.level_size(level) - 1)
        return [(start, end)] if start < end else []

    def _indices(self, first: Position, last: Position) -> Span:
        return bisect_left(self.positions, first), bisect_right(self.positions, last)


def listed(text: str) -> list[Position]:
    """The positions of a list such as `1-4,9`, ascending, none twice. Raises ScenarioError."""
    found = _merged((first, last + 1) for first, last in (_range(word, text) for word in text.split(",")))
    count = sum(end - start for start, end in found)
    if count > NODES_MAX:
        raise ScenarioError(f"cluster.positions: {count} nodes, a scenario has at most {NODES_MAX}")
    return [position for start, end in found for position in range(start, end)]


def folded(positions: Iterable[Position]) -> str:
    """Positions as `1-4,9`; the inverse of what a selector reads."""
    ranges: list[list[int]] = []
    for position in sorted(positions):
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def _words(selector: str) -> Iterable[str]:
    return dict.fromkeys(word.strip() for word in selector.split(","))


def _range(word: str, text: str) -> Span:
    """First and last position of `7` or `1-4`."""
    ends = RANGE.fullmatch(word)
    if not ends:
        raise ScenarioError(f"`{cut(text)}` is no list of positions such as 1-4,9")
    first, last = int(ends[1]), int(ends[2] or ends[1])
    if last < first:
        raise ScenarioError(f"`{word.strip()}` is no range of positions: give the lower end first")
    return first, last


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Ascending, without overlaps."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found
