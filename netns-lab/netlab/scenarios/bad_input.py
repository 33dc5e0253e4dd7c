"""Datagrams that no daemon understands: what a broken, old or foreign program might send.

`send` runs inside a node's namespace, started by player.py, and sends from a port of its own, since the daemon of
that host has the other one. The seed decides every byte.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from netlab.errors import LabError
from netlab.processes.enter import say_begun

PORT = 7117
OVERSIZED_BYTES = (1_300, 60_000)
MALFORMED_BYTES = (1, 1_174)  # behind the two bytes that every datagram begins with: 1,176 may be read


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is sent. `per_s` datagrams go to each target; addresses are IPv4."""

    targets: tuple[str, ...]
    what: str
    per_s: float
    for_s: float
    seed: str
    network: str
    fanout: int
    guest_slots: int
    numbering: Literal["complete", "paper"]
    timing: Literal["lan", "wan", "lab"]


def datagrams(order: Order) -> Callable[[], bytes]:
    """Makes one datagram after another."""
    from subord.wire.codec import HEADER, MAGIC, VERSION

    chance = random.Random(order.seed)
    if order.what == "malformed":
        return lambda: HEADER + chance.randbytes(chance.randint(*MALFORMED_BYTES))
    if order.what == "oversized":
        return lambda: HEADER + chance.randbytes(chance.randint(*OVERSIZED_BYTES) - len(HEADER))
    if order.what == "version":
        others = [number for number in range(256) if number != VERSION]
        return lambda: bytes((MAGIC, chance.choice(others))) + chance.randbytes(chance.randint(1, 100))
    return _proposals(order, chance)


def _proposals(order: Order, chance: random.Random) -> Callable[[], bytes]:
    """Proposals of a node that is set to another fan-out, and right in everything else."""
    from subord.core.address.network import Network
    from subord.core.messages import Propose, Terms, Wish
    from subord.core.settings import Settings
    from subord.wire.codec import encode

    other = Settings(
        network=Network.parse(order.network),
        fanout=order.fanout + 1,
        guest_slots=order.guest_slots,
        numbering_name=order.numbering,
        timing_name=order.timing,
    )
    terms, incarnation = Terms.of(other), int(time.time() * 1000)
    return lambda: encode(Propose(incarnation, chance.getrandbits(32), terms, Wish.HOME))


def send(**given: Any) -> dict[str, Any]:
    """Carry out the order; how much was sent. Raises LabError when not one datagram could be sent."""
    order = Order(**given)
    make = datagrams(order)
    say_begun()
    sent: dict[str, Any] = {"sent": 0, "not_sent": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        begin = time.monotonic()
        for number in range(max(1, int(order.per_s * order.for_s))):
            time.sleep(max(0.0, begin + number / order.per_s - time.monotonic()))
            for target in order.targets:
                try:
                    wire.sendto(make(), (target, PORT))
                    sent["sent"] += 1
                except OSError:  # no route, no buffers
                    sent["not_sent"] += 1
    if not sent["sent"]:
        raise LabError("Not one datagram could be sent.")
    return sent
