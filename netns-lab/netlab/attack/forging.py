"""Recorded datagrams changed without the key: content, length, header, sender and target; and unsealed ones.

Pure: the same seed makes the same forgeries.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from netlab.attack.frames import Packet
from netlab.processes.options import Options
from netlab.topology.addresses import hardware_address, network_of, packed

PORT = 7117
PAYLOAD_BYTES_MAX = 1452  # of a datagram in one Ethernet frame, also over IPv6
SEALED_BYTES_MAX = 1232
KEY_AT, BOOT_AT, NUMBER_AT, TICKET_AT, SEALED_AT = 4, 8, 16, 24, 32  # subord/sealing/header.py
BOOT_MAX = 1 << 62


class Forger:
    """Makes one forgery after another from genuine `datagrams`. `own`: the intruder's address."""

    def __init__(self, datagrams: Sequence[Packet], own: str, options: Options, seed: str) -> None:
        self._datagrams = datagrams
        self._own = own
        self._options = options
        self._chance = random.Random(seed)
        self._others = [address for address in options.addresses if address != own]
        self.ways: dict[str, Callable[[Packet], Packet]] = {
            "flipped": self._flipped,
            "truncated": self._truncated,
            "oversized": self._oversized,
            "other_boot": lambda datagram: self._counted(
                datagram, BOOT_AT, (-1, 1, self._chance.randrange(BOOT_MAX))
            ),
            "other_number": lambda datagram: self._counted(datagram, NUMBER_AT, range(1, 1001)),
            "other_ticket": lambda datagram: _with(
                datagram, TICKET_AT, self._chance.choice((bytes(8), self._chance.randbytes(8)))
            ),
            "unknown_key": lambda datagram: _with(datagram, KEY_AT, self._chance.randbytes(4)),
            "redirected": self._redirected,
            "reflected": self._reflected,
            "stranger": self._of_a_stranger,
            "clear": self._in_the_clear,
        }
        self._names = list(self.ways)
        boot = max(int.from_bytes(datagram.payload[BOOT_AT:NUMBER_AT], "big") for datagram in datagrams)
        self._unsealed = _unsealed_messages(options, own, boot, self._chance)

    def forge(self) -> tuple[str, Packet]:
        """(way, forged datagram)."""
        way = self._chance.choice(self._names)
        return way, self.ways[way](self._chance.choice(self._datagrams))

    def _flipped(self, datagram: Packet) -> Packet:
        payload = bytearray(datagram.payload)
        for _ in range(self._chance.randint(1, 4)):
            payload[self._chance.randrange(len(payload))] ^= self._chance.randint(1, 255)
        return datagram._replace(payload=bytes(payload))

    def _truncated(self, datagram: Packet) -> Packet:
        return datagram._replace(payload=datagram.payload[: self._chance.randrange(len(datagram.payload))])

    def _oversized(self, datagram: Packet) -> Packet:
        length = self._chance.randint(SEALED_BYTES_MAX + 1, PAYLOAD_BYTES_MAX)
        return datagram._replace(payload=datagram.payload + self._chance.randbytes(length - len(datagram.payload)))

    def _counted(self, datagram: Packet, at: int, steps: Sequence[int]) -> Packet:
        """With one of the eight-byte numbers of its header further on, or back."""
        number = int.from_bytes(datagram.payload[at : at + 8], "big") + self._chance.choice(steps)
        return _with(datagram, at, (number % (1 << 64)).to_bytes(8, "big"))

    def _redirected(self, datagram: Packet) -> Packet:
        return self._to(datagram, self._another(datagram.target))

    def _reflected(self, datagram: Packet) -> Packet:
        """To its sender, as though from its receiver."""
        back = datagram._replace(
            source=datagram.target, source_port=datagram.target_port, target_port=datagram.source_port
        )
        return self._to(back, str(ipaddress.ip_address(datagram.source)))

    def _of_a_stranger(self, datagram: Packet) -> Packet:
        """From any address in the network: the receiver has no keys ready for that one."""
        numbers = network_of(self._options.network)
        return datagram._replace(source=packed(numbers.address_text_of(self._chance.randint(1, numbers.size))))

    def _in_the_clear(self, datagram: Packet) -> Packet:
        """An unsealed message, from the intruder's address, or from one that the receiver knows."""
        message = self._chance.choice(self._unsealed)()
        if self._chance.random() < 0.5:
            return datagram._replace(payload=message)
        own = datagram._replace(source=packed(self._own), source_port=PORT, payload=message)
        return self._to(own, self._another(own.source))

    def _another(self, other_than: bytes) -> str:
        return self._chance.choice([each for each in self._others if packed(each) != other_than])

    @staticmethod
    def _to(datagram: Packet, address: str) -> Packet:
        return datagram._replace(target=packed(address), target_mac=hardware_address(address))


def _unsealed_messages(options: Options, own: str, boot: int, chance: random.Random) -> list[Callable[[], bytes]]:
    """Proposals, and everything that a root may say: an unsealed tree would follow them."""
    from subord.core import messages as say
    from subord.core.address.network import Network
    from subord.core.settings import Settings
    from subord.wire.codec import encode

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
        lambda: encode(say.Propose(boot, number(), terms, say.Wish.HOME)),
        lambda: encode(say.Accept(boot, number(), guidance)),
        lambda: encode(say.Advice(boot, number(), True, root, (root,), 0)),
        lambda: encode(say.Back(boot, root)),
        lambda: encode(say.Meet(boot, root)),
        lambda: encode(say.Announce(boot, terms)),
        lambda: encode(say.Goodbye(boot, say.Why.LEAVING, (root,))),
    ]


def _with(datagram: Packet, at: int, field: bytes) -> Packet:
    return datagram._replace(payload=datagram.payload[:at] + field + datagram.payload[at + len(field) :])
