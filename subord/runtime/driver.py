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
from subord.core.messages import Announce, Pong, Probe, Versions
from subord.core.node import Node
from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.counters import Counters
from subord.runtime.net.multicast import Group
from subord.runtime.net.probing import Probing
from subord.runtime.net.transport import Transport, kind_of, log_message
from subord.runtime.net.udp import Datagram
from subord.wire.codec import Fault

logger = logging.getLogger("subord")

VERSION_ANSWERS_PER_S = 100.0  # to datagrams of unknown or lower versions, against use as a reflector
UNREADABLE_PER_S = 5.0  # datagrams of unknown versions that are reported to the core


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
        self._version_answers = TokenBucket(VERSION_ANSWERS_PER_S, trio.current_time())
        self._unreadable = TokenBucket(UNREADABLE_PER_S, trio.current_time())
        self._probing = Probing(node.context, transport, counters)
        if node.context.settings.mapping == "latency":
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
        return {"probes_out": len(self._probing), "wire_versions": len(self._transport.peer_versions)}

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
        message = self._transport.wire.decode(content)
        if isinstance(message, Fault):
            self._drop(message, content, datagram, by_multicast)
            return
        # Only announcements may come by multicast: one datagram must not make every node of the link act.
        if isinstance(message, Announce) != by_multicast:
            self._counters.dropped["not_for_multicast" if by_multicast else "announce_by_unicast"] += 1
            return
        kind = kind_of(message)
        self._counters.messages_received[kind] += 1
        self._counters.bytes_received[kind] += len(datagram.data)
        if logger.isEnabledFor(logging.DEBUG):
            log_message("received", "from", message, datagram.address)
        position = self._network.position_of(datagram.address)
        event = Received(position, datagram.address, message)
        if isinstance(message, Versions):
            if not self._transport.peer_versions.told(datagram.address, message.spoken, trio.current_time()):
                self.feed(event, datagram)  # no common version: the core reports it
            return
        if not by_multicast and self._transport.peer_versions.heard(
            datagram.address, content[1], trio.current_time()
        ):
            self._tell_versions(datagram)
        if isinstance(message, Probe | Pong):
            measured = self._probing.receive(event, datagram)
            if measured is not None:
                self.feed(measured)
            return
        self.feed(event, datagram)

    def _drop(self, fault: Fault, content: bytes, datagram: Datagram, by_multicast: bool) -> None:
        self._transport.drop(fault.value, datagram)
        if fault is not Fault.VERSION or by_multicast:  # every node of the link would answer one multicast datagram
            return
        self._tell_versions(datagram)
        if self._unreadable.admit(trio.current_time()):
            self.feed(Unreadable(datagram.address, content[1]))

    def _tell_versions(self, datagram: Datagram) -> None:
        if self._version_answers.admit(trio.current_time()):
            self._transport.send_versions(datagram.address, datagram.port)

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
                    self._counters.lately.note("dropped", action.reason, sender.address)
            case _:
                self._count(action)
                self._observe(action)

    def _count(self, notice: Notice) -> None:
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self._counters.detection.observe(notice.silence_s)
        elif isinstance(notice, Healed):
            self._counters.healing.observe(notice.after_s)
