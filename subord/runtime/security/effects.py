"""What the documents of operators change at a running node: its key ring, and which keys and nodes count.

In: documents, when they are taken. Out: rings for the key ring, revoked names for the verifier of signatures, and
events for the core. Streams ask here which key is pinned to an address, and which nodes are refused. A key that a
stream has shown without the certificate that the site asks for is refused for REFUSED_S, also in datagrams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import trio

from subord.core.address.network import Network
from subord.core.carriage.documents import REVOKED, STRICT, Document
from subord.core.decoding import UNREADABLE
from subord.core.events import Admission, Event
from subord.core.members.membership import DOCUMENTS, Membership
from subord.core.tables import BoundedMap
from subord.runtime.security.key_ring import RunningKeyRing
from subord.runtime.security.operators import Operators
from subord.runtime.security.peer_identity import PeerIdentities

REFUSED_MAX: Final = 1024
REFUSED_S: Final = 60.0


def is_strict(membership: Membership) -> bool:
    """Whether the operators have switched strict mode on."""
    document = membership.documents.by_name.get(STRICT)
    try:
        return document is not None and msgspec.msgpack.decode(document.body, type=bool)
    except UNREADABLE:
        return False


class Effects:
    """The effects at one node. `feed` gives the core an event; it is set before the first document comes."""

    def __init__(
        self,
        membership: Membership,
        operators: Operators,
        key_ring: RunningKeyRing | None,
        peers: PeerIdentities,
        network: Network,
    ) -> None:
        self.feed: Callable[[Event], None] = lambda _: None
        self._membership = membership
        self._operators = operators
        self._key_ring = key_ring
        self._network = network
        self._refused: BoundedMap[bytes, float] = BoundedMap(REFUSED_MAX)  # key -> when it may be tried again
        self._told = Admission(is_strict(membership))
        self._revoke()
        if key_ring is not None:
            key_ring.catch_up(membership.documents.items())
        peers.pinned = self._pinned
        peers.is_strict = lambda: is_strict(membership)
        peers.is_revoked = lambda key: key in membership.revocations.node_keys
        peers.on_uncertified = self._refuse

    def sizes(self) -> dict[str, int]:
        """Entries by table, those of the verifier among them."""
        return {**self._operators.sizes(), "keys_refused": len(self._refused)}

    def follow(self, documents: Iterable[Document]) -> None:
        """Take what is new."""
        self._revoke()
        if self._key_ring is not None:
            self._key_ring.follow(each for each in documents if each.name in self._membership.documents.by_name)
        self.tell_core()

    def _revoke(self) -> None:
        """Refuse what revoked operators sign, and drop what they have signed under another name of their keys.

        Membership drops the documents with the revoked name itself; only the operators file has the other names.
        """
        membership = self._membership
        self._operators.revoke(membership.revocations.operators)
        keys = self._operators.revoked_keys()
        dropped = [name for name, (_, key) in membership.signers.items() if name != REVOKED and key in keys]
        if membership.documents.drop(dropped):
            membership.exchange.change(DOCUMENTS)

    def _pinned(self, address: str) -> bytes:
        position, pins = self._network.position_of(address), self._membership.pins
        return b"" if position is None or pins is None else pins.key_of(position)

    def _refuse(self, key: bytes) -> None:
        self._refused[key] = trio.current_time() + REFUSED_S
        self.tell_core()

    def tell_core(self) -> None:
        """Tell the core which nodes and keys count, if that has changed."""
        now = trio.current_time()
        for key in [key for key, until in self._refused.items() if until <= now]:
            del self._refused[key]
        revoked = self._membership.revocations.node_keys | self._refused.keys()
        found = Admission(is_strict(self._membership), revoked)
        if found != self._told:
            self._told = found
            self.feed(found)

    async def forgive_forever(self) -> None:
        """Try keys again that were refused a while ago: their nodes may have certificates by now."""
        while True:
            await trio.sleep(REFUSED_S)
            self.tell_core()
