"""The journal: the last events of the whole cluster, which every node comes to hold alike.

The root records what it writes into the register, and moves; a node that hears a goodbye or takes an order records
that (membership.py). Input are such events, and those of neighbours; outputs are the events in one order of time,
without those that a second root recorded of the same fact. Invariant: the journal holds the latest EVENTS_MAX events
within BYTES_MAX, so after the same events all nodes hold the same, in any order of arrival.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections import deque
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args
from zlib import crc32

import msgspec

from subord.core.carriage.exchange import digest_of
from subord.core.members.register import LEAP_MS_MAX
from subord.core.view import PLACE_CODES, PLACES, Place, Position

EVENTS_MAX: Final = 10_000
BYTES_MAX: Final = 2 << 20
ITEM_BYTES_MAX: Final = 1200
ARRIVALS_MAX: Final = 2048
FRAME_BYTES: Final = 48_000
PARTS: Final = 64
"""Neighbours compare the journal in parts and send those that differ: an event on its way makes one part differ."""
PART_BYTES: Final = 4

Kind = Literal[
    "joined",
    "found",
    "returned",
    "restarted",
    "moved",
    "missing",
    "left",
    "root",
    "forgotten",
    "maintained",
    "resumed",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_HEAD: Final = struct.Struct(">QQIBQQQB")
_texts = msgspec.msgpack.Decoder(tuple[str, str])
_items = msgspec.msgpack.Decoder(list[bytes])
_encode = msgspec.msgpack.Encoder().encode

Item = bytes
"""An event as it travels and is kept. Items are in the order of their times."""


class Event(NamedTuple):
    """One event. `recorder`, `number`: the node that recorded it, and its count. `leader`, `old`: 0 for none.

    `reason`, `by`: of an order, and its principal.
    """

    wall_ms: int
    recorder: Position
    number: int
    kind: Kind
    position: Position
    leader: Position = 0
    old: Position = 0
    place: Place | None = None
    reason: str = ""
    by: str = ""

    @property
    def item(self) -> Item:
        place = 0 if self.place is None else PLACE_CODES[self.place] + 1
        head = _HEAD.pack(*self[:3], _CODES[self.kind], self.position, self.leader, self.old, place)
        return head + _encode((self.reason, self.by)) if self.reason or self.by else head

    @classmethod
    def of(cls, item: Item) -> Event | None:
        """None: it is of a kind of a later release, or cannot be read."""
        wall_ms, recorder, number, kind, position, leader, old, place = _HEAD.unpack_from(item)
        if kind >= len(KINDS) or place > len(PLACES):
            return None
        reason, by = "", ""
        if len(item) > _HEAD.size:
            try:
                reason, by = _texts.decode(item[_HEAD.size :])
            except (msgspec.MsgspecError, ValueError):
                return None
        where = PLACES[place - 1] if place else None
        return cls(wall_ms, recorder, number, KINDS[kind], position, leader, old, where, reason, by)


class Known(NamedTuple):
    """What the journal last says of a node. `status`: present, missing, left or forgotten; "": nothing."""

    status: str = ""
    wall_ms: int = 0
    leader: Position = 0
    place: Place | None = None


_PRESENT: Final = frozenset(("joined", "found", "returned"))
_ABSENT: Final = frozenset(("missing", "left", "forgotten"))


def after(known: Known, event: Event) -> Known | None:
    """What is known after an event; None: it repeats what is known, as recorded by another root."""
    kind, where = event.kind, (event.leader, event.place)
    wall_ms = max(known.wall_ms, event.wall_ms)
    if kind in _PRESENT:
        return None if known.status == "present" else Known("present", wall_ms, *where)
    if kind in _ABSENT:
        is_known = known.status == kind or (kind == "missing" and known.status == "left")
        return None if is_known else Known(kind, wall_ms)
    if kind in ("moved", "root"):
        is_known = known.status == "present" and (known.leader, known.place) == where
        return None if is_known else Known(known.status, wall_ms, *where)
    return known._replace(wall_ms=wall_ms)


class Journal:
    """The events of one node, as a replica (exchange.py)."""

    pause_s: Final = 1.0

    def __init__(self, size: Position, items: Iterable[Item] = ()) -> None:
        """`size`: the highest position of the network."""
        self.arrived = 0
        """Number of events that came since the start."""
        self.dropped = 0
        """Number of events that had no room any more."""
        self.arrivals: deque[Item] = deque(maxlen=ARRIVALS_MAX)
        """The last of them, in the order in which they came."""
        self._size = size
        self._held: list[Item] = []
        self._bytes = 0
        self._digest: bytes | None = None
        self._told: list[Event] | None = None
        self.merge(items)
        self.arrived = 0
        self.arrivals.clear()

    def __len__(self) -> int:
        return len(self._held)

    def events(self) -> list[Event]:
        """All events in the order of time, without repeats."""
        if self._told is None:
            self._told = self._read()[0]
        return self._told

    def known(self) -> dict[Position, Known]:
        """What the journal last says, by position."""
        return self._read()[1]

    def _read(self) -> tuple[list[Event], dict[Position, Known]]:
        told: list[Event] = []
        known: dict[Position, Known] = {}
        for item in self._held:
            event = Event.of(item)
            now = None if event is None else after(known.get(event.position, Known()), event)
            if event is not None and now is not None:
                known[event.position] = now
                told.append(event)
        return told, known

    # -- as a replica -------------------------------------------------------------------------------------

    def merge(self, items: Iterable[Item]) -> list[Item]:
        """Take new events; returns those that stay."""
        new = set(items).difference(self._held)
        if not new:
            return []
        if len(new) == 1:
            insort(self._held, next(iter(new)))
        else:
            self._held = sorted((*self._held, *new))
        self._bytes += sum(map(len, new))
        excess = 0
        while len(self._held) - excess > EVENTS_MAX or self._bytes > BYTES_MAX:
            self._bytes -= len(self._held[excess])
            new.discard(self._held[excess])
            excess += 1
        del self._held[:excess]
        self.dropped += excess
        if not new:
            return []
        self._digest = self._told = None
        taken = sorted(new)
        self.arrivals += taken
        self.arrived += len(taken)
        return taken

    def items(self) -> list[Item]:
        return self._held

    def differing(self, digest: bytes) -> list[Item]:
        """The events of the parts that differ from those of a neighbour."""
        if len(digest) != len(self.digest):
            return self._held
        width = PART_BYTES
        parts = {n for n in range(PARTS) if digest[width * n :][:width] != self.digest[width * n :][:width]}
        return [each for each in self._held if crc32(each) % PARTS in parts]

    def take(self, count: int) -> list[Item]:
        """Remove and return the first events: as many as fit a frame."""
        end = size = 0
        while end < min(count, len(self._held)) and size + len(self._held[end]) <= FRAME_BYTES:
            size += len(self._held[end]) + 5
            end += 1
        taken = self._held[:end]
        del self._held[:end]
        self._bytes -= sum(map(len, taken))
        return taken

    def empty(self) -> Journal:
        found = Journal(self._size)
        found.arrivals = deque(maxlen=0)
        return found

    def drop_expired(self, now_ms: int) -> None:
        """Events have no end."""

    @property
    def digest(self) -> bytes:
        """Four bytes for each part."""
        if self._digest is None:
            parts: list[list[Item]] = [[] for _ in range(PARTS)]
            for each in self._held:
                parts[crc32(each) % PARTS].append(each)
            self._digest = b"".join(digest_of(b"".join(part))[:PART_BYTES] for part in parts)
        return self._digest

    def encode(self, items: Iterable[Item]) -> bytes:
        """Events in MessagePack."""
        return _encode(list(items))

    def decode(self, data: bytes, now_ms: int) -> list[Item]:
        """Without events dated more than LEAP_MS_MAX ahead of this clock. Raises msgspec.DecodeError, ValueError."""
        new = set(_items.decode(data)).difference(self._held)
        found = []
        for item in new:
            if not _HEAD.size <= len(item) <= ITEM_BYTES_MAX:
                raise ValueError("an event has a wrong size")
            wall_ms, recorder, _, _, position, leader, old, _ = _HEAD.unpack_from(item)
            if not 1 <= position <= self._size or max(recorder, leader, old) > self._size:
                raise ValueError("an event is not one of this network")
            if wall_ms <= now_ms + LEAP_MS_MAX:
                found.append(item)
        return found
