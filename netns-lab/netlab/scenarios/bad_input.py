"""Datagrams that a node's daemon knows nothing of: what a broken, old or foreign program might send.

Intuition: a stranger at the telephone of the house. The numbers it dials are right; what it says is not.

`babble` runs inside the node's namespace, started by `netns-lab/lab babble` (player.py); it speaks from a port of its
own, since the daemon of that host has the other one.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

PORT = 7117
READY = "babbling"
OVERSIZED_BYTES = (1_300, 60_000)
MALFORMED_BYTES = (1, 1_174)  # behind the two bytes that everybody's datagrams begin with: 1,176 may be read


@dataclass(frozen=True, kw_only=True)
class Speech:
    """What is said to whom. `per_s` datagrams go to each target; addresses are IPv4."""

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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Speech:
        given = json.loads(text)
        return Speech(**{**given, "targets": tuple(given["targets"])})


def datagrams(speech: Speech) -> Callable[[], bytes]:
    """Makes one datagram after another."""
    from subord.wire import HEADER, MAGIC, VERSION

    chance = random.Random(speech.seed)
    if speech.what == "malformed":
        return lambda: HEADER + chance.randbytes(chance.randint(*MALFORMED_BYTES))
    if speech.what == "oversized":
        return lambda: HEADER + chance.randbytes(chance.randint(*OVERSIZED_BYTES) - len(HEADER))
    if speech.what == "version":
        others = [number for number in range(256) if number != VERSION]
        return lambda: bytes((MAGIC, chance.choice(others))) + chance.randbytes(chance.randint(1, 100))
    return _proposals(speech, chance)


def _proposals(speech: Speech, chance: random.Random) -> Callable[[], bytes]:
    """Proposals of a node that is set to another fan-out, and right in everything else."""
    from subord.core.messages import Propose, Terms, Wish
    from subord.core.network import Network
    from subord.core.settings import Settings
    from subord.wire import encode

    theirs = Settings(
        network=Network.parse(speech.network),
        fanout=speech.fanout + 1,
        guest_slots=speech.guest_slots,
        numbering_name=speech.numbering,
        timing_name=speech.timing,
    )
    terms, incarnation = Terms.of(theirs), int(time.time() * 1000)
    return lambda: encode(Propose(incarnation, chance.getrandbits(32), terms, Wish.HOME))


def babble(text: str) -> int:
    """Say it (a Speech as JSON), and how often it was said. 0, or 1 when not one datagram could be sent."""
    speech = Speech.from_json(text)
    make = datagrams(speech)
    print(READY, flush=True)  # whoever started us goes on now
    sent: dict[str, Any] = {"sent": 0, "not_sent": 0}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        begin = time.monotonic()
        for number in range(max(1, int(speech.per_s * speech.for_s))):
            time.sleep(max(0.0, begin + number / speech.per_s - time.monotonic()))
            for target in speech.targets:
                try:
                    wire.sendto(make(), (target, PORT))
                    sent["sent"] += 1
                except OSError:  # no route, no buffers: what a stranger gets to hear
                    sent["not_sent"] += 1
    print(json.dumps(sent), flush=True)
    return 0 if sent["sent"] else 1
