"""Whether anything in a recording can be read without the key.

It cannot be proven that nothing can. A finding is a datagram that the key does not open, a stream that is not TLS
from its first byte on, or a word in the clear that must have been sent.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from netlab.attack.frames import SYN, TCP, UDP, Packet, parsed
from netlab.attack.recorder import SEALED


class Finding(NamedTuple):
    """At which frame of the recording, between which ends, and what is wrong."""

    frame: int
    between: str
    why: str

    def __str__(self) -> str:
        return f"frame {self.frame}, {self.between}: {self.why}"


def known_words(addresses: Iterable[str], secret: bytes) -> list[bytes]:
    """What is surely sent, as it would stand on the wire: addresses and topics as MessagePack, and the key."""
    texts = (*addresses, "roster", "edge", "status")
    return [*map(msgspec.msgpack.encode, texts), secret, base64.b64encode(secret)]


def findings(frames: Iterable[bytes], words: Iterable[bytes], secret: bytes) -> list[Finding]:
    """Datagrams that `secret` does not open, streams that are not TLS from their first byte on, any of `words`."""
    wanted, packets = list(words), list(_packets(frames))
    found = [
        Finding(number, _between(packet), why)
        for number, packet in packets
        if packet.protocol == UDP and (why := _not_sealed(packet, secret) or _in_clear((packet.payload,), wanted))
    ]
    for stream in _streams(packets):
        runs = stream.runs()
        why = _in_clear((run for _, run in runs), wanted)
        if not why and stream.is_begun:
            why = _not_tls(runs[0][1])
        if why:
            found.append(Finding(stream.frame, stream.between, why))
    return sorted(found)


def handshakes(frames: Iterable[bytes]) -> int:
    """Streams of which both sides were recorded from their first byte on."""
    return sum(stream.is_begun for stream in _streams(_packets(frames))) // 2


def senders(frames: Iterable[bytes]) -> set[str]:
    """The addresses of all that sent a datagram."""
    return {str(ipaddress.ip_address(packet.source)) for _, packet in _packets(frames) if packet.protocol == UDP}


def _packets(frames: Iterable[bytes]) -> Iterator[tuple[int, Packet]]:
    for number, frame in enumerate(frames):
        if (packet := parsed(frame)) is not None:
            yield number, packet


@dataclass
class _Stream:
    """One direction of a connection. `begin`: the sequence number of its first byte, if that was recorded."""

    frame: int
    between: str
    begin: int | None
    first: int
    pieces: dict[int, bytes] = field(default_factory=dict)

    @property
    def is_begun(self) -> bool:
        """Whether it was recorded from its first byte on, and is not empty."""
        return self.begin is not None and min(self.pieces, default=None) == 0

    def add(self, packet: Packet) -> None:
        at = (packet.number - self.first + (1 << 31)) % (1 << 32) - (1 << 31)  # numbers wrap around
        if len(packet.payload) > len(self.pieces.get(at, b"")):
            self.pieces[at] = packet.payload

    def runs(self) -> list[tuple[int, bytes]]:
        """What was recorded without a gap, and where it begins."""
        found: list[tuple[int, bytearray]] = []
        for at, piece in sorted(self.pieces.items()):
            end = found[-1][0] + len(found[-1][1]) if found else -(1 << 32)
            if at > end:
                found.append((at, bytearray(piece)))
            else:
                found[-1][1].extend(piece[end - at :])
        return [(at, bytes(run)) for at, run in found]


def _streams(packets: Iterable[tuple[int, Packet]]) -> list[_Stream]:
    found: list[_Stream] = []
    now: dict[tuple[bytes, int, bytes, int], _Stream] = {}
    for number, packet in packets:
        if packet.protocol != TCP:
            continue
        ends = packet.source, packet.source_port, packet.target, packet.target_port
        begins, stream = bool(packet.flags & SYN), now.get(ends)
        first = (packet.number + begins) % (1 << 32)
        if stream is None or (begins and stream.begin != first):  # else the SYN is sent again
            stream = now[ends] = _Stream(number, _between(packet), first if begins else None, first)
            found.append(stream)
        if packet.payload:
            stream.add(packet)
    return found


def _not_sealed(packet: Packet, secret: bytes) -> str:
    """What the tag of AES-GCM fits is sealed; so a datagram that only looks sealed is found."""
    from cryptography.exceptions import InvalidTag  # here, because each start of the lab would pay for it
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from subord.sealing.header import HEADER_BYTES, OVERHEAD_BYTES, endpoint, unpack
    from subord.sealing.keys import INFO_DATAGRAM, derive

    payload = packet.payload
    header = unpack(payload) if payload.startswith(SEALED) and len(payload) >= OVERHEAD_BYTES else None
    if header is None:
        return f"a datagram that begins with {payload[:4].hex() or 'nothing'}"
    source, target = (
        endpoint(str(ipaddress.ip_address(address)), port)
        for address, port in ((packet.source, packet.source_port), (packet.target, packet.target_port))
    )
    ring = AESGCM(derive(secret, INFO_DATAGRAM + source + header.boot.to_bytes(8, "big")))
    try:
        clear = payload[:HEADER_BYTES] + source + target
        ring.decrypt(bytes(4) + header.number.to_bytes(8, "big"), payload[HEADER_BYTES:], clear)
    except InvalidTag:
        return "a datagram that looks sealed, and is not"
    return ""


def _not_tls(data: bytes) -> str:
    """Records of TLS from the first byte on: first one of a handshake, or an alert of two bytes (RFC 8446, 5.1)."""
    at = 0
    while at + 5 <= len(data):
        kind, version, length = data[at], data[at + 1 : at + 3], int.from_bytes(data[at + 3 : at + 5], "big")
        first = kind == 22 or (kind == 21 and length == 2)
        if not 20 <= kind <= 23 or version not in (b"\3\1", b"\3\3") or length > (1 << 14) + 256 or not (at or first):
            return f"a stream that is not TLS at byte {at}: {data[at : at + 5].hex()}"
        at += 5 + length
    if at == 0 and not b"\x16\3".startswith(data[:2]) and not b"\x15\3".startswith(data[:2]):
        return f"a stream that is not TLS: {data.hex()}"
    return ""


def _in_clear(pieces: Iterable[bytes], words: list[bytes]) -> str:
    for piece in pieces:
        for word in words:
            if word in piece:
                return f"the word {word!r} in the clear"
    return ""


def _between(packet: Packet) -> str:
    ends = [(packet.source, packet.source_port), (packet.target, packet.target_port)]
    source, target = (f"{ipaddress.ip_address(address)} port {port}" for address, port in ends)
    return f"{'TCP' if packet.protocol == TCP else 'UDP'} from {source} to {target}"
