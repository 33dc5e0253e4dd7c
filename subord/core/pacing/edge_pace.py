"""When the stream to a leader is opened, and opened again after its end (runtime/net/edge.py).

Inputs are notices of the core, attempts to open the stream, and its ends; outputs are delays in seconds. The stream
opens a random delay after a change of place, when the edge is likely to stay. The first delay of a process is longer,
because hundreds of TLS handshakes would slow down the start of a cluster. The daemon and the simulator hold one
EdgePace per process and follow it.
"""

from __future__ import annotations

import enum
from random import Random
from typing import Final

from subord.core.events import Healed, Notice, PlaceChanged
from subord.core.pacing.backoff import Backoff

FIRST_DELAY_S: Final = (5.0, 9.0)
DELAY_S: Final = (0.5, 1.5)
RETRY_S: Final = DELAY_S[1]
RETRY_S_MAX: Final = 30.0


class EdgeChange(enum.Enum):
    """What a notice demands of the stream."""

    MOVE = enum.auto()  # the place changed: close the stream, and open one to the leader, if there is one
    LOOK_AGAIN = enum.auto()  # there is a leader again, perhaps the same one: open a stream unless one is open


def edge_change(notice: Notice) -> EdgeChange | None:
    """A lost leader changes nothing: the stream stays until the next place, or its own end."""
    if isinstance(notice, PlaceChanged):
        return EdgeChange.MOVE
    return EdgeChange.LOOK_AGAIN if isinstance(notice, Healed) else None


class EdgePace:
    """The delays of one process."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._delay_s = FIRST_DELAY_S
        self._backoff = Backoff(RETRY_S)

    def moved(self) -> None:
        """There is another leader, or one again: the next retry comes soon."""
        self._backoff = Backoff(RETRY_S)

    def opening_delay_s(self) -> float:
        """Before an attempt to open the stream."""
        return self._chance.uniform(*self._delay_s)

    def tried(self) -> None:
        """The first delay is over."""
        self._delay_s = DELAY_S

    def retry_delay_s(self, lasted_s: float) -> float:
        """Before the next attempt; `lasted_s`: of the stream that ended, 0 if none was opened.

        A leader at its limit of streams accepts each one and closes it, so a short stream does not end the backoff.
        """
        if lasted_s > RETRY_S_MAX:
            self.moved()
        return self._backoff.step(RETRY_S_MAX)
