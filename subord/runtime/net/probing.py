"""Measures round trips by probes and their answers (pongs).

    this node    sent ->                                   -> arrived      whole = arrived - sent
    the peer             arrived -> ... held ... -> answer                 round trip = whole - held

Each difference is taken by one clock, so the clocks of the nodes need not agree; an exchange during which the clock
of this node was set is dropped. Arrivals have the kernel's timestamp. The figure includes handing a probe to the
kernel here and sealing the answer there, some tens of microseconds, and at the first datagram to a neighbour the ARP
exchange.

Every probe has a random number, which only its receiver learns. A receiver that does not know this node yet asks it
to repeat its messages with a ticket (sealing/): then a new probe with its own number and time is sent, once, so the
first contact is not part of any figure.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from random import SystemRandom
from typing import NamedTuple

import trio

from subord.core.events import Measured, Received
from subord.core.ingress import reason_to_drop
from subord.core.messages import Pong, Probe
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.context import Context
from subord.core.view import Position
from subord.runtime.counters import Counters
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import Datagram

ANSWERS_PER_S = 500.0  # against use of this node as a reflector
OUT_MAX = 256
ROUND_TRIP_NS_MAX = 10_000_000_000
NUMBER_BITS = 62
HELD_US_MAX = (1 << 32) - 1
CLOCK_STEP_NS = 200_000  # by which the two clocks of this machine may differ over one exchange


class _Out(NamedTuple):
    """A probe without an answer yet. Both clocks are noted, because arrivals are stamped by the wall clock."""

    target: Position
    number: int  # of the core, not that on the wire
    sent_wall_ns: int
    sent_steady_ns: int
    is_second: bool


class Probing:
    """Sends and answers probes of one node. A probe without an answer is forgotten after ROUND_TRIP_NS_MAX."""

    def __init__(self, context: Context, transport: Transport, counters: Counters) -> None:
        self._context = context
        self._network = context.settings.network
        self._transport = transport
        self._counters = counters
        self._answers = TokenBucket(ANSWERS_PER_S, trio.current_time())
        self._chance = SystemRandom()
        self._out: OrderedDict[int, _Out] = OrderedDict()  # by the number on the wire, oldest first
        transport.on_asked_again = self._repeat

    def __len__(self) -> int:
        """Number of probes without an answer."""
        return len(self._out)

    # -- sending ------------------------------------------------------------------------------------------

    def measure(self, target: Position, number: int) -> None:
        """Send a probe to `target`; `number` comes back with the measurement."""
        self._send(target, number, is_second=False)

    def _send(self, target: Position, number: int, *, is_second: bool) -> None:
        self._forget(time.monotonic_ns())
        wire_number = self._chance.getrandbits(NUMBER_BITS)
        probe = Probe(self._context.incarnation, wire_number)
        wall_ns, steady_ns = self._transport.send_timed(probe, self._network.address_text_of(target))
        self._out[wire_number] = _Out(target, number, wall_ns, steady_ns, is_second)

    def _forget(self, now_ns: int) -> None:
        """Remove expired probes, and the oldest ones beyond OUT_MAX."""
        while self._out:
            oldest = next(iter(self._out.values()))
            is_over = now_ns - oldest.sent_steady_ns > ROUND_TRIP_NS_MAX
            if not is_over and len(self._out) < OUT_MAX:
                return
            self._out.popitem(last=False)
            self._counters.dropped["probe_crowded_out"] += not is_over

    def _repeat(self, address: str) -> None:
        """The peer did not accept the first messages and asked for them again: send each probe again, once."""
        target = self._network.position_of(address)
        for wire_number, out in list(self._out.items()):
            if out.target == target and not out.is_second and wire_number in self._out:
                del self._out[wire_number]
                self._send(out.target, out.number, is_second=True)

    # -- receiving ----------------------------------------------------------------------------------------

    def receive(self, event: Received, datagram: Datagram) -> Measured | None:
        """Answer a probe, or return the measurement of a pong."""
        reason = reason_to_drop(self._context, event)
        if reason is None:
            match event.message:
                case Pong() as pong:
                    return self._measured(event.source, pong, datagram)
                case Probe() as probe if self._answers.admit(trio.current_time()):
                    self._answer(probe, datagram)
                    return None
            reason = "too_many_probes"
        self._counters.dropped[reason] += 1
        return None

    def _answer(self, probe: Probe, datagram: Datagram) -> None:
        held_us = (time.time_ns() - datagram.arrived_ns) // 1000
        pong = Pong(
            self._context.incarnation,
            probe.number,
            min(max(held_us, 0), HELD_US_MAX),
            self._context.performance,
        )
        self._transport.send(pong, datagram.address, datagram.port)

    def _measured(self, source: Position | None, pong: Pong, datagram: Datagram) -> Measured | None:
        out = self._out.get(pong.number)
        if out is None or out.target != source:
            self._counters.dropped["pong_unexpected"] += 1
            return None
        del self._out[pong.number]
        seconds = round_trip_s(out.sent_wall_ns, datagram.arrived_ns, pong.held_us)
        if seconds is None:
            self._counters.dropped["pong_impossible"] += 1
        elif was_set(time.time_ns() - out.sent_wall_ns, time.monotonic_ns() - out.sent_steady_ns):
            self._counters.dropped["clock_was_set"] += 1
        else:
            return Measured(out.target, out.number, seconds, pong.performance)
        return None


def round_trip_s(sent_ns: int, arrived_ns: int, held_us: int) -> float | None:
    """Round trip in seconds; None: not positive, or above ROUND_TRIP_NS_MAX."""
    away_ns = arrived_ns - sent_ns - 1000 * held_us
    return away_ns / 1e9 if 0 < away_ns <= ROUND_TRIP_NS_MAX else None


def was_set(wall_ns: int, steady_ns: int) -> bool:
    """Whether the wall clock was set: the arguments are the age of one moment by the wall and the monotonic clock."""
    return abs(wall_ns - steady_ns) > CLOCK_STEP_NS
