"""Receives announcements from the multicast group of the link.

A second socket, bound to the address of the group, joins it and so receives nothing else. The node sends
announcements from its own socket, so that they come from its own address. Several daemons on one machine and several
clusters on one link share the group: the kernel gives each of them each datagram (SO_REUSEADDR). Any host can send to
the group, so only announcements are accepted from it.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
from collections.abc import Iterator

import trio

from subord.runtime.net.interfaces import Chosen
from subord.runtime.net.udp import RECEIVED_AT_ONCE_MAX, Datagram, UdpSocket
from subord.sealing.header import SEALED_BYTES_MAX

logger = logging.getLogger("subord")

GROUP_V4 = "239.255.71.17"  # administratively scoped, for this site at most (RFC 2365)
GROUP_V6 = "ff12::7117"  # transient, for this link (RFC 4291, section 2.7)
# linux/in.h and linux/in6.h; not in the socket module. 0: receive only from the groups that this socket has joined.
IP_MULTICAST_ALL = 49
IPV6_MULTICAST_ALL = 29


class Group:
    """A joined, non-blocking socket. `address` is that of the group."""

    def __init__(self, address: str, port: int, interface_index: int) -> None:
        """`address` is the node's own, which determines the IP version. Raises OSError."""
        is_v6 = ":" in address
        self.address = GROUP_V6 if is_v6 else GROUP_V4
        self._socket = socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if is_v6:
                self._join_v6(port, interface_index)
            else:
                self._join_v4(port, interface_index)
        except OSError:
            self._socket.close()
            raise

    def _join_v4(self, port: int, index: int) -> None:
        self._socket.bind((GROUP_V4, port))
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)
        membership = struct.pack("=4s4si", socket.inet_aton(GROUP_V4), bytes(4), index)  # struct ip_mreqn
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)

    def _join_v6(self, port: int, index: int) -> None:
        self._socket.bind((GROUP_V6, port, 0, index))
        self._socket.setsockopt(socket.IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
        membership = struct.pack("=16si", socket.inet_pton(socket.AF_INET6, GROUP_V6), index)  # struct ipv6_mreq
        self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)

    def close(self) -> None:
        self._socket.close()

    async def wait(self) -> None:
        """Wait until a datagram can be received."""
        await trio.lowlevel.wait_readable(self._socket)

    def received(self) -> Iterator[Datagram]:
        """The datagrams that have arrived, at most RECEIVED_AT_ONCE_MAX."""
        for _ in range(RECEIVED_AT_ONCE_MAX):
            try:
                data, sender = self._socket.recvfrom(SEALED_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # an error of the interface; the next call reads on
            yield Datagram(data, sender[0], sender[1])


def join(sock: UdpSocket, chosen: Chosen, port: int) -> Group | None:
    """Join the group on the interface of the node's address. None: it is not possible, which is logged."""
    try:
        index = socket.if_nametoindex(chosen.interface)
        sock.publish_through(index)
        return Group(chosen.address, port, index)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        logger.warning("no multicast on %s: %s; continuing as with node.announce = false", chosen.interface, reason)
        return None
