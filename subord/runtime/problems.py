"""A bounded table of the recent problems of a node, for `subord errors`.

In: kind, text and peer of each problem. Out: lines of the last LATELY_S with their counts. Any host can cause entries
by sending invalid datagrams, so texts come from the program, and each kind, and for BY_OUTSIDERS each text, has its
own group of at most LINES_MAX lines. Spoofed datagrams evict only lines of their own group, first those noted once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from subord.core.events import LOST_BY, LostCause
from subord.core.tables import BoundedMap

LINES_MAX: Final = 64
"""In each group."""
GROUPS_MAX: Final = 64
BY_OUTSIDERS: Final = ("dropped", "stream")
"""Kinds that a host without the key can cause. Their texts are the program's reasons, which are few."""
LATELY_S: Final = 600.0


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: the peer, or "" for the node itself. `times`: in the last LATELY_S."""

    kind: str
    text: str
    address: str
    ago_s: float
    times: int


_LOSS: Final = re.compile(r"lost its leader (\S+): (.*)")


def of_loss(leader: str | None, cause: LostCause) -> str:
    """The text of the problem "lost"."""
    return f"lost its leader {leader}: {LOST_BY.get(cause, cause)}"


def loss_of(text: str) -> tuple[str, str] | None:
    """The leader and the cause in such a text; None: it is another."""
    found = _LOSS.fullmatch(text)
    return (found[1], found[2]) if found else None


_Line = tuple[str, str, str]  # kind, text, address
_Group = tuple[str, str]


class RecentProblems:
    """The table of one node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._groups: BoundedMap[_Group, dict[_Line, tuple[float, int]]] = BoundedMap(GROUPS_MAX)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def note(self, kind: str, text: str, address: str = "") -> None:
        """Count one occurrence now."""
        name, line, now = (kind, text if kind in BY_OUTSIDERS else ""), (kind, text, address), self._clock()
        if name not in self._groups:
            self._groups[name] = {}
        group = self._groups[name]
        at, times = group.pop(line, (now, 0))
        if len(group) >= LINES_MAX:
            del group[_least(group, now)]
        group[line] = now, times + 1 if now - at <= LATELY_S else 1

    def shown(self) -> Iterator[Problem]:
        """The problems of the last LATELY_S, latest first."""
        now = self._clock()
        lines = [
            (at, line, times) for group in self._groups.values() for line, (at, times) in reversed(group.items())
        ]
        for at, (kind, text, address), times in sorted(lines, key=lambda each: -each[0]):
            if now - at <= LATELY_S:
                yield Problem(kind=kind, text=text, address=address, ago_s=now - at, times=times)


def _least(group: dict[_Line, tuple[float, int]], now: float) -> _Line:
    """The line to evict: the oldest that was noted once or is no longer recent, else the oldest."""
    once = (line for line, (at, times) in group.items() if times == 1 or now - at > LATELY_S)
    return next(once, next(iter(group)))
