"""Letters in and out of one node: sealed where there is a key, counted, and thrown away when they are not right.

Intuition: the post room. What comes in is opened here, what has a broken seal goes into the bin with a stroke on the
tally sheet, and only what is inside is carried upstairs. What goes out is sealed here; upstairs nobody has a seal.
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

OUTSIDERS_PER_S = 20.0  # so that somebody with the key and another network hears why it does not fit
COMPLAINT_S = 30.0  # one line of the log in this time, however much is thrown away
CONTENT_CHARS_MAX = 400  # of a message in a debug line
ORDINARY = (Broken.FIRST_CONTACT, Broken.REPLAY)  # what nodes do to each other after a restart, and what networks do


class Transport:
    """One socket, its multicast group if there is one, and the seal if there is one."""

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
        """`is_ours` says which addresses lie in our network."""
        self.sock = sock
        self.group = group
        self.sealer = sealer
        self.wire = wire
        self.dialects = PeerVersions(wire.spoken)  # by address
        self.on_asked_again: Callable[[str], None] = lambda _: None
        """Told the address of who did not believe what we said; it believes what we say from now on."""
        self._port = port
        self._counters = counters
        self._is_ours = is_ours
        self._outsiders = TokenBucket(OUTSIDERS_PER_S, trio.current_time())
        self._duplicates = Duplicates()
        self._complaints = 0
        self._complained_at = self._lived_again_at = trio.current_time() - COMPLAINT_S

    def send(self, message: Message, address: str, port: int | None = None) -> None:
        """`port`: the cluster's, or the one that was asked from."""
        end = address, port or self._port
        if logger.isEnabledFor(logging.DEBUG):
            told("sent", "to", message, address)
        self._post(kind_of(message), self._sealed(message, end), end)

    def send_timed(self, message: Message, address: str) -> tuple[int, int]:
        """When it left: ns of the wall clock, by which arrivals are stamped, and ns of one that nobody sets."""
        end = address, self._port
        if logger.isEnabledFor(logging.DEBUG):
            told("sent", "to", message, address)
        data = self._sealed(message, end)
        sent_ns = time.time_ns(), time.monotonic_ns()
        self._post(kind_of(message), data, end)
        return sent_ns

    def send_versions(self, address: str, port: int) -> None:
        """Which versions of the wire we speak."""
        data, end = self.wire.versions_datagram, (address, port)
        if logger.isEnabledFor(logging.DEBUG):
            told("sent", "to", Versions(self.wire.spoken), address)
        self._post("versions", data if self.sealer is None else self.sealer.seal(data, end), end)

    def _sealed(self, message: Message, end: tuple[str, int]) -> bytes:
        data = self.wire.encode(message, self.dialects.version_for(end[0]))
        if self.sealer is None:
            return data
        return seal_message(self.sealer, message, data, end)

    def publish(self, message: Message) -> None:
        """To everybody on the wire, if that is possible, in every version that we speak: who listens is not known."""
        if self.group is None:
            return
        end = self.group.address, self._port
        if logger.isEnabledFor(logging.DEBUG):
            told("sent", "to", message, self.group.address)
        for version in self.wire.spoken:
            data = self.wire.encode(message, version)
            for each in (data,) if self.sealer is None else self.sealer.seal_for_all(data, end):
                self._post(kind_of(message), each, end)

    def _post(self, kind: str, data: bytes, end: tuple[str, int]) -> None:
        self._counters.messages_sent[kind] += 1
        self._counters.bytes_sent[kind] += len(data)
        self.sock.send(data, *end)

    def open(self, datagram: Datagram, *, by_multicast: bool) -> bytes | None:
        """What was sealed in it; None: nothing for us."""
        if self.sealer is None:
            return datagram.data
        if not self._is_ours(datagram.address) and not self._outsiders.admit(trio.current_time()):
            self.throw_away("outside_network", datagram)
            return None
        end = datagram.address, datagram.port
        group = (self.group.address, self._port) if by_multicast and self.group is not None else None
        opened = self.sealer.open(datagram.data, end, trio.current_time(), group=group)
        if opened.broken is not None:
            self.throw_away(opened.broken.value, datagram, ordinary=opened.broken in ORDINARY)
        if opened.lives is not None:
            self._tell_duplicate(datagram.address, opened.lives)
        for reply in opened.replies:
            self._post("seal", reply, end)
        if opened.broken is None and opened.content is None and datagram.port == self._port:
            self.on_asked_again(datagram.address)
        if opened.lives_again and trio.current_time() - self._lived_again_at >= COMPLAINT_S:
            self._lived_again_at = trio.current_time()
            logger.warning("%s knows a later life of ours: took a higher number than that", datagram.address)
        return opened.content

    def _tell_duplicate(self, address: str, lives: tuple[int, int]) -> None:
        text, is_new = self._duplicates.heard(address, lives, trio.current_time())
        if text:
            self._counters.lately.note("duplicate", text, address)
        if is_new:
            words = "%(address)s is a %(text)s; whichever is wrong needs another address"
            logger.warning(words, {"address": address, "text": text})

    def throw_away(self, reason: str, datagram: Datagram, *, ordinary: bool = False) -> None:
        """Count it, and say so in the log now and then, with its sender."""
        self._counters.dropped[reason] += 1
        if ordinary:
            return
        self._counters.lately.note("dropped", reason, datagram.address)
        self._complaints += 1
        now = trio.current_time()
        if now - self._complained_at >= COMPLAINT_S:
            self._complained_at = now
            words = (
                "datagram from %(peer)s port %(port)d thrown away: %(reason)s (%(number)d since the last such line; "
                "subord_input_dropped_total counts them by reason)"
            )
            fields = {"peer": datagram.address, "port": datagram.port, "reason": reason, "number": self._complaints}
            logger.warning(words, fields)
            self._complaints = 0


class _Content:
    """A message that is put into words only when the line is written: most of a flood of them are not."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def __str__(self) -> str:
        words = repr(self._message)
        return words if len(words) <= CONTENT_CHARS_MAX else words[:CONTENT_CHARS_MAX] + "..."


def told(done: str, way: str, message: Message, peer: str) -> None:
    """A message as a debug line. Callers look first whether anybody wants it: it costs more than the message."""
    fields = {"type": kind_of(message), "peer": peer, "content": _Content(message)}
    logger.debug(f"{done} %(type)s {way} %(peer)s: %(content)s", fields, extra={"event": done})


def kind_of(message: Message) -> str:
    """The name under which a message is counted."""
    return type(message).__name__.lower()
