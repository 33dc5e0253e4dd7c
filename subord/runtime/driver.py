"""Sockets around the core: what arrives is fed in, what comes out is carried out, and one alarm rings.

Intuition: a secretary. Letters are opened and laid on the desk one by one, answers are posted, and an alarm
clock is set to the one time that the boss names. Nothing happens while the boss thinks: `feed` is
synchronous, so no other task can step in between.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NoReturn

import trio

from subord.core.admission import Admission
from subord.core.events import (
    FAILURES,
    Action,
    Dropped,
    EdgeClosed,
    Event,
    Healed,
    LeaderLost,
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
from subord.core.messages import Announce, Message
from subord.core.node import Node
from subord.runtime.counters import Counters
from subord.runtime.multicast import Group
from subord.runtime.udp import Datagram, UdpSocket
from subord.wire import VERSIONS_DATAGRAM, Fault, decode, encode

VERSION_ANSWERS_PER_S = 5.0  # to datagrams of unknown versions: nobody may use us as an echo


class Driver:
    """Runs one node on one socket. `observe` is told every notice that is not merely counted."""

    def __init__(
        self,
        node: Node,
        sock: UdpSocket,
        port: int,
        counters: Counters,
        observe: Callable[[Notice], None],
        *,
        group: Group | None = None,
    ) -> None:
        """`group`: where everybody on the wire is told and heard; None: nobody is."""
        self.node = node
        self._socket = sock
        self._port = port
        self._counters = counters
        self._observe = observe
        self._group = group
        self._network = node.context.settings.network
        self._alarm = trio.CancelScope(deadline=inf)
        self._version_answers = Admission(VERSION_ANSWERS_PER_S, trio.current_time())

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._receive_forever)
            nursery.start_soon(self._wake_forever)
            if self._group is not None:
                nursery.start_soon(self._hear_forever, self._group)

    def feed(self, event: Event, sender: Datagram | None = None) -> None:
        """Give the core one event and carry out what it asks for."""
        for action in self.node.handle(event, trio.current_time()):
            self._carry_out(action, sender)
        self._alarm.deadline = self.node.deadline

    def edge_closed(self, address: str) -> None:
        """A stream along a tree edge ended."""
        position = self._network.position_of(address)
        if position is not None:
            self.feed(EdgeClosed(position))

    async def _wake_forever(self) -> NoReturn:
        while True:
            with trio.CancelScope(deadline=self.node.deadline) as self._alarm:
                await trio.sleep_forever()
            late_s = trio.current_time() - self.node.deadline
            if late_s >= 0:
                self._counters.loop_lag.observe(late_s)
                self.feed(Wakeup())

    async def _receive_forever(self) -> NoReturn:
        while True:
            await self._socket.wait()
            for datagram in self._socket.received():
                self._receive(datagram)
            if self._socket.has_returns:
                self._take_returns()

    async def _hear_forever(self, group: Group) -> NoReturn:
        while True:
            await group.wait()
            for datagram in group.received():
                if (
                    self._network.position_of(datagram.address) != self.node.context.position
                ):  # we hear ourselves, too
                    self._receive(datagram, by_multicast=True)

    def _take_returns(self) -> None:
        for address in self._socket.returned():
            position = self._network.position_of(address)
            if position is not None:
                self.feed(Unreachable(position))

    def _receive(self, datagram: Datagram, *, by_multicast: bool = False) -> None:
        message = decode(datagram.data)
        if isinstance(message, Fault):
            self._drop(message, datagram, by_multicast)
            return
        # One datagram to a group must not make all its members do something that only one was asked for.
        if isinstance(message, Announce) != by_multicast:
            self._counters.dropped["not_for_multicast" if by_multicast else "announce_by_unicast"] += 1
            return
        kind = kind_of(message)
        self._counters.messages_received[kind] += 1
        self._counters.bytes_received[kind] += len(datagram.data)
        position = self._network.position_of(datagram.address)
        self.feed(Received(position, datagram.address, message), datagram)

    def _drop(self, fault: Fault, datagram: Datagram, by_multicast: bool) -> None:
        self._counters.dropped[fault.value] += 1
        if fault is not Fault.VERSION or by_multicast:  # one datagram to a group would be answered by all its members
            return
        if self._version_answers.admit(trio.current_time()):
            self._socket.send(VERSIONS_DATAGRAM, datagram.address, datagram.port)
            self.feed(Unreadable(datagram.address, datagram.data[1]))

    def _carry_out(self, action: Action, sender: Datagram | None) -> None:
        match action:
            case Send():
                self._send(action.message, self._network.address_text_of(action.target), self._port)
            case Reply():
                assert sender is not None, "a reply to an event that came from no datagram"
                self._send(action.message, sender.address, sender.port)
            case Publish():
                if self._group is not None:
                    self._send(action.message, self._group.address, self._port)
            case RoundTrip():
                self._counters.round_trip.observe(action.seconds)
            case Dropped():
                self._counters.dropped[action.reason] += 1
            case _:
                self._measure(action)
                self._observe(action)

    def _measure(self, notice: Notice) -> None:
        if isinstance(notice, LeaderLost) and notice.cause in FAILURES:
            self._counters.detection.observe(notice.silence_s)
        elif isinstance(notice, Healed):
            self._counters.healing.observe(notice.after_s)

    def _send(self, message: Message, address: str, port: int) -> None:
        data = encode(message)
        kind = kind_of(message)
        self._counters.messages_sent[kind] += 1
        self._counters.bytes_sent[kind] += len(data)
        self._socket.send(data, address, port)


def kind_of(message: Message) -> str:
    """The name under which a message is counted."""
    return type(message).__name__.lower()
