"""The two ends of an edge: the frames of documents, of orders, and of key rings for older releases.

Inputs are an open stream and what its subordinate has said at the opening; outputs are the frames of documents
(carrier.py) and of orders (runtime/orders). New key rings are documents; peers of releases without them get rings as
text, at first and at each change, and no ring is taken from such text. Invariant: what has begun on an edge ends with
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
import trio

from subord.core.carriage.engine.interface import Role
from subord.core.carriage.exchange import FRAME_BYTES_MAX
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Sender, Stream
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.peer_query import TimeBudget, Words
from subord.runtime.orders.driver import OrderDriver
from subord.runtime.orders.edge import EdgeOrders
from subord.runtime.orders.link import is_of_orders
from subord.runtime.security.key_ring import RunningKeyRing
from subord.sealing.keys import Keyring, KeyringError, text_of

SPREAD_S = 1.0  # for the carrier to send a ring down before the edges under a removed key close
DOCUMENTS_S_MAX = 5.0  # until a peer that has not shown to take documents is of an older release


class Opening(msgspec.Struct, frozen=True):
    """First frame of every stream. Newer daemons may add fields and topics."""

    purpose: Literal["edge", "ask"]
    topic: Annotated[str, msgspec.Meta(max_length=32)] | None = None
    words: Words = ()
    budget_s: TimeBudget = 0.0
    carries: bool = False  # an edge: the sender takes frames of the carrier
    orders: bool = False  # an edge: the sender knows orders


class EdgeEnds:
    """The edges of one node, up and down."""

    def __init__(
        self,
        counters: Counters,
        key_ring: RunningKeyRing | None,
        carrier: Carrier | None,
        orders: OrderDriver | None,
    ) -> None:
        self._counters = counters
        self._key_ring = key_ring
        self._carrier = carrier
        self._orders = orders
        self._ring_receivers: set[Sender] = set()  # edges, up and down, that receive new rings
        self._ring_changed = trio.Event()
        if key_ring is not None:
            key_ring.taken.append(self._on_ring)

    @property
    def opening(self) -> Opening:
        """What this node says first on an edge to its leader."""
        return Opening("edge", carries=self._carrier is not None, orders=self._orders is not None)

    async def hold(self, peer: str, stream: Stream, frames: Frames, opening: Opening | None) -> None:
        """Return when the other side closes, or sends an invalid frame. `opening`: of a subordinate, which says
        whether it takes frames of the carrier and of orders; None: a leader, which says so by sending one."""
        sender, carrier, has_documents = Sender(stream, peer), self._carrier, trio.Event()
        carries = None if opening is None else opening.carries
        async with trio.open_nursery() as nursery:
            orders = self._orders_of(sender, nursery, opening)
            if carries and carrier is not None:
                carrier.begin(sender, nursery)
            if self._key_ring is not None:
                wait_s = 0.0 if carries is False or carrier is None else DOCUMENTS_S_MAX
                nursery.start_soon(self._begin_rings, sender, self._key_ring, has_documents, wait_s)
            try:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while (received := await frames.next(FRAME_BYTES_MAX)) is not None:
                        if orders is not None and is_of_orders(received):
                            if not orders.receive(received):
                                self._counters.dropped["order_malformed"] += 1
                                break
                            continue
                        if carrier is None or not carrier.is_frame(received):
                            if not self._read_ring(received):
                                break
                            continue
                        if not carries:
                            carries = True
                            carrier.begin(sender, nursery)
                        if not await carrier.receive(sender, received):
                            self._counters.dropped["carrier_malformed"] += 1
                            break
                        if carrier.has_documents(sender):
                            has_documents.set()
                            self._ring_receivers.discard(sender)
            finally:
                self._ring_receivers.discard(sender)
                if orders is not None:
                    orders.end()
            nursery.cancel_scope.cancel()

    def _orders_of(self, sender: Sender, nursery: trio.Nursery, opening: Opening | None) -> EdgeOrders | None:
        """The orders of an edge; None: there are none."""
        if self._orders is None:
            return None
        role = Role.LEADER if opening is None else Role.SUBORDINATE
        edge = EdgeOrders(self._orders, sender, role, nursery)
        edge.begin(knows_orders=None if opening is None else opening.orders)
        return edge

    async def _begin_rings(
        self, sender: Sender, key_ring: RunningKeyRing, has_documents: trio.Event, wait_s: float
    ) -> None:
        """Send the ring, unless the other side takes documents; from then on `sender` gets each new one."""
        with trio.move_on_after(wait_s):
            await has_documents.wait()
            return
        sent = None
        while sent is not key_ring.ring:  # it may change during the send
            sent = key_ring.ring
            await self._send_ring(sender, sent)
        if not has_documents.is_set():
            self._ring_receivers.add(sender)

    def _read_ring(self, received: bytes) -> bool:
        """Count another key ring of the other side; False: it is invalid. Without a key there are none."""
        if self._key_ring is None:
            return True
        try:
            if self._key_ring.is_another(received.decode("ascii")):
                self._counters.dropped["ring_unsigned"] += 1
        except (KeyringError, UnicodeDecodeError):
            self._counters.dropped["key_ring_malformed"] += 1
            return False
        return True

    def _on_ring(self, _: Keyring) -> None:
        self._ring_changed.set()

    async def send_rings_forever(self, incoming: Mapping[str, trio.CancelScope]) -> None:
        """Send each new ring to peers of older releases. If a key was removed, close the incoming edges, so that
        their peers connect again with a valid key.

        Outgoing edges stay open: their leaders close them. The caller notices the end of an edge after this node, so
        its next beat proves that it lives.
        """
        if self._key_ring is None:
            return
        key_ring = self._key_ring
        known = key_ring.ring.keys.keys()
        while True:
            await self._ring_changed.wait()
            self._ring_changed = trio.Event()
            ring, receivers, scopes = key_ring.ring, tuple(self._ring_receivers), tuple(incoming.values())
            async with trio.open_nursery() as nursery:
                for stream in receivers:
                    nursery.start_soon(self._send_ring, stream, ring)
            if known - ring.keys.keys():
                await trio.sleep(SPREAD_S)
                for scope in scopes:
                    scope.cancel()
            known = ring.keys.keys()

    async def _send_ring(self, sender: Sender, ring: Keyring) -> None:
        await sender.send(text_of(ring).encode())
