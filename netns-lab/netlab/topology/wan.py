"""Between the sites: which frames go where, when they arrive, and what was counted of them.

Intuition: a sorting office. Letters with a known address go to one branch, circulars to all others; each lies in the
tray of its hour of delivery, and every sack that is opened or thrown away gets a stroke in the book.

Reads no clock and has no device: frames and moments come in (topology/relay.py), frames that are due go out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Any

from netlab.topology.sites import Sites
from netlab.topology.wan_link import Link, passage, trembling

UNDER_WAY_MAX = 100_000  # frames: 150 MB at the most
TREMBLE_S = (5.0, 10.0)  # a delay that trembles stays for so long, drawn anew each time
LATE_S = 0.001  # a frame that is put ashore later than that counts as late

_GROUP = 0x01  # of the first byte of a MAC: for more than one host
_OF_A_NODE = 0x02  # layout.hardware_address, whose last four bytes are those of the IP address


@dataclass
class Way:
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
        names = ("frames", "bytes", "lost", "queue_full", "cut", "no_room")
        return {name: getattr(self, name) for name in names}


class Crossing:
    """`chance` draws from [0, 1), once a frame and way, and once a link whenever delays tremble."""

    def __init__(self, sites: Sites, chance: Callable[[], float], under_way_max: int = UNDER_WAY_MAX) -> None:
        self._names = sites.names
        self._chance = chance
        self._under_way_max = under_way_max
        self._home = {ipaddress.ip_address(address).packed[-4:]: number for address, number in sites.numbers.items()}
        self._links = sites.links
        self._ways = {pair: Way(link) for pair, link in sites.between.items()}
        self._share = 0.0  # by which the delays tremble
        self._redraw_at = inf
        every = range(len(sites.names))
        self._others = [[other for other in every if other != number] for number in every]
        self._under_way: list[tuple[float, int, tuple[int, int], bytes]] = []
        self._taken = 0  # keeps those with one moment of arrival in order
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
        """A frame that a site's bridge has handed out."""
        if not frame[0] & _GROUP:
            target = self._home.get(frame[2:6]) if frame[0] == _OF_A_NODE else None
            if target == source:
                self.stayed += 1
                return
            if target is not None:
                self._send((source, target), frame, now)
                return
        for target in self._others[source]:
            self._send((source, target), frame, now)

    def _send(self, pair: tuple[int, int], frame: bytes, now: float) -> None:
        way = self._ways[pair]
        if now >= self._redraw_at:
            self._redraw(now)
        if self._cut and not self._cut.isdisjoint(pair):
            way.cut += 1
            return
        if len(self._under_way) >= self._under_way_max:
            way.no_room += 1
            return
        fate, arrives_at, way.free_at = passage(way.link, way.free_at, len(frame), now, self._chance())
        if fate == "carried":
            self._taken += 1
            heappush(self._under_way, (arrives_at, self._taken, pair, frame))
        elif fate == "lost":
            way.lost += 1
        else:
            way.queue_full += 1

    def due(self, now: float) -> Iterator[tuple[int, bytes]]:
        """(site, frame) of all that have arrived until now."""
        under_way = self._under_way
        while under_way and under_way[0][0] <= now:
            at, _, pair, frame = heappop(under_way)
            way = self._ways[pair]
            if self._cut and not self._cut.isdisjoint(pair):
                way.cut += 1
                continue
            way.frames += 1
            way.bytes += len(frame)
            self._note_late(now - at)
            yield pair[1], frame

    def _note_late(self, late_s: float) -> None:
        self._late += late_s > LATE_S
        self._late_s += late_s
        self._late_s_max = max(self._late_s_max, late_s)

    def cut(self, site: str, *, connected: bool) -> None:
        """Nothing comes in or out of the site, nor arrives that is under way; or it does again."""
        number = self._names.index(site)
        self._cut = self._cut - {number} if connected else self._cut | {number}

    def tremble(self, share: float, now: float) -> None:
        """From now on the delay of every link becomes another one every 5 to 10 s, within this share of its own.

        0: it is its own again.
        """
        self._share = share
        self._redraw(now)

    def _redraw(self, now: float) -> None:
        """Both directions of a link tremble together, so that the round trip does so by the whole share."""
        for one, other, link in self._links:
            fresh = trembling(link, self._share, self._chance()) if self._share else link
            self._ways[one, other].link = self._ways[other, one].link = fresh
        low, high = TREMBLE_S
        self._redraw_at = now + low + (high - low) * self._chance() if self._share else inf

    def figures(self) -> dict[str, Any]:
        """Everything that was counted so far."""
        arrived = sum(way.frames for way in self._ways.values())
        return {
            "ways": [
                {"from": self._names[source], "to": self._names[target], **way.figures()}
                for (source, target), way in sorted(self._ways.items())
            ],
            "cut_sites": [self._names[number] for number in sorted(self._cut)],
            "under_way": len(self._under_way),
            "stayed": self.stayed,
            "late": self._late,
            "late_s_mean": self._late_s / arrived if arrived else 0.0,
            "late_s_max": self._late_s_max,
        }
