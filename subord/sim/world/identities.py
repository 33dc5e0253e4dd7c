"""The identities of simulated hosts: which key each has, what it has signed, and which keys each node has pinned.

Inputs are starts, hosts that are replaced, and keys that nodes pin; outputs are signers and pins. The key belongs to
the host, over all its lives. Proofs are hashes under the secret of a host, and are verified by a table of the
secrets. With `known` every node has the pins of all from the start, as in a cluster that has run before; else a pin
reaches all nodes SPREAD_S after a node has made it, as the replica of pins does along the edges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from hashlib import blake2b
from typing import TYPE_CHECKING

from subord.core.carriage.orders import Cluster
from subord.core.events import Notice, Pinned
from subord.core.identity.pins import Pin, Pins
from subord.core.identity.signer import KEY_BYTES, PROOF_BYTES
from subord.core.messages import Terms
from subord.core.state.context import GivenIdentity
from subord.core.view import Position

if TYPE_CHECKING:
    from subord.sim.world.world import World

SPREAD_S = 1.0
CLUSTER_NAME = "simulated"


class HostSigner:
    """The key of one host."""

    def __init__(self, identities: Identities, position: Position, name: str) -> None:
        self._identities = identities
        self._position = position
        self._secret = blake2b(name.encode(), digest_size=KEY_BYTES).digest()
        self.key = blake2b(self._secret, digest_size=KEY_BYTES).digest()
        self.signed: set[int] = set()  # hashes of the contents
        identities.secrets[self.key] = self._secret

    def sign(self, content: bytes) -> bytes:
        self._identities.signatures += 1
        self.signed.add(hash(content))
        return _proof(self._secret, content)

    def verify(self, key: bytes, content: bytes, proof: bytes) -> bool:
        self._identities.verified[self._position] += 1
        return self._identities.is_proof(key, content, proof)


class KnownPins(Pins):
    """Those of a node that knows the keys of all hosts."""

    def __init__(self, identities: Identities) -> None:
        super().__init__(1)
        self._identities = identities

    def key_of(self, position: Position) -> bytes:
        return self._identities.true_key_of(position)

    def see(self, position: Position, key: bytes) -> bool:  # noqa: ARG002 - all are pinned
        return False


class Identities:
    """Those of one world."""

    def __init__(
        self,
        world: World,
        seed: int,
        *,
        are_on: bool = True,
        known: bool = False,
        strict: bool = False,
        bare: Collection[Position] = (),
    ) -> None:
        """`bare`: the nodes without identity."""
        self.are_on = are_on
        self.strict = strict
        self.known = known
        self.bare = frozenset(bare)
        self.secrets: dict[bytes, bytes] = {}
        self.signatures = 0
        self.verified: Counter[Position] = Counter()
        self.hosts: defaultdict[Position, list[HostSigner]] = defaultdict(list)  # the last one is there now
        self._world = world
        self._seed = seed
        self._seized: dict[Position, HostSigner] = {}
        self._second: dict[Position, HostSigner] = {}  # of the second hosts with an address (twins.py)
        self._pins: dict[Position, Pins] = {}
        self._forgotten: dict[Position, int] = {}  # when the operator last did so
        self._forgotten_ms = 0

    @property
    def cluster(self) -> Cluster:
        """As nodes sign it."""
        return CLUSTER_NAME, Terms.of(self._world.settings).network

    def given(self, position: Position) -> GivenIdentity:
        """What the next life of a host has."""
        if not self.has_identity(position):
            return {}
        return self._given(self._seized.get(position) or self.host_of(position), self.pins_of(position))

    def has_identity(self, position: Position) -> bool:
        return self.are_on and position not in self.bare

    def _given(self, signer: HostSigner, pins: Pins) -> GivenIdentity:
        return {"signer": signer, "pins": pins, "cluster_name": CLUSTER_NAME, "strict": self.strict}

    def host_of(self, position: Position) -> HostSigner:
        """The host that rightly has the address."""
        if not self.hosts[position]:
            self.hosts[position].append(self._new(position, "1"))
        return self.hosts[position][-1]

    def given_to_intruder(self, position: Position) -> GivenIdentity:
        """What a second host with this address has: a key of its own, and no pins."""
        if not self.has_identity(position):
            return {}
        self._second[position] = self.intruder(position)
        return self._given(self._second[position], Pins(self._world.settings.network.size))

    def end_second(self, position: Position) -> None:
        """The second host is gone; the operator forgets its key, which some nodes may have pinned."""
        self._second.pop(position, None)
        self.forget(position)

    def intruder(self, position: Position) -> HostSigner:
        """The key of another host with this address."""
        return self._new(position, f"intruder {self._world.now}")

    def pins_of(self, position: Position) -> Pins:
        """On the disk of the host, which `reuse` replaces."""
        if position not in self._pins:
            size = self._world.settings.network.size
            self._pins[position] = KnownPins(self) if self.known else Pins(size)
        return self._pins[position]

    def replicated(self, position: Position) -> Pins | None:
        """The pins that travel along the edges."""
        return self.pins_of(position) if self.has_identity(position) and not self.known else None

    def true_key_of(self, position: Position) -> bytes:
        return self.host_of(position).key if self.has_identity(position) else b""

    def has_signed(self, position: Position, key: bytes, content: bytes) -> bool:
        """Whether a host that rightly had the address has signed it."""
        return any(each.key == key and hash(content) in each.signed for each in self.hosts[position])

    def is_proof(self, key: bytes, content: bytes, proof: bytes) -> bool:
        """Whether the owner of a key has signed it, rightful or not."""
        secret = self.secrets.get(key)
        return secret is not None and proof == _proof(secret, content)

    # -- hosts that are replaced ----------------------------------------------------------------------------

    def replace(self, position: Position) -> None:
        """Another host is there now, and the operator has forgotten the former one."""
        if not self.has_identity(position):
            return
        self._pins.pop(position, None)
        self.host_of(position)
        self.hosts[position].append(self._new(position, str(len(self.hosts[position]) + 1)))
        self.forget(position)

    def forget(self, position: Position) -> None:
        """The operator forgets the node: no node holds its key any more."""
        pinned = (pin for pins in self._pins.values() for pin in pins.items() if pin.position == position)
        stamps = (pin.stamp_ms for pin in pinned)  # by the clocks of the hosts
        self._forgotten_ms = max(self._now_ms(), self._forgotten_ms, *stamps) + 1
        self._forgotten[position] = self._forgotten_ms
        for owner, pins in self._pins.items():
            if isinstance(pins, KnownPins):
                pins.fresh.append(position)
            else:
                pins.release(position, self._forgotten_ms)
            self._follow(owner)

    def seize(self, position: Position) -> None:
        """An intruder has the address until `give_back`, and no operator has forgotten the former host."""
        if self.has_identity(position):
            self._seized[position] = self.intruder(position)

    def give_back(self) -> list[Position]:
        """The former hosts are back at the addresses that were seized; the operator forgets the keys of the others,
        which may have been the first there."""
        found, self._seized = sorted(self._seized), {}
        for position in found:
            self.forget(position)
        return found

    def _new(self, position: Position, name: str) -> HostSigner:
        return HostSigner(self, position, f"{self._seed}/{position}/{name}")

    # -- pins that spread -----------------------------------------------------------------------------------

    def observe(self, notice: Notice) -> None:
        """A node may have pinned the key of another one; where nodes remember members, the edges carry it."""
        if not isinstance(notice, Pinned):
            return
        if not self._is_there(notice.position, notice.key):
            self.forget(notice.position)  # a late datagram of a host that is gone: the operator repeats it
        elif self._world.members is None:
            pin = Pin(notice.position, self._now_ms() + 1, notice.key)
            self._world.after(SPREAD_S, self._spread, pin)

    def _is_there(self, position: Position, key: bytes) -> bool:
        """Whether a host with this key has the address now."""
        hosts = self.host_of(position), self._seized.get(position), self._second.get(position)
        return any(each is not None and each.key == key for each in hosts)

    def _spread(self, pin: Pin) -> None:
        """Unless the operator has forgotten the node meanwhile, of which new hosts know as well."""
        if pin.stamp_ms <= self._forgotten.get(pin.position, -1):
            return
        for position in self._world.nodes:
            if self.has_identity(position):
                self.pins_of(position).merge((pin,))
                self._follow(position)

    def _follow(self, position: Position) -> None:
        """What is due to pins must not look like the effect of the next message."""
        node = self._world.nodes.get(position)
        if node is not None:
            node.binding.follow()

    def _now_ms(self) -> int:
        return int(self._world.now * 1000)


def _proof(secret: bytes, content: bytes) -> bytes:
    return blake2b(content, key=secret, digest_size=PROOF_BYTES).digest()
