"""Sends and receives the datagrams of one node: encoding, sealing, counting, and dropping of invalid ones.

In: messages to send, datagrams from the socket. Out: sealed datagrams, and the opened content of valid ones. With a
key, no content reaches the driver that the sealer has not accepted. Drops are counted by reason and logged at most
once in WARNING_S.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import trio

from subord.core.messages import Message, Versions
from subord.core.pacing.token_bucket import TokenBucket
from subord.runtime.counters import Counters
from subord.runtime.net.duplicates import Duplicates
from subord.runtime.net.multicast import Group
from subord.runtime.net.udp import Datagram, UdpSocket
from subord.sealing.policy import seal_message
from subord.sealing.sealer import Broken, Sealer
from subord.wire.codec import WIRE, Wire
from subord.wire.versions import PeerVersions

logger = logging.getLogger("subord")

OUTSIDERS_PER_S = 20.0  # so that a node with the key and another network learns why it is refused
WARNING_S = 30.0  # between two log lines about dropped datagrams
CONTENT_CHARS_MAX = 400  # of a message in a debug line
ORDINARY = (Broken.FIRST_CONTACT, Broken.REPLAY)  # normal after a restart and on networks that duplicate


class Transport:
    """One socket with its optional multicast group and sealer."""

    def __init__(
        self,
        sock: UdpSocket,
        port: int,
        counters: Counters,
        sealer: Sealer | None = None,
        group: Group | None = None,
        *,
        is_ours: Callable[[str], bool] = lambda _: True,
        wire: Wire = WIRE,
    ) -> None:
        """`is_ours`: whether an address is inside the network."""
        self.sock = sock
        self.group = group
        self.sealer = sealer
        self.wire = wire
        self.peer_versions = PeerVersions(wire.spoken)  # by address
        self.on_asked_again: Callable[[str], None] = lambda _: None
        """Receives the address of a peer that rejected earlier messages and accepts them from now on."""
        self._port = port
        self._counters = counters
        self._is_ours = is_ours
        self._outsiders = TokenBucket(OUTSIDERS_PER_S, trio.current_time())
        self._duplicates = Duplicates()
        self._dropped = 0  # since the last log line
        self._warned_at = self._raised_at = trio.current_time() - WARNING_S

    def send(self, message: Message, address: str, port: int | None = None) -> None:
        """Send a message to the cluster's port, or to the `port` that a question came from."""
        end = address, port or self._port
        if logger.isEnabledFor(logging.DEBUG):
            log_message("sent", "to", message, address)
        self._send_data(kind_of(message), self._sealed(message, end), end)

    def send_timed(self, message: Message, address: str) -> tuple[int, int]:
        """Send a message; the time of sending in ns, by the wall clock (as arrivals) and the monotonic clock."""
        end = address, self._port
        if logger.isEnabledFor(logging.DEBUG):
            log_message("sent", "to", message, address)
        data = self._sealed(message, end)
        sent_ns = time.time_ns(), time.monotonic_ns()
        self._send_data(kind_of(message), data, end)
        return sent_ns

    def send_versions(self, address: str, port: int) -> None:
        """Send the wire versions of this node."""
        data, end = self.wire.versions_datagram, (address, port)
        if logger.isEnabledFor(logging.DEBUG):
            log_message("sent", "to", Versions(self.wire.spoken), address)
        self._send_data("versions", data if self.sealer is None else self.sealer.seal(data, end), end)

    def _sealed(self, message: Message, end: tuple[str, int]) -> bytes:
        data = self.wire.encode(message, self.peer_versions.version_for(end[0]))
        if self.sealer is None:
            return data
        return seal_message(self.sealer, message, data, end)

    def publish(self, message: Message) -> None:
        """Send a message to the multicast group, if any, in every wire version: the receivers are unknown."""
        if self.group is None:
            return
        end = self.group.address, self._port
        if logger.isEnabledFor(logging.DEBUG):
            log_message("sent", "to", message, self.group.address)
        for version in self.wire.spoken:
            data = self.wire.encode(message, version)
            for each in (data,) if self.sealer is None else self.sealer.seal_for_all(data, end):
                self._send_data(kind_of(message), each, end)

    def _send_data(self, kind: str, data: bytes, end: tuple[str, int]) -> None:
        self._counters.messages_sent[kind] += 1
        self._counters.bytes_sent[kind] += len(data)
        self.sock.send(data, *end)

    def open(self, datagram: Datagram, *, by_multicast: bool) -> bytes | None:
        """The content of a datagram; None: it was dropped, or it was only for the sealer."""
        if self.sealer is None:
            return datagram.data
        if not self._is_ours(datagram.address) and not self._outsiders.admit(trio.current_time()):
            self.drop("outside_network", datagram)
            return None
        end = datagram.address, datagram.port
        group = (self.group.address, self._port) if by_multicast and self.group is not None else None
        opened = self.sealer.open(datagram.data, end, trio.current_time(), group=group)
        if opened.broken is not None:
            self.drop(opened.broken.value, datagram, ordinary=opened.broken in ORDINARY)
        if opened.lives is not None:
            self._report_duplicate(datagram.address, opened.lives)
        for reply in opened.replies:
            self._send_data("seal", reply, end)
        if opened.broken is None and opened.content is None and datagram.port == self._port:
            self.on_asked_again(datagram.address)
        if opened.lives_again and trio.current_time() - self._raised_at >= WARNING_S:
            self._raised_at = trio.current_time()
            logger.warning("%s knows a later life of this node: took a higher number", datagram.address)
        return opened.content

    @property
    def duplicates(self) -> int:
        """Number of addresses at which two nodes are suspected."""
        return len(self._duplicates)

    def _report_duplicate(self, address: str, lives: tuple[int, int]) -> None:
        text, is_new = self._duplicates.heard(address, lives, trio.current_time())
        if text:
            self._counters.problems.note("duplicate", text, address)
        if is_new:
            words = "%(address)s is a %(text)s; give one of them another address"
            logger.warning(words, {"address": address, "text": text})

    def drop(self, reason: str, datagram: Datagram, *, ordinary: bool = False) -> None:
        """Count a dropped datagram. Unless `ordinary`, note its sender, and log it at most once in WARNING_S."""
        self._counters.dropped[reason] += 1
        if ordinary:
            return
        self._counters.problems.note("dropped", reason, datagram.address)
        self._dropped += 1
        now = trio.current_time()
        if now - self._warned_at >= WARNING_S:
            self._warned_at = now
            words = (
                "datagram from %(peer)s port %(port)d dropped: %(reason)s (%(number)d since the last such line; "
                "subord_input_dropped_total counts them by reason)"
            )
            fields = {"peer": datagram.address, "port": datagram.port, "reason": reason, "number": self._dropped}
            logger.warning(words, fields)
            self._dropped = 0


class _Content:
    """Formats a message only when its line is written: most lines of a flood are not."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def __str__(self) -> str:
        words = repr(self._message)
        return words if len(words) <= CONTENT_CHARS_MAX else words[:CONTENT_CHARS_MAX] + "..."


def log_message(event: str, preposition: str, message: Message, peer: str) -> None:
    """Log a message at level debug. Callers check the level first: the line costs more than the message."""
    fields = {"type": kind_of(message), "peer": peer, "content": _Content(message)}
    logger.debug(f"{event} %(type)s {preposition} %(peer)s: %(content)s", fields, extra={"event": event})


def kind_of(message: Message) -> str:
    """The type of a message as a metric label."""
    return type(message).__name__.lower()
