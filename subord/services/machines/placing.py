"""On which server a machine starts: the fastest that fits. Pure, and the same at every level.

Inputs are a need and the rooms that servers have; output is the name of a server. Invariant: a server is never
chosen whose room does not fit the need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from subord.services.machines.model import Capacity, Need


class Place(NamedTuple):
    """A server where machines may start, and its room."""

    server: str
    mhz: int
    room: Capacity


def place(need: Need, places: Iterable[Place], preferred: Collection[str] = ()) -> str | None:
    """The server with the fastest processors; among equally fast ones one of `preferred`, where such a machine is
    already, then the one that has the least room left, so that large machines find room elsewhere."""
    best = min(
        (each for each in places if each.room.fits(need)),
        key=lambda each: (-each.mhz, each.server not in preferred, *each.room.less(need), each.server),
        default=None,
    )
    return None if best is None else best.server


def tightest(need: Need, places: Iterable[Place], capacity: Callable[[str], Capacity]) -> str | None:
    """The server that lacks the least for this need, of those where it would fit if all machines of ours stopped:
    `capacity`. Its room is kept until it fits."""
    able = [each for each in places if capacity(each.server).fits(need)]
    best = min(able, key=lambda each: (*lacking(each.room, need), -each.mhz, each.server), default=None)
    return None if best is None else best.server


def lacking(room: Capacity, need: Need) -> tuple[int, int, int, int]:
    return (
        max(0, need.cores - room.cores),
        max(0, need.memory - room.memory),
        max(0, need.disk - room.disk),
        max(0, 1 - room.slots),
    )
