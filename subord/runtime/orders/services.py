"""The services of one node that need no agent: readings, which any member may ask for.

Inputs are a payload and the node; output is a result of at most bounds.RESULT_BYTES_MAX. A service names no node in
its result where it can, because equal results of many nodes travel as one. Invariant: nothing here changes a node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

Reading = Callable[[bytes], Awaitable[bytes]]
Readings = Mapping[str, Reading]
PING: Final = "ping"


class Pong(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a ping. `level`: leaders above the node; `round_trip_class`: of the edge to its leader."""

    level: int
    round_trip_class: int


def class_of(round_trip_s: float) -> int:
    """Round trips up to 2^class microseconds; 0: unknown. Few classes, so that equal answers travel as one."""
    return max(0, int(round_trip_s * 1e6)).bit_length()


def ping(level: Callable[[], int], round_trip_s: Callable[[], float]) -> Reading:
    """The service `ping` of a node, whose level and edge these functions tell."""

    async def answer(_: bytes) -> bytes:
        return msgspec.msgpack.encode(Pong(level(), class_of(round_trip_s())))

    return answer
