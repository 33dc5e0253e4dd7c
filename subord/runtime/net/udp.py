"""The UDP socket: datagrams in and out, and what the kernel says about those that did not arrive.

Intuition: a letterbox with a returns tray. Most letters arrive; when a host says "nobody of that name lives
here" (ICMP port unreachable), the letter comes back through the tray, and we learn at once what silence
would tell us only much later.

Linux keeps such returns in the socket's error queue when IP_RECVERR is set (ip(7)). Sending never waits:
a full send buffer drops the datagram and is counted, as the network itself might.

Where arrivals are worth a postmark (`stamp_arrivals`), the kernel notes when each came (SO_TIMESTAMPNS, socket(7)):
then it does not count how long a letter lies in the box. That makes taking one out 0.9 us dearer (1.8 without).
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

RECEIVED_AT_ONCE_MAX = 64  # then other tasks get their turn
RETURNS_AT_ONCE_MAX = 64
RECEIVE_BUFFER_BYTES = 1 << 20  # a burst of a thousand datagrams; the kernel may grant less
ADDRESS_CHECK_S_MAX = 3.0  # how long a fresh IPv6 address may be checked for duplicates (RFC 4862, section 5.4)
BIND_RETRY_S = 0.05
MSG_ERRQUEUE = 0x2000  # linux/socket.h; not named by the socket module
IP_RECVERR = 11
IPV6_RECVERR = 25
ORIGIN_ICMP = (2, 3)  # linux/errqueue.h: SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6
EXTENDED_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err
SO_TIMESTAMPNS = 35  # asm-generic/socket.h; not named by the socket module. What comes with it is of this kind, too
TIMESPEC = struct.Struct("@ll")  # as old as the option: two longs of this machine
STAMP_SPACE = socket.CMSG_SPACE(TIMESPEC.size)


class BindError(Exception):
    """The UDP address cannot be used. The message is one sentence for the operator."""


class Datagram(msgspec.Struct, frozen=True):
    data: bytes
    address: str
    port: int
    arrived_ns: int = 0
    """By the wall clock: when the kernel had it, or when we read it. 0: not noted."""


class UdpSocket:
    """A bound, non-blocking socket. `address` is one of this host's, numeric."""

    def __init__(self, address: str, port: int, counters: Counters, patience_s: float = ADDRESS_CHECK_S_MAX) -> None:
        """Raises BindError; waits up to `patience_s` for an address that the kernel still checks (it blocks)."""
        self._counters = counters
        self.has_returns = False  # worth asking for, by a system call of its own
        self.is_stamped = False  # the kernel notes when each datagram comes
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
        except OSError as error:
            raise BindError(_sentence(address, port, error)) from None
        self._socket.setblocking(False)
        try:
            _bind(self._socket, address, port, patience_s)
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
        """From now on the kernel shall note when each datagram comes; if it cannot, we note when we read it."""
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return
        self.is_stamped = True

    def publish_through(self, interface_index: int) -> None:
        """What is sent to a multicast group leaves by this interface, and no router passes it on. Raises OSError."""
        if self._socket.family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface_index)
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 1)
        else:
            request = struct.pack("=4s4si", bytes(4), bytes(4), interface_index)  # struct ip_mreqn
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)

    def send(self, data: bytes, address: str, port: int) -> None:
        """Send now or never."""
        try:
            self._socket.sendto(data, (address, port))
        except OSError:
            # Perhaps that only told us what became of an earlier datagram, and this one was not tried (ip(7)).
            self.has_returns = True
            self._send_again(data, address, port)

    def _send_again(self, data: bytes, address: str, port: int) -> None:
        try:
            self._socket.sendto(data, (address, port))
        except OSError as error:
            self._counters.send_errors[errno.errorcode.get(error.errno or 0, "UNKNOWN")] += 1

    async def wait(self) -> None:
        """Until there is something to receive, or a return to take."""
        await trio.lowlevel.wait_readable(self._socket)

    def received(self) -> Iterator[Datagram]:
        """What has arrived, at most RECEIVED_AT_ONCE_MAX."""
        take = self._take_stamped if self.is_stamped else self._take
        for count in range(RECEIVED_AT_ONCE_MAX):
            try:
                datagram = take()
            except BlockingIOError:
                # Woken up, but not for a datagram: then for a return.
                self.has_returns = self.has_returns or count == 0
                return
            except OSError:
                self.has_returns = True
                continue
            yield datagram

    def _take(self) -> Datagram:
        # One byte more than allowed shows an oversized datagram without reading all of it.
        data, sender = self._socket.recvfrom(SEALED_BYTES_MAX + 1)
        return Datagram(data, sender[0], sender[1], time.time_ns())

    def _take_stamped(self) -> Datagram:
        data, ancillary, _, sender = self._socket.recvmsg(SEALED_BYTES_MAX + 1, STAMP_SPACE)
        return Datagram(data, sender[0], sender[1], stamp_of(ancillary) or time.time_ns())

    def returned(self) -> Iterator[str]:
        """Addresses of hosts that said that nobody listens on the port."""
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
    """When the kernel says that it came; 0: it does not say."""
    for level, kind, words in ancillary:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(words) == TIMESPEC.size:
            seconds, rest_ns = TIMESPEC.unpack(words)
            return int(seconds) * 1_000_000_000 + int(rest_ns)
    return 0


def _bind(sock: socket.socket, address: str, port: int, patience_s: float) -> None:
    """At boot an IPv6 address is listed a second before it may be used. Raises OSError."""
    until = time.monotonic() + patience_s
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
            return f"we may not use UDP port {port}: choose a cluster.port of 1024 or more"
        case _:
            return f"cannot use UDP {address} port {port}: {error.strerror or error}"
