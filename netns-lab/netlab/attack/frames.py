"""Ethernet frames, parsed and built: UDP and TCP over IPv4 and IPv6.

A built frame has the right lengths and checksums, so that no kernel drops it before the daemon sees it.
Source: RFC 791, RFC 768, RFC 9293, RFC 8200, RFC 1071. Pure.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

IPV4, IPV6 = 0x0800, 0x86DD
TCP, UDP = 6, 17
SYN = 0x02
TTL = 64
FRAME_BYTES_MAX = 1514  # what fits on an Ethernet: header, and an MTU of 1500
_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_TCP = struct.Struct("!HHIIBB")
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


class _IpPacket(NamedTuple):
    protocol: int
    source: bytes
    target: bytes
    content: bytes


def parsed(frame: bytes) -> Packet | None:
    """None: neither UDP nor TCP, not whole, or a later fragment."""
    if len(frame) < _ETHERNET.size:
        return None
    target_mac, source_mac, kind = _ETHERNET.unpack_from(frame)
    packet = _ip_packet(kind, frame[_ETHERNET.size :])
    if packet is None:
        return None
    protocol, source, target, content = packet
    if protocol == UDP and len(content) >= _UDP.size:
        source_port, target_port, _, _ = _UDP.unpack_from(content)
        ends = source, target, source_port, target_port
        return Packet(target_mac, source_mac, protocol, *ends, content[_UDP.size :])
    if protocol == TCP and len(content) >= _TCP.size:
        source_port, target_port, number, _, length, flags = _TCP.unpack_from(content)
        ends = source, target, source_port, target_port
        payload = content[(length >> 4) * 4 :]
        return Packet(target_mac, source_mac, protocol, *ends, payload, number, flags)
    return None


def _ip_packet(kind: int, data: bytes) -> _IpPacket | None:
    if kind == IPV4 and len(data) >= _IPV4.size:
        first, _, length, _, fragment, _, protocol, _, source, target = _IPV4.unpack_from(data)
        begin = (first & 15) * 4
        whole = begin <= length <= len(data) and not fragment & _FRAGMENT_AT
        return _IpPacket(protocol, source, target, data[begin:length]) if whole else None
    if kind == IPV6 and len(data) >= _IPV6.size:
        _, length, protocol, _, source, target = _IPV6.unpack_from(data)
        end = _IPV6.size + length
        return _IpPacket(protocol, source, target, data[_IPV6.size : end]) if end <= len(data) else None
    return None


def built(packet: Packet) -> bytes:
    """The frame of a UDP datagram, lengths and checksums computed; over IPv4 UDP goes without one, as it may."""
    length = _UDP.size + len(packet.payload)
    ports = packet.source_port, packet.target_port
    if len(packet.source) == 4:
        udp = _UDP.pack(*ports, length, 0) + packet.payload
        kind, header = IPV4, _header_4(packet.source, packet.target, _IPV4.size + length)
    else:
        pseudo = packet.source + packet.target + struct.pack("!IHBB", length, 0, 0, UDP)
        sum_of_all = checksum(pseudo + _UDP.pack(*ports, length, 0) + packet.payload)
        udp = _UDP.pack(*ports, length, sum_of_all or 0xFFFF) + packet.payload
        kind, header = IPV6, _IPV6.pack(6 << 28, length, UDP, TTL, packet.source, packet.target)
    return _ETHERNET.pack(packet.target_mac, packet.source_mac, kind) + header + udp


def _header_4(source: bytes, target: bytes, length: int) -> bytes:
    fields = 0x45, 0, length, 0, _DONT_FRAGMENT, TTL, UDP
    return _IPV4.pack(*fields, checksum(_IPV4.pack(*fields, 0, source, target)), source, target)


def checksum(data: bytes) -> int:
    """Of the internet: the ones' complement of the ones' complement sum of all 16-bit words (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    found: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while found >> 16:
        found = (found & 0xFFFF) + (found >> 16)
    return ~found & 0xFFFF
