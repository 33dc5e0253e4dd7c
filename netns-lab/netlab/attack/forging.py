"""Recorded datagrams changed in every way that somebody without the key can think of.

Intuition: a forger who has a sack of genuine letters but no seal. He scratches at them, cuts them, adds to them,
changes name and number on the outside, sends them to somebody else or back to where they came from; and when nothing
helps, he writes letters of his own and hopes that nobody looks for a seal.

Pure: the same chance makes the same forgeries.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from netlab.attack.frames import Packet
from netlab.processes.options import Options
from netlab.topology.layout import hardware_address, network_of

PORT = 7117
PAYLOAD_BYTES_MAX = 1452  # of a datagram in one Ethernet frame, also over IPv6
SEALED_BYTES_MAX = 1232
KEY_AT, BOOT_AT, NUMBER_AT, TICKET_AT, SEALED_AT = 4, 8, 16, 24, 32  # subord/sealing/header.py
BOOT_MAX = 1 << 62


class Forger:
    """Makes one forgery after another from genuine `letters`. `own`: the intruder's address."""

    def __init__(self, letters: Sequence[Packet], own: str, options: Options, seed: str) -> None:
        self._letters = letters
        self._own = own
        self._options = options
        self._chance = random.Random(seed)
        self._others = [address for address in options.addresses if address != own]
        self.ways: dict[str, Callable[[Packet], Packet]] = {
            "flipped": self._flipped,
            "truncated": self._truncated,
            "oversized": self._oversized,
            "other_boot": self._other_boot,
            "other_number": self._other_number,
            "other_ticket": self._other_ticket,
            "unknown_key": self._unknown_key,
            "redirected": self._redirected,
            "reflected": self._reflected,
            "stranger": self._of_a_stranger,
            "clear": self._in_the_clear,
        }
        self._names = list(self.ways)
        life = max(int.from_bytes(letter.payload[BOOT_AT:NUMBER_AT], "big") for letter in letters)
        self._clear = _clear_words(options, own, life, self._chance)

    def forge(self) -> tuple[str, Packet]:
        """In which way, and what came of it."""
        way = self._chance.choice(self._names)
        return way, self.ways[way](self._chance.choice(self._letters))

    def _flipped(self, letter: Packet) -> Packet:
        payload = bytearray(letter.payload)
        for _ in range(self._chance.randint(1, 4)):
            payload[self._chance.randrange(len(payload))] ^= self._chance.randint(1, 255)
        return letter._replace(payload=bytes(payload))

    def _truncated(self, letter: Packet) -> Packet:
        return letter._replace(payload=letter.payload[: self._chance.randrange(len(letter.payload))])

    def _oversized(self, letter: Packet) -> Packet:
        length = self._chance.randint(SEALED_BYTES_MAX + 1, PAYLOAD_BYTES_MAX)
        return letter._replace(payload=letter.payload + self._chance.randbytes(length - len(letter.payload)))

    def _other_boot(self, letter: Packet) -> Packet:
        """The life before, the next one, or any."""
        boot = int.from_bytes(letter.payload[BOOT_AT:NUMBER_AT], "big")
        other = self._chance.choice((boot - 1, boot + 1, self._chance.randrange(BOOT_MAX)))
        return _with(letter, BOOT_AT, (other % (1 << 64)).to_bytes(8, "big"))

    def _other_number(self, letter: Packet) -> Packet:
        number = int.from_bytes(letter.payload[NUMBER_AT:TICKET_AT], "big") + self._chance.randint(1, 1000)
        return _with(letter, NUMBER_AT, (number % (1 << 64)).to_bytes(8, "big"))

    def _other_ticket(self, letter: Packet) -> Packet:
        """None at all, or a made-up one."""
        return _with(letter, TICKET_AT, self._chance.choice((bytes(8), self._chance.randbytes(8))))

    def _unknown_key(self, letter: Packet) -> Packet:
        return _with(letter, KEY_AT, self._chance.randbytes(4))

    def _redirected(self, letter: Packet) -> Packet:
        return self._to(letter, self._another(letter.target))

    def _reflected(self, letter: Packet) -> Packet:
        """Back to its sender, as though from its receiver."""
        back = letter._replace(source=letter.target, source_port=letter.target_port, target_port=letter.source_port)
        return self._to(back, _text(letter.source))

    def _of_a_stranger(self, letter: Packet) -> Packet:
        """In the name of anybody in the network: the receiver has no seal ring ready for that one."""
        numbers = network_of(self._options.network)
        return letter._replace(source=_packed(numbers.address_text_of(self._chance.randint(1, numbers.size))))

    def _in_the_clear(self, letter: Packet) -> Packet:
        """Words of version 1 that claim a tree: in our own name, or in that of somebody known to the receiver."""
        said = self._chance.choice(self._clear)()
        if self._chance.random() < 0.5:
            return letter._replace(payload=said)
        own = letter._replace(source=_packed(self._own), source_port=PORT, payload=said)
        return self._to(own, self._another(own.source))

    def _another(self, other_than: bytes) -> str:
        return self._chance.choice([each for each in self._others if _packed(each) != other_than])

    @staticmethod
    def _to(letter: Packet, address: str) -> Packet:
        return letter._replace(target=_packed(address), target_mac=hardware_address(address))


def _clear_words(options: Options, own: str, life: int, chance: random.Random) -> list[Callable[[], bytes]]:
    """What would turn a tree over that believes everybody: proposals, and everything that a root may say."""
    from subord.core import messages as say
    from subord.core.network import Network
    from subord.core.settings import Settings
    from subord.wire import encode

    settings = Settings(
        network=Network.parse(options.network),
        fanout=options.fanout,
        guest_slots=options.fanout if options.guest_slots is None else options.guest_slots,
        numbering_name=cast(Any, options.numbering),
        timing_name=cast(Any, options.timing),
    )
    terms = say.Terms.of(settings)
    root = settings.network.position_of(own) or 1
    guidance = say.Guidance(1, (root,), (), (), False)

    def number() -> int:
        return chance.getrandbits(32)

    return [
        lambda: encode(say.Propose(life, number(), terms, say.Wish.HOME)),
        lambda: encode(say.Accept(life, number(), guidance)),
        lambda: encode(say.Advice(life, number(), True, root, (root,), 0)),
        lambda: encode(say.Back(life, root)),
        lambda: encode(say.Meet(life, root)),
        lambda: encode(say.Announce(life, terms)),
        lambda: encode(say.Goodbye(life, say.Why.LEAVING, (root,))),
    ]


def _with(letter: Packet, at: int, field: bytes) -> Packet:
    return letter._replace(payload=letter.payload[:at] + field + letter.payload[at + len(field) :])


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _text(packed: bytes) -> str:
    return str(ipaddress.ip_address(packed))
