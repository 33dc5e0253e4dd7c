"""A sealed cluster: which seal seals and opens each datagram, and what the seal must let through.

Inputs are the datagrams of a world, as its nodes post them and as they arrive; output is their content, and the
replies of the seal. Each life of a node has a `Sealer` of its own, the same code as in a daemon, with the clock of
the node and with random numbers of the seed. Invariants, judged at every datagram (S6):

- an opened datagram was sealed by its sender for this receiver in this life of the receiver, and is opened once;
- a datagram as its sender sealed it is never taken for damaged;
- between two nodes with the same key ring no datagram is refused for its key.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from subord.core.messages import Message
from subord.core.view import Incarnation, Position
from subord.sealing.keys import SECRET_BYTES, Keyring, key_of, keyring_of
from subord.sealing.policy import seal_message
from subord.sealing.sealer import Broken, End, Opened, Sealer, boot_of
from subord.sim.violation import Violation
from subord.sim.world.rings import Rings

if TYPE_CHECKING:
    from subord.sim.world.world import World

PORT = 7117
GROUP: End = ("239.255.71.17", PORT)
DAMAGED = (Broken.SHORT, Broken.OVERSIZED, Broken.FOREIGN, Broken.UNSEALED, Broken.VERSION, Broken.BAD_TAG)
TO_ALL = 0  # instead of a receiver


class _Sealed(NamedTuple):
    at: float
    ring: Keyring  # of the sender at that moment


class _Seal(NamedTuple):
    sealer: Sealer
    since: float  # when this life began


class Seals:
    """The seals of one world, by position; that of a second host with the same address by the negative position."""

    def __init__(self, world: World, seed: int) -> None:
        chance = Random(f"{seed}/keys")
        self.broken: Counter[Broken] = Counter()
        self.opened = 0
        self.rings = Rings(world, keyring_of(key_of(chance.randbytes(SECRET_BYTES))), chance, self._take)
        self._world = world
        self._seed = seed
        self._seals: dict[int, _Seal] = {}
        self._sealed: dict[int, _Sealed] = {}  # unopened ones, by hash of sender, receiver and datagram

    def begin(self, position: Position, incarnation: Incarnation, *, is_second: bool = False) -> None:
        """A life of a node begins."""
        world, owner = self._world, -position if is_second else position
        secret = Random(f"{self._seed}/{owner}/{world.boots[position]}/{world.now}/seal").randbytes(SECRET_BYTES)
        ring = self.rings.file_of(position) if is_second else self.rings.begin(position)
        sealer = Sealer(ring, self._end(position), boot_of(incarnation, secret), secret, world.clock(position))
        self._seals[owner] = _Seal(sealer, world.now)

    def sealer_of(self, position: Position) -> Sealer:
        """That of the present life, or of the last one."""
        return self._seals[position].sealer

    def _take(self, position: Position, ring: Keyring) -> None:
        self._seals[position].sealer.take(ring)

    def _end(self, position: Position) -> End:
        return self._world.address_of(position), PORT

    # -- sending ------------------------------------------------------------------------------------------

    def seal(self, source: Position, target: Position, message: Message, data: bytes, owner: int = 0) -> bytes:
        """The datagram of a message, whose bytes are `data`. `owner`: whose seal, if not that of `source`."""
        sealer = self._seals[owner or source].sealer
        return self._noted(sealer, source, target, seal_message(sealer, message, data, self._end(target)))

    def seal_for_all(self, source: Position, data: bytes) -> list[bytes]:
        """The datagrams of an announcement."""
        sealer = self._seals[source].sealer
        return [self._noted(sealer, source, TO_ALL, each) for each in sealer.seal_for_all(data, GROUP)]

    def _noted(self, sealer: Sealer, source: Position, target: Position, sealed: bytes) -> bytes:
        self._sealed[hash((source, target, sealed))] = _Sealed(self._world.now, sealer.keyring)
        return sealed

    # -- receiving ----------------------------------------------------------------------------------------

    def open(self, source: Position, target: Position, data: bytes, *, by_multicast: bool, owner: int = 0) -> bytes:
        """The content; empty: not opened, or for the seal alone. Raises Violation."""
        seal, group = self._seals[owner or target], GROUP if by_multicast else None
        opened = seal.sealer.open(data, self._end(source), self._world.clock(target), group=group)
        self._judge(opened, seal, hash((source, TO_ALL if by_multicast else target, data)), by_multicast=by_multicast)
        for reply in opened.replies:
            self._world.sent["seal"] += 1
            self._noted(seal.sealer, target, source, reply)
            self._world.carry(target, source, reply, self._world.weather.fate(target, source))
        return opened.content or b""

    def _judge(self, opened: Opened, seal: _Seal, which: int, *, by_multicast: bool) -> None:
        sealed = self._sealed.get(which)
        if opened.broken is None:
            self.opened += 1
            if sealed is None:
                raise self._violation("an opened datagram is changed or repeated, or of no member")
            if not by_multicast:
                del self._sealed[which]
                if sealed.at < seal.since:
                    raise self._violation("an opened datagram is older than the life of its receiver")
            return
        self.broken[opened.broken] += 1
        if sealed is not None and opened.broken in DAMAGED:
            raise self._violation(f"an intact datagram was refused: {opened.broken.value}")
        if sealed is not None and opened.broken is Broken.NO_KEY and sealed.ring == seal.sealer.keyring:
            raise self._violation("a datagram was refused for its key between two nodes with the same key ring")

    def _violation(self, text: str) -> Violation:
        return Violation("S6", self._world.now, text)
