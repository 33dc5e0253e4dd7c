"""Ethernet frames of UDP and TCP over IPv4, parsed and built.

A built frame has the right lengths and checksums, so that no kernel drops it before the daemon sees it.
Source: RFC 791, RFC 768, RFC 9293, RFC 1071. Pure.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

IPV4 = 0x0800
TCP, UDP = 6, 17
SYN = 0x02
TTL = 64
FRAME_BYTES_MAX = 1514  # what fits on an Ethernet: header, and an MTU of 1500
_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_TCP = struct.Struct("!HHIIBB")
_HEADERS = {UDP: _UDP, TCP: _TCP}
_DONT_FRAGMENT, _FRAGMENT_AT = 0x4000, 0x1FFF


class Packet(NamedTuple):
    """A datagram, or a segment with its `number` and `flags`. Addresses are packed."""

    target_mac: bytes
    source_mac: bytes
    protocol: int
    source: bytes
    target: bytes
    source_port: int
    target_port: int
    payload: bytes
    number: int = 0
    flags: int = 0


def parsed(frame: bytes) -> Packet | None:
    """None: neither UDP nor TCP, not whole, or a later fragment."""
    if len(frame) < _ETHERNET.size + _IPV4.size:
        return None
    target_mac, source_mac, kind = _ETHERNET.unpack_from(frame)
    first, _, length, _, fragment, _, protocol, _, source, target = _IPV4.unpack_from(frame, _ETHERNET.size)
    begin, end = _ETHERNET.size + (first & 15) * 4, _ETHERNET.size + length
    if kind != IPV4 or fragment & _FRAGMENT_AT or protocol not in _HEADERS or end > len(frame):
        return None
    content, header = frame[begin:end], _HEADERS[protocol]
    if len(content) < header.size:
        return None
    source_port, target_port, *rest = header.unpack_from(content)
    ends = target_mac, source_mac, protocol, source, target, source_port, target_port
    if protocol == UDP:
        return Packet(*ends, content[_UDP.size :])
    number, _, header_length, flags = rest
    return Packet(*ends, content[(header_length >> 4) * 4 :], number, flags)


def built(packet: Packet) -> bytes:
    """The frame of a UDP datagram: lengths and the header's checksum computed; UDP itself goes without, as it may."""
    length = _UDP.size + len(packet.payload)
    fields = 0x45, 0, _IPV4.size + length, 0, _DONT_FRAGMENT, TTL, UDP
    header_sum = checksum(_IPV4.pack(*fields, 0, packet.source, packet.target))
    ethernet = _ETHERNET.pack(packet.target_mac, packet.source_mac, IPV4)
    ip = _IPV4.pack(*fields, header_sum, packet.source, packet.target)
    return ethernet + ip + _UDP.pack(packet.source_port, packet.target_port, length, 0) + packet.payload


def checksum(data: bytes) -> int:
    """Of the internet: the ones' complement of the ones' complement sum of all 16-bit words (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    found: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return ~found & 0xFFFF
