"""The lab's traffic on a tape, and whether anything on it can be understood.

Intuition: a tap on every line of the house, and a listener who knows what is talked about. He cannot prove that
nobody understands; but when he hears one of the words that must have been said, or a line that is not scrambled from
its first syllable on, the scrambler is broken.

`record` runs on the wire (`netns-lab/lab exec wire`) and hears what comes in at every port of the bridges,
so each frame once: UDP and TCP of the cluster's port. A tape is one frame after the other, four bytes of length
before each. Source: packet(7), Documentation/networking/filter.rst.
"""

from __future__ import annotations

import base64
import ctypes
import ipaddress
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from netlab.attack.frames import IPV4, IPV6, SYN, TCP, UDP, Packet, taken_apart
from netlab.topology.packet_ring import Line, program

PORT = 7117
READY = "recording"
SEALED = bytes((0x73, 2))
BUFFER_BYTES = 16 << 20
FRAME_BYTES_MAX = 1 << 17  # segments are as long as the kernel likes, where no real wire follows
READ_AT_ONCE_MAX = 512
_ETH_P_ALL = 3
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE = 26, 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_LENGTH = struct.Struct("!I")

_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE, _LOAD_HALF_BEHIND, _LOAD_HEADER_BYTES = 0x20, 0x28, 0x30, 0x48, 0xB1
_JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x15, 0x45, 0x06
_KIND_OF_PACKET, _INTERFACE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, SKF_AD_IFINDEX
_OUTGOING = 4
_DROP: Line = (_RETURN, 0, 0, 0)
_KEEP: Line = (_RETURN, 0, 0, 0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Where to write, and when to stop though nobody says so."""

    path: str
    frames_max: int = 200_000
    seconds_max: float = 300.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def record(text: str) -> int:
    """Until standard input ends, or a bound of the order (JSON) is reached; what was heard, as JSON."""
    order = Order(**json.loads(text))
    with _tap() as tap, Path(order.path).open("wb") as tape:
        print(READY, flush=True)
        frames, was_asked = _write(tap, tape, order)
        heard = {"frames": frames, "lost": _lost(tap), "cut": not was_asked}
    print(json.dumps(heard), flush=True)
    return 0


def _write(tap: socket.socket, tape: BinaryIO, order: Order) -> tuple[int, bool]:
    """(frames, whether we were asked to end, rather than by a bound)."""
    frames, until, asked_to_end = 0, time.monotonic() + order.seconds_max, False
    while frames < order.frames_max and not asked_to_end and (left := until - time.monotonic()) > 0:
        ready = select.select([tap, sys.stdin], [], [], left)[0]
        asked_to_end = sys.stdin in ready
        for frame in _heard(tap, min(READ_AT_ONCE_MAX, order.frames_max - frames)):
            tape.write(_LENGTH.pack(len(frame)) + frame)
            frames += 1
        tape.flush()  # somebody may look while we write
    return frames, asked_to_end


def _heard(tap: socket.socket, frames_max: int) -> Iterator[bytes]:
    for _ in range(frames_max):
        try:
            yield tap.recv(FRAME_BYTES_MAX)
        except BlockingIOError:
            return


def _tap() -> socket.socket:
    """Raises OSError."""
    bridges = [index for index, name in socket.if_nameindex() if name.startswith("br")]
    lines = heard_lines(bridges)
    code = ctypes.create_string_buffer(program(lines))
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))  # of all interfaces, from now on
    tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(lines), ctypes.addressof(code)))
    try:
        tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, BUFFER_BYTES)
    except OSError:  # without rights outside of the lab: as much as everybody gets
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    tap.setblocking(False)
    for _ in _heard(tap, BUFFER_BYTES):  # that came before the filter
        pass
    return tap


def heard_lines(bridges: Iterable[int]) -> list[Line]:
    """Filter: what comes in, not by a bridge itself (it only passes on), UDP or TCP, from or to the port."""
    lines: list[Line] = [(_LOAD_BYTE, 0, 0, _KIND_OF_PACKET), (_JUMP_EQUAL, 0, 1, _OUTGOING), _DROP]
    lines += [(_LOAD_WORD, 0, 0, _INTERFACE)]
    for bridge in bridges:
        lines += [(_JUMP_EQUAL, 0, 1, bridge), _DROP]
    either = ((_JUMP_EQUAL, 2, 0, UDP), (_JUMP_EQUAL, 1, 0, TCP), _DROP)
    begins = ((_LOAD_HALF, 0, 0, 20), (_JUMP_ANY_BIT, 0, 1, 0x1FFF), _DROP)  # later fragments have no ports
    header = (_LOAD_HEADER_BYTES, 0, 0, 14)
    v4 = ((_LOAD_BYTE, 0, 0, 23), *either, *begins, header, *_of_port(_LOAD_HALF_BEHIND, 14))
    v6 = ((_LOAD_BYTE, 0, 0, 20), *either, *_of_port(_LOAD_HALF, 54))
    lines += [(_LOAD_HALF, 0, 0, 12), (_JUMP_EQUAL, 0, len(v4), IPV4), *v4]
    return [*lines, (_JUMP_EQUAL, 1, 0, IPV6), _DROP, *v6]


def _of_port(load: int, at: int) -> tuple[Line, ...]:
    """Source or target, which stand one after the other at `at`."""
    source = ((load, 0, 0, at), (_JUMP_EQUAL, 3, 0, PORT))
    return (*source, (load, 0, 0, at + 2), (_JUMP_EQUAL, 1, 0, PORT), _DROP, _KEEP)


def _lost(tap: socket.socket) -> int:
    """For which there was no room."""
    lost: int = struct.unpack("=II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
    return lost


def read(path: Path) -> list[bytes]:
    """The frames of a tape; one that is being written ends with its last whole frame."""
    data, frames, at = path.read_bytes(), [], 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length <= len(data):
            frames.append(data[at : at + length])
        at += length
    return frames


# -- what can be understood --------------------------------------------------------------------------------


class Finding(NamedTuple):
    """What a listener could make use of: at which frame of the tape, who said it to whom, and what is wrong."""

    frame: int
    between: str
    why: str

    def __str__(self) -> str:
        return f"frame {self.frame}, {self.between}: {self.why}"


def known_words(addresses: Iterable[str], secret: bytes) -> list[bytes]:
    """What is surely said, as it would stand on the wire: addresses and topics as MessagePack, and the key."""
    texts = (*addresses, "roster", "edge", "status")
    return [*map(msgspec.msgpack.encode, texts), secret, base64.b64encode(secret)]


def plain(frames: Iterable[bytes], words: Iterable[bytes], secret: bytes) -> list[Finding]:
    """Datagrams that `secret` does not open, streams that are not TLS from their first byte on, any of `words`."""
    wanted, found, streams = list(words), [], _Streams()
    for number, frame in enumerate(frames):
        packet = taken_apart(frame)
        if packet is None:
            continue
        if packet.protocol == TCP:
            streams.add(number, packet)
        elif why := _not_sealed(packet, secret) or _spoken((packet.payload,), wanted):
            found.append(Finding(number, _between(packet), why))
    return sorted([*found, *streams.findings(wanted)])


def handshakes(frames: Iterable[bytes]) -> int:
    """Streams whose two sides were both heard from their first byte on: what `plain` can judge best."""
    streams = _Streams()
    for number, frame in enumerate(frames):
        packet = taken_apart(frame)
        if packet is not None and packet.protocol == TCP:
            streams.add(number, packet)
    return streams.begun // 2


def speakers(frames: Iterable[bytes]) -> set[str]:
    """The addresses of all who sent a datagram."""
    packets = map(taken_apart, frames)
    return {str(ipaddress.ip_address(packet.source)) for packet in packets if packet and packet.protocol == UDP}


@dataclass
class _Stream:
    """One direction of a connection. `begin`: the sequence number of its first byte, if that was heard."""

    frame: int
    between: str
    begin: int | None
    first: int
    pieces: dict[int, bytes] = field(default_factory=dict)

    def add(self, packet: Packet) -> None:
        at = (packet.number - self.first + (1 << 31)) % (1 << 32) - (1 << 31)  # numbers go round
        if len(packet.payload) > len(self.pieces.get(at, b"")):
            self.pieces[at] = packet.payload

    def runs(self) -> list[tuple[int, bytes]]:
        """What was heard without a gap, and where it begins."""
        found: list[tuple[int, bytearray]] = []
        for at, piece in sorted(self.pieces.items()):
            end = found[-1][0] + len(found[-1][1]) if found else -(1 << 32)
            if at > end:
                found.append((at, bytearray(piece)))
            else:
                found[-1][1].extend(piece[end - at :])
        return [(at, bytes(run)) for at, run in found]


class _Streams:
    def __init__(self) -> None:
        self._all: list[_Stream] = []
        self._now: dict[tuple[bytes, int, bytes, int], _Stream] = {}

    def add(self, number: int, packet: Packet) -> None:
        ends = packet.source, packet.source_port, packet.target, packet.target_port
        first = (packet.number + bool(packet.flags & SYN)) % (1 << 32)
        stream = self._now.get(ends)
        if packet.flags & SYN and (stream is None or stream.begin != first):
            stream = self._begin(ends, _Stream(number, _between(packet), first, first))
        elif stream is None:
            stream = self._begin(ends, _Stream(number, _between(packet), None, first))
        if packet.payload:
            stream.add(packet)

    def _begin(self, ends: tuple[bytes, int, bytes, int], stream: _Stream) -> _Stream:
        self._all.append(stream)
        self._now[ends] = stream
        return stream

    @property
    def begun(self) -> int:
        """Those that were heard from their first byte on, and said something."""
        return sum(stream.begin is not None and 0 in stream.pieces for stream in self._all)

    def findings(self, words: list[bytes]) -> Iterator[Finding]:
        for stream in self._all:
            runs = stream.runs()
            why = _spoken((run for _, run in runs), words)
            if not why and stream.begin is not None and runs and runs[0][0] == 0:
                why = _not_tls(runs[0][1])
            if why:
                yield Finding(stream.frame, stream.between, why)


def _not_sealed(packet: Packet, secret: bytes) -> str:
    """Whatever the tag of AES-GCM fits is no plain text: so a seal that only pretends is found."""
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
    """Records of TLS from the first byte on, which is a handshake's, or an alarm's of two bytes (RFC 8446, 5.1)."""
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


def _spoken(pieces: Iterable[bytes], words: list[bytes]) -> str:
    for piece in pieces:
        for word in words:
            if word in piece:
                return f"the word {word!r} in the clear"
    return ""


def _between(packet: Packet) -> str:
    ends = [(packet.source, packet.source_port), (packet.target, packet.target_port)]
    source, target = (f"{ipaddress.ip_address(address)} port {port}" for address, port in ends)
    return f"{'TCP' if packet.protocol == TCP else 'UDP'} from {source} to {target}"
