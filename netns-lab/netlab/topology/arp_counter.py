"""The process that counts neighbour requests, by ARP or IPv6 neighbour solicitation, by sender.

It reads the packet ring of every bridge, memory that the kernel fills, beside the controller, so that a busy
controller misses nothing. It answers {"contacts": {ADDRESS: s}} with the figures so far. Only requests to all hosts
count: by a request to one host alone the kernel confirms a neighbour it knows; those that filters.py redirects are
copied by arp_filter.py. A rate is the most requests of one sender in any second, in a sliding window. A target is
silent when it is in the network and is neither a node's nor a router's.

Source: packet(7), Documentation/networking/packet_mmap.rst (TPACKET_V2), RFC 826, RFC 4861.
"""

from __future__ import annotations

import ipaddress
import mmap
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from netlab.common.helper import await_ready, fork
from netlab.common.json_lines import Lines
from netlab.topology.addresses import network_of, packed
from netlab.topology.packet_filter import ETH_P, RETURN, attach, neighbour_requests

READ_INTERVAL_S = 0.1
GONE = "The process that counts ARP requests ended by itself: the lab.log may say why."
PAIRS_MAX = 4_000_000  # of sender and silent target that are remembered: 0.5 GiB
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
        attach(self._socket, (*neighbour_requests(version, otherwise=0), (RETURN, 0, 0, _KEEP)))
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


@dataclass
class Sender:
    """What one host has asked."""

    requests: int = 0
    per_s_max: int = 0
    last_second: deque[float] = field(default_factory=deque)
    silent: dict[bytes, float] = field(default_factory=dict)  # silent target -> first asked for

    def note(self, mono: float) -> None:
        """One request; times ascend, but for a few microseconds."""
        self.requests += 1
        times = self.last_second
        times.append(mono)
        while times[0] <= mono - 1.0:
            times.popleft()
        self.per_s_max = max(self.per_s_max, len(times))


class Tally:
    """What was counted; `nodes` and `routers` are addresses."""

    def __init__(self, nodes: Iterable[str], routers: Iterable[str], network: str) -> None:
        self._nodes = {packed(address): Sender() for address in nodes}
        self._routers = {packed(address): Sender() for address in routers}
        self._strangers = Sender()  # all other senders together: there should be none
        self._known = {**self._nodes, **self._routers}
        self._network = network_of(network)
        self._room = PAIRS_MAX
        self._left_out = 0

    def note(self, request: Request) -> None:
        sender = self._known.get(request.sender, self._strangers)
        sender.note(request.mono)
        if request.target in self._known or request.target in sender.silent:
            return
        if ipaddress.ip_address(request.target) not in self._network:
            return
        if self._room > 0:
            self._room -= 1
            sender.silent[request.target] = request.mono
        else:
            self._left_out += 1

    def figures(self, contacts: Mapping[str, float]) -> dict[str, Any]:
        """Sums over the nodes, and over the routers apart; `contacts`: when a node got its first message, if it did.

        `left_out` counts requests that may belong to new pairs, after `PAIRS_MAX` of them.
        """
        contacted = {packed(address): mono for address, mono in contacts.items()}
        late = (
            mono > contacted[address]
            for address, sender in self._nodes.items()
            if address in contacted
            for mono in sender.silent.values()
        )
        nodes, routers = self._nodes.values(), self._routers.values()
        return {
            "requests": sum(sender.requests for sender in nodes),
            "per_s_max": max(sender.per_s_max for sender in nodes),
            "silent": sum(len(sender.silent) for sender in nodes),
            "silent_after_contact": sum(late),
            "router_requests": sum(sender.requests for sender in routers),
            "router_per_s_max": max((sender.per_s_max for sender in routers), default=0),
            "strangers": self._strangers.requests,
            "left_out": self._left_out,
        }


def start(tally: Tally, bridges: Mapping[str, frozenset[bytes]], version: int) -> Lines:
    """Fork the counter in the namespace of the bridges; the connection to it. Raises LabError.

    `bridges`: name -> senders (packed) that are at another site, whose requests are counted there.
    """

    def rings() -> list[tuple[Ring, frozenset[bytes]]]:
        return [(Ring(bridge, version), elsewhere) for bridge, elsewhere in bridges.items()]

    helper = fork("lab-arp", rings, lambda rings, controller: _count(tally, rings, controller))
    await_ready(helper, "ARP requests cannot be counted here: {}. Give no --arp.")
    return helper


def _count(tally: Tally, rings: list[tuple[Ring, frozenset[bytes]]], controller: Lines) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(controller, selectors.EVENT_READ)
        while not controller.ended:
            asked = selector.select(READ_INTERVAL_S)
            for ring, elsewhere in rings:
                for request in ring.read():
                    if request.sender not in elsewhere:
                        tally.note(request)
            for question in controller.receive() if asked else ():
                lost = sum(ring.lost() for ring, _ in rings)
                controller.send({**tally.figures(question["contacts"]), "lost": lost})
