"""The wide-area network between sites: where each frame goes, when it arrives, and what is counted of it.

A frame waits until its link is free (bandwidth), is dropped when too much waits (queue) or by chance (loss), and then
travels for the delay of the link. This module reads no clock and has no device: the relay hands in frames and the
present time, and takes out the frames that are due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf
from typing import Any, Literal, NamedTuple

from netlab.topology.addresses import packed
from netlab.topology.sites import Link, Sites

UNDER_WAY_MAX = 100_000  # frames: 150 MB at the most
REDRAW_S = (5.0, 10.0)  # jitter draws delays anew after a time between these
LATE_S = 0.001  # a frame that is handed over later than that counts as late

_GROUP = 0x01  # of the first byte of a MAC: for more than one host
_OF_A_NODE = 0x02  # addresses.hardware_address, whose last four bytes are those of the IP address


class Passage(NamedTuple):
    """`arrives_at` holds for what is carried; `free_at`: when the next frame can begin. Seconds on one clock."""

    fate: Literal["carried", "lost", "queue_full"]
    arrives_at: float
    free_at: float


def passage(link: Link, free_at: float, frame_bytes: int, now: float, draw: float) -> Passage:
    """Of a frame that comes to the link now; the link is busy until `free_at`. `draw` is from [0, 1).

    A frame that finds the link free always begins. A lost frame has occupied the link all the same.
    """
    ends_at = now
    if link.bits_per_s is not None:
        begins_at = max(now, free_at)
        waiting_bytes = (begins_at - now) * link.bits_per_s / 8
        if waiting_bytes > 0 and waiting_bytes + frame_bytes > link.queue_bytes_max:
            return Passage("queue_full", now, free_at)
        ends_at = begins_at + frame_bytes * 8 / link.bits_per_s
    return Passage("lost" if draw < link.loss else "carried", ends_at + link.delay_s, ends_at)


def jittered(link: Link, share: float, draw: float) -> Link:
    """The link with another delay, at most `share` of its own longer or shorter. `draw` is from [0, 1)."""
    return replace(link, delay_s=link.delay_s * (1 + share * (2 * draw - 1)))


@dataclass
class Direction:
    """From one site to another, and what has happened on it so far. All but `bytes` are frames."""

    link: Link
    free_at: float = 0.0
    frames: int = 0  # that have arrived
    bytes: int = 0  # of those, Ethernet header included
    lost: int = 0
    queue_full: int = 0
    cut: int = 0  # one of the sites was cut off
    no_room: int = 0  # the relay held UNDER_WAY_MAX already

    def figures(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if name not in ("link", "free_at")}


class Wan:
    """`chance` draws from [0, 1), once a frame and direction, and once a link whenever jitter changes delays."""

    def __init__(self, sites: Sites, chance: Callable[[], float], under_way_max: int = UNDER_WAY_MAX) -> None:
        self.names = sites.names
        self._chance = chance
        self._under_way_max = under_way_max
        self._site_of = {packed(address)[-4:]: number for address, number in sites.numbers.items()}
        self._links = sites.links
        self._directions = {pair: Direction(link) for pair, link in sites.between.items()}
        self._jitter = 0.0  # share of each delay
        self._redraw_at = inf
        every = range(len(sites.names))
        self._others = [[other for other in every if other != number] for number in every]
        self._under_way: list[tuple[float, int, tuple[int, int], bytes]] = []
        self._taken = 0  # keeps frames that arrive at the same moment in order
        self._cut: frozenset[int] = frozenset()
        self.stayed = 0  # frames for a host of the site that they came from
        self._late = 0
        self._late_s = 0.0  # of all together
        self._late_s_max = 0.0

    @property
    def next_at(self) -> float:
        """When the next frame is due; infinity: none is under way."""
        return self._under_way[0][0] if self._under_way else inf

    def take(self, source: int, frame: bytes, now: float) -> None:
        """A frame that a site's bridge has handed out: to the site of its target, or to all others."""
        if not frame[0] & _GROUP:
            target = self._site_of.get(frame[2:6]) if frame[0] == _OF_A_NODE else None
            if target == source:
                self.stayed += 1
                return
            if target is not None:
                self._send((source, target), frame, now)
                return
        for target in self._others[source]:
            self._send((source, target), frame, now)

    def _send(self, pair: tuple[int, int], frame: bytes, now: float) -> None:
        direction = self._directions[pair]
        if now >= self._redraw_at:
            self._redraw(now)
        if self._is_cut(pair):
            direction.cut += 1
            return
        if len(self._under_way) >= self._under_way_max:
            direction.no_room += 1
            return
        draw = self._chance()
        fate, arrives_at, direction.free_at = passage(direction.link, direction.free_at, len(frame), now, draw)
        if fate == "carried":
            self._taken += 1
            heappush(self._under_way, (arrives_at, self._taken, pair, frame))
        elif fate == "lost":
            direction.lost += 1
        else:
            direction.queue_full += 1

    def _is_cut(self, pair: tuple[int, int]) -> bool:
        return bool(self._cut) and not self._cut.isdisjoint(pair)

    def due(self, now: float) -> Iterator[tuple[int, bytes]]:
        """(site, frame) of all that have arrived until now."""
        under_way = self._under_way
        while under_way and under_way[0][0] <= now:
            at, _, pair, frame = heappop(under_way)
            direction = self._directions[pair]
            if self._is_cut(pair):
                direction.cut += 1
                continue
            direction.frames += 1
            direction.bytes += len(frame)
            late_s = now - at
            self._late += late_s > LATE_S
            self._late_s += late_s
            self._late_s_max = max(self._late_s_max, late_s)
            yield pair[1], frame

    def cut(self, site: str, *, connected: bool) -> None:
        """Drop everything into and out of the site, frames under way included; with `connected` no longer."""
        number = self.names.index(site)
        self._cut = self._cut - {number} if connected else self._cut | {number}

    def jitter(self, share: float, now: float) -> None:
        """From now on every delay is drawn anew every 5 to 10 s, within this share of its own; 0: it is its own."""
        self._jitter = share
        self._redraw(now)

    def _redraw(self, now: float) -> None:
        """Both directions of a link change together, so that the round trip changes by the whole share."""
        for one, other, link in self._links:
            fresh = jittered(link, self._jitter, self._chance()) if self._jitter else link
            self._directions[one, other].link = self._directions[other, one].link = fresh
        low, high = REDRAW_S
        self._redraw_at = now + low + (high - low) * self._chance() if self._jitter else inf

    def figures(self) -> dict[str, Any]:
        arrived = sum(direction.frames for direction in self._directions.values())
        return {
            "ways": [
                {"from": self.names[source], "to": self.names[target], **direction.figures()}
                for (source, target), direction in sorted(self._directions.items())
            ],
            "cut_sites": [self.names[number] for number in sorted(self._cut)],
            "under_way": len(self._under_way),
            "stayed": self.stayed,
            "late": self._late,
            "late_s_mean": self._late_s / arrived if arrived else 0.0,
            "late_s_max": self._late_s_max,
        }
