"""What went wrong lately, and with whom: a short table for people who ask for the problems of a node.

Intuition: the notebook of a night porter. The same visitor with the same trouble gets a tally mark; when the page is
full the oldest line goes; and what happened long ago is nobody's concern any more.

Strangers can write here by sending nonsense, so there is room for few lines, and texts are words of ours. Each kind
has room of its own, and so has each reason of what strangers can cause: spoofed datagrams displace only lines about
datagrams that are wrong in the same way, and first those that were noted only once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from subord.core.tables import BoundedMap

LINES_MAX: Final = 64
"""In each room."""
ROOMS_MAX: Final = 64
BY_STRANGERS: Final = ("dropped", "stream")
"""Kinds that need no key to be caused. Their texts are the reasons of the program, which are few."""
LATELY_S: Final = 600.0


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: with whom; "" is ourselves. `kind` and `text` are the same for the same trouble of others."""

    kind: str
    text: str
    address: str
    ago_s: float
    times: int


_Line = tuple[str, str, str]  # kind, text, address
_Room = tuple[str, str]


class RecentProblems:
    """One per node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rooms: BoundedMap[_Room, dict[_Line, tuple[float, int]]] = BoundedMap(ROOMS_MAX)

    def __len__(self) -> int:
        return sum(map(len, self._rooms.values()))

    def note(self, kind: str, text: str, address: str = "") -> None:
        """Once more, or for the first time lately."""
        name, line, now = (kind, text if kind in BY_STRANGERS else ""), (kind, text, address), self._clock()
        if name not in self._rooms:
            self._rooms[name] = {}
        room = self._rooms[name]
        at, times = room.pop(line, (now, 0))
        if len(room) >= LINES_MAX:
            del room[_least(room, now)]
        room[line] = now, times + 1 if now - at <= LATELY_S else 1

    def shown(self) -> Iterator[Trouble]:
        """Of the last ten minutes, the latest first."""
        now = self._clock()
        lines = [(at, line, times) for room in self._rooms.values() for line, (at, times) in reversed(room.items())]
        for at, (kind, text, address), times in sorted(lines, key=lambda each: -each[0]):
            if now - at <= LATELY_S:
                yield Trouble(kind=kind, text=text, address=address, ago_s=now - at, times=times)


def _least(room: dict[_Line, tuple[float, int]], now: float) -> _Line:
    """The oldest line that was noted once or long ago; the oldest of all if there is none."""
    once = (line for line, (at, times) in room.items() if times == 1 or now - at > LATELY_S)
    return next(once, next(iter(room)))
