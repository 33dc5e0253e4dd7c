"""The UDP socket: datagrams in and out, and what the kernel says about those that did not arrive.

Intuition: a letterbox with a returns tray. Most letters arrive; when a host says "nobody of that name lives
here" (ICMP port unreachable), the letter comes back through the tray, and we learn at once what silence
would tell us only much later.

Linux keeps such returns in the socket's error queue when IP_RECVERR is set (ip(7)). Sending never waits:
a full send buffer drops the datagram and is counted, as the network itself might.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator

import msgspec
import trio

from subord.runtime.counters import Counters
from subord.wire import DATAGRAM_BYTES_MAX

RECEIVED_AT_ONCE_MAX = 64  # then other tasks get their turn
RETURNS_AT_ONCE_MAX = 64
RECEIVE_BUFFER_BYTES = 1 << 20  # a burst of a thousand datagrams; the kernel may grant less
MSG_ERRQUEUE = 0x2000  # linux/socket.h; not named by the socket module
IP_RECVERR = 11
IPV6_RECVERR = 25
ORIGIN_ICMP = (2, 3)  # linux/errqueue.h: SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6
EXTENDED_ERROR = struct.Struct("=IBBBBII")  # struct sock_extended_err


class BindError(Exception):
    """The UDP address cannot be used. The message is one sentence for the operator."""


class Datagram(msgspec.Struct, frozen=True):
    data: bytes
    address: str
    port: int


class UdpSocket:
    """A bound, non-blocking socket. `address` is one of this host's, numeric."""

    def __init__(self, address: str, port: int, counters: Counters) -> None:
        """Raises BindError."""
        self._counters = counters
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind((address, port))
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

    def send(self, data: bytes, address: str, port: int) -> None:
        """Send now or never."""
        for _ in range(2):  # the first try may only report the return of an earlier datagram
            try:
                self._socket.sendto(data, (address, port))
            except ConnectionRefusedError:
                continue
            except OSError as error:
                self._counters.send_errors[errno.errorcode.get(error.errno or 0, "UNKNOWN")] += 1
            return

    async def wait(self) -> None:
        """Until there is something to receive, or a return to take."""
        await trio.lowlevel.wait_readable(self._socket)

    def received(self) -> Iterator[Datagram]:
        """What has arrived, at most RECEIVED_AT_ONCE_MAX."""
        for _ in range(RECEIVED_AT_ONCE_MAX):
            try:
                # One byte more than allowed shows an oversized datagram without reading all of it.
                data, sender = self._socket.recvfrom(DATAGRAM_BYTES_MAX + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # it reports a return, which `returned` takes
            yield Datagram(data, sender[0], sender[1])

    def returned(self) -> Iterator[str]:
        """Addresses of hosts that said that nobody listens on the port."""
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
