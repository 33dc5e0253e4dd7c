"""Connects the core to the network and the clock.

In: datagrams, ICMP errors, ends of edges, one timer. Each becomes an event of the core, and the driver carries out
the returned actions: it sends messages, measures probes and passes notices to `observe`. `feed` is synchronous, so no
other task sees the node between an event and its actions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import NoReturn

import trio

from subord.core.edges.reports import FALSE_REPORTS
from subord.core.events import (
    FAILURES,
    Action,
    Dropped,
    EdgeClosed,
    Event,
    Healed,
    LeaderLost,
    Measure,
    Notice,
    Publish,
    Received,
    Reply,
    RoundTrip,
    Send,
    Unreachable,
    Unreadable,
    Wakeup,
)
from subord.core.messages import Pong, Probe
from subord.core.node import Node
from subord.runtime.counters import Counters
from subord.runtime.net.multicast import Group
from subord.runtime.net.probing import Probing
from subord.runtime.net.transport import Transport, kind_of, log_message
from subord.runtime.net.udp import Datagram
from subord.wire.receiving import Receiver

logger = logging.getLogger("subord")


class Driver:
    """Runs one node. `observe` receives every notice that is not only counted."""

    def __init__(
        self, node: Node, transport: Transport, counters: Counters, observe: Callable[[Notice], None]
    ) -> None:
        self.node = node
        self._transport = transport
        self._counters = counters
        self._observe = observe
        self._network = node.context.settings.network
        self._timer = trio.CancelScope(deadline=inf)
        self._receiver = Receiver(transport.wire, transport.peer_versions, trio.current_time())
        self._probing = Probing(node.context, transport, counters)
        if node.context.mapping.measures_round_trips:
            transport.sock.stamp_arrivals()

    async def run(self) -> None:
        """Run until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive_forever)
            nursery.start_soon(self._wake_forever)
            if self._transport.group is not None:
                nursery.start_soon(self._receive_group_forever, self._transport.group)

    def feed(self, event: Event, sender: Datagram | None = None) -> None:
        """Give the core one event and carry out its actions. `sender`: the datagram of the event."""
        for action in self.node.handle(event, trio.current_time()):
            self._carry_out(action, sender)
        self._timer.deadline = self.node.deadline

    def sizes(self) -> dict[str, int]:
        """Number of entries by table, outside the core."""
        probes, transport = len(self._probing), self._transport
        return {
            "probes_out": probes,
            "wire_versions": len(transport.peer_versions),
            "duplicates": transport.duplicates,
        }

    def edge_closed(self, address: str) -> None:
        """A stream along a tree edge ended."""
        position = self._network.position_of(address)
        if position is not None:
            self.feed(EdgeClosed(position))

    async def _wake_forever(self) -> NoReturn:
        while True:
            with trio.CancelScope(deadline=self.node.deadline) as self._timer:
                await trio.sleep_forever()
            late_s = trio.current_time() - self.node.deadline
            if late_s >= 0:
                self._counters.loop_lag.observe(late_s)
                self.feed(Wakeup())

    async def _receive_forever(self) -> NoReturn:
        while True:
            await self._transport.sock.wait()
            for datagram in self._transport.sock.received():
                self._receive(datagram)
            if self._transport.sock.has_returns:
                self._take_returns()

    async def _receive_group_forever(self, group: Group) -> NoReturn:
        while True:
            await group.wait()
            for datagram in group.received():
                # The group also delivers the node's own announcements.
                if self._network.position_of(datagram.address) != self.node.context.position:
                    self._receive(datagram, by_multicast=True)

    def _take_returns(self) -> None:
        for address in self._transport.sock.returned():
            position = self._network.position_of(address)
            if position is not None:
                self.feed(Unreachable(position))

    def _receive(self, datagram: Datagram, *, by_multicast: bool = False) -> None:
        content = self._transport.open(datagram, by_multicast=by_multicast)
        if content is None:
            return
        now, peer = trio.current_time(), datagram.address
        arrival = self._receiver.receive(peer, content, now, by_multicast=by_multicast)
        if arrival.answer_versions:
            self._transport.send_versions(peer, datagram.port)
        if arrival.message is None:
            self._transport.drop(arrival.dropped, datagram)
            if arrival.is_unreadable:
                self.feed(Unreadable(peer, content[1]))
            return
        message, kind = arrival.message, kind_of(arrival.message)
        self._counters.messages_received[kind] += 1
        self._counters.bytes_received[kind] += len(datagram.data)
        if logger.isEnabledFor(logging.DEBUG):
            log_message("received", "from", message, peer)
        if not arrival.is_for_core:
            return
        received = Received(self._network.position_of(peer), peer, message)
        event = self._probing.receive(received, datagram) if isinstance(message, Probe | Pong) else received
        if event is not None:
            self.feed(event, datagram)

    def _carry_out(self, action: Action, sender: Datagram | None) -> None:
        match action:
            case Send():
                self._transport.send(action.message, self._network.address_text_of(action.target))
            case Reply():
                assert sender is not None, "a reply to an event that came from no datagram"
                self._transport.send(action.message, sender.address, sender.port)
            case Publish():
                self._transport.publish(action.message)
            case Measure():
                self._probing.measure(action.target, action.number)
            case RoundTrip():
                self._counters.round_trip.observe(action.seconds)
            case Dropped():
                self._counters.dropped[action.reason] += 1
                if action.reason in FALSE_REPORTS and sender is not None:
                    self._counters.problems.note("dropped", action.reason, sender.address)
            case _:
                self._count(action)
                self._observe(action)

    def _count(self, notice: Notice) -> None:
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self._counters.detection.observe(notice.silence_s)
        elif isinstance(notice, Healed):
            self._counters.healing.observe(notice.after_s)
