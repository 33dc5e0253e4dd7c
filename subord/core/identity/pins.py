"""Pins: which key speaks for which address.

Inputs are keys that nodes proved to this node, pins of neighbours, and what operators forget; output is the one key
that counts for an address. The first key holds until an operator forgets the node. As a replica
(carriage/exchange.py) all nodes hold the same pins: of two for one address the earliest counts, then the lesser key.
Invariant: a neighbour gives a key to an address that has none, and never replaces the key that this node holds; the
node then knows of two keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.identity.signer import KEY_BYTES
from subord.core.tables import BoundedMap
from subord.core.view import Position

PINS_MAX: Final = 131_072
STAMP_MS_MAX: Final = (1 << 53) - 1
DIGEST_BYTES: Final = 8


class Pin(NamedTuple):
    """`stamp_ms`: when a node first saw the key, in ms since 1970."""

    position: Annotated[Position, msgspec.Meta(ge=1)]
    stamp_ms: Annotated[int, msgspec.Meta(ge=0, le=STAMP_MS_MAX)]
    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


_decoder = msgspec.msgpack.Decoder(tuple[Pin, ...])
_encode = msgspec.msgpack.Encoder().encode


class Pins:
    """The pins of one node."""

    pause_s: Final = 2.0

    def __init__(self, size: Position, pins: Iterable[Pin] = ()) -> None:
        """`size`: the highest position of the network."""
        self.fresh: list[Position] = []
        """Addresses whose key came or went; the node empties it."""
        self.refused = 0
        """Number of pins that had no room."""
        self._size = size
        self._pins: dict[Position, Pin] = {}
        self._held: dict[Position, bytes] = {}  # keys that count although the replica has none, or another one
        self._released: BoundedMap[Position, int] = BoundedMap(PINS_MAX)  # when an operator forgot the node
        self._digest = 0
        self.merge(pins)

    def __len__(self) -> int:
        return len(self._pins)

    def key_of(self, position: Position) -> bytes:
        """The key that speaks for an address; empty: none is pinned."""
        held = self._held.get(position)
        if held is not None:
            return held
        pin = self._pins.get(position)
        return b"" if pin is None else pin.key

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self._pins) + len(self._held)

    @property
    def conflicts(self) -> list[Position]:
        """Addresses for which other nodes hold another key, in order."""
        return sorted(position for position in self._held if position in self._pins)

    def see(self, position: Position, key: bytes) -> bool:
        """The node at an address proved this key to this node. True: it is pinned now."""
        if self.key_of(position) or not self._has_room(position):
            return False
        self._held[position] = key
        self.fresh.append(position)
        return True

    def stamped(self, position: Position, key: bytes, now_ms: int) -> Pin:
        """The pin that tells other nodes of a key."""
        return Pin(position, max(now_ms, self._released.get(position, -1) + 1), key)

    def release(self, position: Position, at_ms: int) -> bool:
        """An operator forgot the node at `at_ms`: no key that was pinned before counts. True: one did."""
        if at_ms <= self._released.get(position, -1):
            return False
        self._released[position] = at_ms
        key, pin = self.key_of(position), self._pins.get(position)
        if pin is not None and pin.stamp_ms > at_ms:
            return False
        self._held.pop(position, None)
        self._drop(position)
        self.fresh += [position] * bool(key)
        return bool(key)

    def saved(self) -> list[Pin]:
        """What a disk keeps: the keys that count here."""
        return [each._replace(key=self.key_of(each.position)) for each in self._pins.values()]

    # -- as a replica (carriage/exchange.py) ----------------------------------------------------------------

    def merge(self, items: Iterable[Pin]) -> list[Pin]:
        """Take the pins that are earlier than those known; returns them."""
        return [each for each in items if self._take(each)]

    def _take(self, pin: Pin) -> bool:
        position, old = pin.position, self._pins.get(pin.position)
        if pin.stamp_ms <= self._released.get(position, -1):
            return False
        if old is not None and pin[1:] >= old[1:]:
            return False
        if not self._has_room(position):
            self.refused += 1
            return False
        counted = self.key_of(position)
        self._drop(position)
        self._pins[position] = pin
        self._digest += _digest_of(pin)
        if counted in (b"", pin.key):
            self._held.pop(position, None)
        else:
            self._held[position] = counted
        self.fresh += [position] * (not counted)
        return True

    def _has_room(self, position: Position) -> bool:
        is_known = position in self._pins or position in self._held
        return is_known or len(self._pins) + len(self._held) < PINS_MAX

    def _drop(self, position: Position) -> None:
        pin = self._pins.pop(position, None)
        if pin is not None:
            self._digest -= _digest_of(pin)

    def take(self, count: int) -> list[Pin]:
        """Remove and return some pins."""
        taken = [self._pins[position] for position in list(self._pins)[:count]]
        for each in taken:
            self._drop(each.position)
            self._held.pop(each.position, None)
        self.fresh.clear()
        return taken

    def items(self) -> list[Pin]:
        return list(self._pins.values())

    def differing(self, digest: bytes) -> list[Pin]:  # noqa: ARG002 - the digest does not tell
        return self.items()

    def empty(self) -> Pins:
        return Pins(self._size)

    def drop_expired(self, now_ms: int) -> None:
        """Pins have no end."""

    @property
    def digest(self) -> bytes:
        """Equal for equal pins, in any order."""
        return (self._digest % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES, "big")

    def encode(self, items: Iterable[Pin]) -> bytes:
        """Pins in MessagePack."""
        return _encode(list(items))

    def decode(self, data: bytes, now_ms: int) -> list[Pin]:  # noqa: ARG002 - the interface
        """Raises msgspec.DecodeError, ValueError."""
        pins = list(_decoder.decode(data))
        if any(each.position > self._size for each in pins):
            raise ValueError("a pin is not one of this network")
        return pins


def _digest_of(pin: Pin) -> int:
    return int.from_bytes(blake2b(_encode(pin), digest_size=DIGEST_BYTES).digest(), "big")
