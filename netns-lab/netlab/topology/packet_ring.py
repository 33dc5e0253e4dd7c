"""Neighbour requests on one bridge, read from a packet ring: memory that the kernel fills and this process empties.

The kernel stamps each frame with the time, and counts the frames for which the ring had no room. Only ARP requests
(or IPv6 neighbour solicitations) to all hosts get in: a request to one host alone, by which the kernel confirms a
neighbour it knows, does not; requests that arp_proxy.py redirects are copied by arp_filter.py.

Source: packet(7), Documentation/networking/packet_mmap.rst (TPACKET_V2), RFC 826, RFC 4861.
"""

from __future__ import annotations

import mmap
import socket
import struct
import time
from collections.abc import Iterator
from typing import NamedTuple

from netlab.topology import packet_filter
from netlab.topology.packet_filter import ETH_P, RETURN, neighbour_requests

RING_BYTES = 32 << 20  # 262,144 requests of IPv4, ten seconds of the worst there is
BLOCK_BYTES = 64 << 10
SLOT_BYTES = {4: 128, 6: 256}  # header and the frame as far as it matters

_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_TO_USER = 1  # TP_STATUS_USER
_SLOT = struct.Struct("=IIIHHII")  # status, length, kept, offsets of frame and of its payload, s, ns
_KEEP = 0xFFFF
# Where sender and target stand behind the Ethernet header, and how long they are.
_SENDER_AT, _TARGET_AT, _ADDRESS_BYTES = {4: 14, 6: 8}, {4: 24, 6: 48}, {4: 4, 6: 16}


class Request(NamedTuple):
    """The sender asks for the target (packed addresses); `mono`: on the event log's clock in seconds."""

    mono: float
    sender: bytes
    target: bytes


class Ring:
    """Make it in the namespace of the bridge. Raises OSError."""

    def __init__(self, bridge: str, version: int) -> None:
        self._version = version
        self._slot_bytes = SLOT_BYTES[version]
        self._next = 0
        self._lost = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        packet_filter.attach(self._socket, (*neighbour_requests(version, otherwise=0), (RETURN, 0, 0, _KEEP)))
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        slots = RING_BYTES // self._slot_bytes
        shape = struct.pack("=IIII", BLOCK_BYTES, RING_BYTES // BLOCK_BYTES, self._slot_bytes, slots)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, shape)
        self._memory = mmap.mmap(self._socket.fileno(), RING_BYTES, mmap.MAP_SHARED)
        self._socket.bind((bridge, ETH_P[version]))

    def read(self) -> Iterator[Request]:
        """What came in since the last time; at most one round of the ring."""
        memory, version = self._memory, self._version
        size, ends = _ADDRESS_BYTES[version], (_SENDER_AT[version], _TARGET_AT[version])
        to_mono = time.monotonic() - time.time()
        for _ in range(RING_BYTES // self._slot_bytes):
            at = self._next
            status, _length, _kept, _frame, payload, seconds, nanoseconds = _SLOT.unpack_from(memory, at)
            if not status & _TO_USER:
                return
            sender, target = (memory[at + payload + end : at + payload + end + size] for end in ends)
            struct.pack_into("=I", memory, at, 0)  # the slot is the kernel's again
            self._next = (at + self._slot_bytes) % RING_BYTES
            yield Request(seconds + nanoseconds / 1e9 + to_mono, sender, target)

    def lost(self) -> int:
        """Requests for which there was no room, so far."""
        packets_and_drops = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)  # counts anew after this
        self._lost += struct.unpack("=II", packets_and_drops)[1]
        return self._lost
