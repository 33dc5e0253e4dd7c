"""Neighbour requests on one bridge, as the kernel writes them into memory that it shares with us.

Intuition: a conveyor belt with numbered trays. The kernel fills the next empty tray and stamps it with the time; we
come by a few times a second and empty them all, without a word to the kernel. When the belt is full, it counts what
fell off.

Only ARP requests (or IPv6 neighbour solicitations) get onto the belt, and only those that were sent to everybody
(arp_filter.py copies those that arp_proxy.py redirects): a question to one host alone, by which a known neighbour is
confirmed, is none.

Source: packet(7), Documentation/networking/packet_mmap.rst (TPACKET_V2), RFC 826, RFC 4861.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

RING_BYTES = 32 << 20  # 262,144 requests of IPv4, ten seconds of the worst there is
BLOCK_BYTES = 64 << 10
TRAY_BYTES = {4: 128, 6: 256}  # header and the frame as far as it matters

ETH_P = {4: 0x0806, 6: 0x86DD}  # ARP, IPv6
_SO_ATTACH_FILTER = 26
_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_TO_USER = 1  # TP_STATUS_USER
_TRAY = struct.Struct("=IIIHHII")  # status, length, kept, offsets of frame and of its payload, s, ns

_LOAD_HALF, _LOAD_BYTE, _JUMP_EQUAL, _RETURN = 0x28, 0x30, 0x15, 0x06
_KEEP = 0xFFFF

Line = tuple[int, int, int, int]
"""Of the classic packet filter: code, lines to jump over if it is so, and if not, value."""

# Where sender and target stand behind the Ethernet header, and how long they are.
_SENDER_AT, _TARGET_AT, _ADDRESS_BYTES = {4: 14, 6: 8}, {4: 24, 6: 48}, {4: 4, 6: 16}


def requests(version: int, *, otherwise: int) -> tuple[Line, ...]:
    """What a filter begins with that goes on with neighbour requests alone; all else ends with `otherwise`.

    Offsets count from the Ethernet header: ARP, "request"; or ICMPv6, neighbour solicitation.
    """
    give_up = (_RETURN, 0, 0, otherwise)
    if version == 4:
        return ((_LOAD_HALF, 0, 0, 20), (_JUMP_EQUAL, 1, 0, 1), give_up)
    is_icmp = ((_LOAD_BYTE, 0, 0, 20), (_JUMP_EQUAL, 1, 0, 58), give_up)
    return (*is_icmp, (_LOAD_BYTE, 0, 0, 54), (_JUMP_EQUAL, 1, 0, 135), give_up)


def program(lines: Iterable[Line]) -> bytes:
    """As the kernel takes it (struct sock_filter)."""
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


class Request(NamedTuple):
    """Who asks for whom (packed addresses), and when, on the event log's clock in seconds."""

    mono: float
    sender: bytes
    target: bytes


class Ring:
    """Call it in the namespace of the bridge. Raises OSError."""

    def __init__(self, bridge: str, version: int) -> None:
        self._version = version
        self._tray_bytes = TRAY_BYTES[version]
        self._next = 0
        self._lost = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        lines = (*requests(version, otherwise=0), (_RETURN, 0, 0, _KEEP))
        code = ctypes.create_string_buffer(program(lines))
        pointer = struct.pack("HP", len(lines), ctypes.addressof(code))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        trays = RING_BYTES // self._tray_bytes
        shape = struct.pack("=IIII", BLOCK_BYTES, RING_BYTES // BLOCK_BYTES, self._tray_bytes, trays)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, shape)
        self._memory = mmap.mmap(self._socket.fileno(), RING_BYTES, mmap.MAP_SHARED)
        self._socket.bind((bridge, ETH_P[version]))

    def read(self) -> Iterator[Request]:
        """What came in since the last time; at most one round of the ring."""
        memory, version = self._memory, self._version
        size, ends = _ADDRESS_BYTES[version], (_SENDER_AT[version], _TARGET_AT[version])
        to_mono = time.monotonic() - time.time()
        for _ in range(RING_BYTES // self._tray_bytes):
            at = self._next
            status, _length, _kept, _frame, payload, seconds, nanoseconds = _TRAY.unpack_from(memory, at)
            if not status & _TO_USER:
                return
            sender, target = (memory[at + payload + end : at + payload + end + size] for end in ends)
            struct.pack_into("=I", memory, at, 0)  # the tray is the kernel's again
            self._next = (at + self._tray_bytes) % RING_BYTES
            yield Request(seconds + nanoseconds / 1e9 + to_mono, sender, target)

    def lost(self) -> int:
        """Requests for which there was no room, so far."""
        packets_and_drops = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)  # counts anew after this
        self._lost += struct.unpack("=II", packets_and_drops)[1]
        return self._lost

    def close(self) -> None:
        self._memory.close()
        self._socket.close()
