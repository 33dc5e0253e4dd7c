"""The UDP socket of a node: datagrams in and out, and ICMP errors about sent ones.

A host without a process on the port answers with ICMP port unreachable, so its state is known at once. With
IP_RECVERR Linux keeps such errors in the error queue of the socket (ip(7)). Sending never waits: a full send buffer
drops the datagram, which is counted.

After `stamp_arrivals` the kernel records the arrival time of each datagram (SO_TIMESTAMPNS, socket(7)), so the time
that it waits in the buffer does not count. Receiving one then costs 0.9 us more (1.8 without).
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterator

import msgspec
import trio

from subord.runtime.counters import Counters
from subord.sealing.header import SEALED_BYTES_MAX

RECEIVED_AT_ONCE_MAX = 64  # then other tasks run
RETURNS_AT_ONCE_MAX = 64
RECEIVE_BUFFER_BYTES = 1 << 20  # a burst of a thousand datagrams; the kernel may grant less
ADDRESS_CHECK_S_MAX = 3.0  # duplicate detection of a new IPv6 address (RFC 4862, section 5.4)
BIND_RETRY_S = 0.05
MSG_ERRQUEUE = 0x2000  # linux/socket.h; not in the socket module
IP_RECVERR = 11
IPV6_RECVERR = 25
ORIGIN_ICMP = (2, 3)  # linux/errqueue.h: SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6
EXTENDED_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not in the socket module. Also the type of the control message
TIMESPEC = struct.Struct("@ll")  # struct timespec of this option: two native longs
STAMP_SPACE = socket.CMSG_SPACE(TIMESPEC.size)


class BindError(Exception):
    """The UDP address cannot be used. One sentence for the operator."""


class Datagram(msgspec.Struct, frozen=True):
    data: bytes
    address: str
    port: int
    arrived_ns: int = 0
    """Wall clock in ns, at the arrival in the kernel or at reading; 0: not recorded."""


class UdpSocket:
    """A bound, non-blocking socket. `address` is a numeric one of this host."""

    def __init__(self, address: str, port: int, counters: Counters, timeout_s: float = ADDRESS_CHECK_S_MAX) -> None:
        """Blocks up to `timeout_s` for an IPv6 address that the kernel still checks. Raises BindError."""
        self._counters = counters
        self.has_returns = False  # the error queue may hold entries
        self.is_stamped = False  # the kernel stamps arrivals
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
        except OSError as error:
            raise BindError(_sentence(address, port, error)) from None
        self._socket.setblocking(False)
        try:
            _bind(self._socket, address, port, timeout_s)
        except OSError as error:
            self._socket.close()
            raise BindError(_sentence(address, port, error)) from None
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
        else:
            self._socket.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)

    def close(self) -> None:
        self._socket.close()

    def stamp_arrivals(self) -> None:
        """Let the kernel stamp arrivals. If it cannot, `arrived_ns` stays the time of reading."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return
        self.is_stamped = True

    def publish_through(self, interface_index: int) -> None:
        """Send multicast datagrams through this interface, with a hop limit of 1. Raises OSError."""
        if self._socket.family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index)
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
        else:
            request = struct.pack("=4s4si", bytes(4), bytes(4), interface_index)  # struct ip_mreqn
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)

    def send(self, data: bytes, address: str, port: int) -> None:
        """Send a datagram without waiting. A failure is counted."""
        try:
            self._socket.sendto(data, (address, port))
        except OSError:
            # The error may belong to an earlier datagram, and this one was not sent (ip(7)).
            self.has_returns = True
            self._send_again(data, address, port)

    def _send_again(self, data: bytes, address: str, port: int) -> None:
        try:
            self._socket.sendto(data, (address, port))
        except OSError as error:
            self._counters.send_errors[errno.errorcode.get(error.errno or 0, "UNKNOWN")] += 1

    async def wait(self) -> None:
        """Wait until a datagram or an entry of the error queue can be received."""
        await trio.lowlevel.wait_readable(self._socket)

    def received(self) -> Iterator[Datagram]:
        """The datagrams that have arrived, at most RECEIVED_AT_ONCE_MAX."""
        take = self._take_stamped if self.is_stamped else self._take
        for count in range(RECEIVED_AT_ONCE_MAX):
            try:
                datagram = take()
            except BlockingIOError:
                # Readable without a datagram: the error queue has an entry.
                self.has_returns = self.has_returns or count == 0
                return
            except OSError:
                self.has_returns = True
                continue
            yield datagram

    def _take(self) -> Datagram:
        # One byte more than allowed reveals an oversized datagram without reading all of it.
        data, sender = self._socket.recvfrom(SEALED_BYTES_MAX + 1)
        return Datagram(data, sender[0], sender[1], time.time_ns())

    def _take_stamped(self) -> Datagram:
        data, ancillary, _, sender = self._socket.recvmsg(SEALED_BYTES_MAX + 1, STAMP_SPACE)
        return Datagram(data, sender[0], sender[1], stamp_of(ancillary) or time.time_ns())

    def returned(self) -> Iterator[str]:
        """Addresses of hosts that answered with port unreachable."""
        self.has_returns = False
        for _ in range(RETURNS_AT_ONCE_MAX):
            try:
                _, ancillary, _, target = self._socket.recvmsg(1, 512, MSG_ERRQUEUE)
            except OSError:
                return
            for _, _, data in ancillary:
                if len(data) >= EXTENDED_ERROR.size:
                    number, origin, *_ = EXTENDED_ERROR.unpack_from(data)
                    if number == errno.ECONNREFUSED and origin in ORIGIN_ICMP:
                        yield target[0]


def stamp_of(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The kernel's arrival time in ns of the wall clock; 0: there is none."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) == TIMESPEC.size:
            seconds, rest_ns = TIMESPEC.unpack(data)
            return int(seconds) * 1_000_000_000 + int(rest_ns)
    return 0


def _bind(sock: socket.socket, address: str, port: int, timeout_s: float) -> None:
    """Bind, with retries: at boot an IPv6 address is listed a second before it can be used. Raises OSError."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            sock.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() >= until:
                raise
            time.sleep(BIND_RETRY_S)
        else:
            return


def _sentence(address: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"UDP {address} port {port} is taken: is another subord running? "
                "Stop it, or set cluster.port on all nodes"
            )
        case errno.EADDRNOTAVAIL:
            return f"this machine cannot use the address {address} now: is its interface up?"
        case errno.EACCES | errno.EPERM:
            return f"not permitted to use UDP port {port}: choose a cluster.port of 1024 or more"
        case _:
            return f"cannot use UDP {address} port {port}: {error.strerror or error}"
