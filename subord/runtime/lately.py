"""What went wrong lately, and with whom: a short table for people who ask for the problems of a node.

Intuition: the notebook of a night porter. The same visitor with the same trouble gets a tally mark; when the page is
full the oldest line goes; and what happened long ago is nobody's concern any more.

Strangers can write here by sending nonsense, so there is room for few lines, and texts are words of ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

LINES_MAX: Final = 64
LATELY_S: Final = 600.0


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """`address`: with whom; "" is ourselves. `kind` and `text` are the same for the same trouble of others."""

    kind: str
    text: str
    address: str
    ago_s: float
    times: int


class Lately:
    """One per node."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str, str], tuple[float, int]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def note(self, kind: str, text: str, address: str = "") -> None:
        """Once more, or for the first time lately."""
        line, now = (kind, text, address), self._clock()
        at, times = self._lines.pop(line, (now, 0))
        self._lines[line] = now, times + 1 if now - at <= LATELY_S else 1
        if len(self._lines) > LINES_MAX:
            del self._lines[next(iter(self._lines))]

    def shown(self) -> Iterator[Trouble]:
        """Of the last ten minutes, the latest first."""
        now = self._clock()
        for (kind, text, address), (at, times) in reversed(self._lines.items()):
            if now - at <= LATELY_S:
                yield Trouble(kind=kind, text=text, address=address, ago_s=now - at, times=times)
