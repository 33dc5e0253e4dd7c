"""How far away are they? One short question, one short answer, and two postmarks.

Intuition: a shout into a valley, and a stopwatch. What counts is when the echo comes back, not when we find the time
to listen, so the kernel's postmarks stop the watch; and whoever answers says how long the question lay on its desk,
which is taken off.

    ours    sent ->                                   -> arrived      whole = arrived - sent
    theirs          arrived -> ... held ... -> answer                 round trip = whole - held

Both differences are taken by one clock each, so the clocks need not agree; an exchange during which ours was set is
thrown away. What is left of our own doings in the figure is giving a probe to the kernel here and sealing the answer
there, some tens of microseconds; and for the first word to a neighbour the ARP exchange of the two kernels. Whoever
wants better figures takes the least of some.

Every probe has a number by chance of its own, which only its receiver learns. If that one does not know us yet, it
asks us to say all again with its ticket (sealing/): then a fresh probe goes out with another number and its own time,
once, and the time of the first contact is not part of any figure.
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
from subord.core.state.view import Position
from subord.runtime.counters import Counters
from subord.runtime.net.transport import Transport
from subord.runtime.net.udp import Datagram

ANSWERS_PER_S = 500.0  # nobody may use us as an echo
OUT_MAX = 256
ROUND_TRIP_NS_MAX = 10_000_000_000
NUMBER_BITS = 62
HELD_US_MAX = (1 << 32) - 1
CLOCK_STEP_NS = 200_000  # by which two clocks of this machine may differ about one exchange


class _Out(NamedTuple):
    """A probe without answer, sent at one moment by two clocks: postmarks are of the wall's."""

    target: Position
    number: int  # by which the core knows it
    sent_wall_ns: int
    sent_steady_ns: int
    is_second: bool


class Probing:
    """Asks and answers for one node. Probes that are out are forgotten after ROUND_TRIP_NS_MAX."""

    def __init__(self, context: Context, mail: Transport, counters: Counters) -> None:
        self._context = context
        self._network = context.settings.network
        self._mail = mail
        self._counters = counters
        self._answers = TokenBucket(ANSWERS_PER_S, trio.current_time())
        self._chance = SystemRandom()
        self._out: OrderedDict[int, _Out] = OrderedDict()  # by the number on the wire, oldest first
        mail.on_asked_again = self._say_again

    def __len__(self) -> int:
        """How many probes are out."""
        return len(self._out)

    # -- asking -------------------------------------------------------------------------------------------

    def measure(self, target: Position, number: int) -> None:
        """Send a probe; perhaps it is answered."""
        self._send(target, number, is_second=False)

    def _send(self, target: Position, number: int, *, is_second: bool) -> None:
        self._forget(time.monotonic_ns())
        wire_number = self._chance.getrandbits(NUMBER_BITS)
        probe = Probe(self._context.incarnation, wire_number)
        wall_ns, steady_ns = self._mail.send_timed(probe, self._network.address_text_of(target))
        self._out[wire_number] = _Out(target, number, wall_ns, steady_ns, is_second)

    def _forget(self, now_ns: int) -> None:
        """What will not be answered any more, and what there is no room for."""
        while self._out:
            oldest = next(iter(self._out.values()))
            is_over = now_ns - oldest.sent_steady_ns > ROUND_TRIP_NS_MAX
            if not is_over and len(self._out) < OUT_MAX:
                return
            self._out.popitem(last=False)
            self._counters.dropped["probe_crowded_out"] += not is_over

    def _say_again(self, address: str) -> None:
        """Our first words there were not believed: once more, timed anew."""
        target = self._network.position_of(address)
        for wire_number, out in list(self._out.items()):
            if out.target == target and not out.is_second and wire_number in self._out:
                del self._out[wire_number]
                self._send(out.target, out.number, is_second=True)

    # -- what arrives -------------------------------------------------------------------------------------

    def receive(self, event: Received, datagram: Datagram) -> Measured | None:
        """Answers a probe; None, or what a pong says."""
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
        self._mail.send(pong, datagram.address, datagram.port)

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
    """None: that cannot be, or is too long to be of use."""
    away_ns = arrived_ns - sent_ns - 1000 * held_us
    return away_ns / 1e9 if 0 < away_ns <= ROUND_TRIP_NS_MAX else None


def was_set(wall_ns: int, steady_ns: int) -> bool:
    """Did the wall clock jump? Both say how long ago one moment was."""
    return abs(wall_ns - steady_ns) > CLOCK_STEP_NS
