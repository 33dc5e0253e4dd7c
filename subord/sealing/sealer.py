"""The sealer: seals datagrams, opens them, and proves that they are current (docs/protocol/sealing.md).

Input are contents, datagrams, keys, time and randomness; output are datagrams, contents, and replies. Each node has a
cipher of its own in each incarnation, derived from the cluster's key and its address. A receiver gives each sender a
ticket that is valid in its present incarnation only; a datagram without it is challenged, so a replay is recognized.
Clocks need not agree, and nothing is kept of a node that has not shown a ticket (S10).
"""

from __future__ import annotations

import enum
import hmac
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from subord.core.pacing.token_bucket import TokenBucket
from subord.core.tables import BoundedMap
from subord.sealing import turns
from subord.sealing.fair_rate import FairRate
from subord.sealing.header import (
    HEADER_BYTES,
    NO_TICKET,
    OVERHEAD_BYTES,
    SEALED_BYTES_MAX,
    SEALED_VERSION,
    TICKET_BYTES,
    Header,
    What,
    endpoint,
    pack,
    unpack,
)
from subord.sealing.incarnation import LIFE_MAX, highest
from subord.sealing.keys import INFO_DATAGRAM, Key, Keyring, derive
from subord.sealing.replay import Window
from subord.wire.codec import MAGIC

NUMBER_BYTES: Final = 8
PEERS_MAX = 8192
FORGET_S = 60.0  # a peer that is silent for so long may be followed by a lower boot
CIPHERS_MAX = 4096  # derived ciphers that are kept
SENT_MAX = 2  # datagrams per receiver that may have to be repeated
RECEIVERS_MAX = 1024
UNANSWERED_MAX = 8  # datagrams without an answer, after which a peer may have lost the primary key
CHALLENGES_PER_S = 1000.0
CHALLENGES_OF_ONE_PER_S = 50.0  # a sender that is replayed does not use up the challenges of others
DERIVATIONS_PER_S = 2000.0  # of unknown senders, at 20 us each: bounds the cost of a flood
CHANCE_BITS = 22
JUMP_MAX = 1 << 16

End = tuple[str, int]
"""Numeric address and port."""


class Broken(enum.Enum):
    """Why a datagram was not opened. It has no effect."""

    SHORT = "too_short"
    OVERSIZED = "oversized"
    FOREIGN = "not_subord"
    UNSEALED = "unsealed"
    VERSION = "unknown_version"
    NO_KEY = "no_key"
    BAD_TAG = "bad_tag"
    CROWD = "crowd_of_strangers"  # more than DERIVATIONS_PER_S
    REPLAY = "replay"
    STALE_BOOT = "stale_boot"
    LEAP = "boot_leap"  # another node reports an incarnation of this one that is impossibly far ahead
    FIRST_CONTACT = "first_contact"  # authentic, but perhaps not current: the sender was challenged


def boot_of(life: int, secret: bytes, number: int = 0) -> int:
    """The boot number of an incarnation: its order, then a random part, because two incarnations of a node without
    disk may start at the same clock time and must not share keys and numbers. `number` counts renewals."""
    chance = hmac.digest(secret, b"boot %d" % number, "sha256")
    return min(life, LIFE_MAX - 1) << CHANCE_BITS | int.from_bytes(chance[:4], "big") % (1 << CHANCE_BITS)


class Opened(NamedTuple):
    """The result of one datagram: `content` for the receiver, `replies` to send back."""

    content: bytes | None = None
    broken: Broken | None = None
    replies: tuple[bytes, ...] = ()
    lives_again: bool = False  # this node took a higher boot number
    lives: tuple[int, int] | None = None  # with STALE_BOOT: the sender's incarnation, and the later one known


class _Authentic(NamedTuple):
    """A datagram of a holder of the key. `theirs`: the sender's ticket for this node."""

    header: Header
    key: Key
    source: End
    theirs: bytes
    content: bytes


class _Peer:
    """A node that has shown its ticket."""

    __slots__ = ("boot", "heard_at", "keeps_ours", "key_id", "ours", "ticket", "window")

    def __init__(self, ours: bytes) -> None:
        self.ours = ours  # the ticket that it has shown
        self.boot = 0
        self.heard_at = 0.0
        self.window = Window()
        self.key_id = b""  # of its latest datagram
        self.ticket = NO_TICKET  # its ticket for this node
        self.keeps_ours = False  # whether it stores the ticket: a challenger only shows it


class _Receiver:
    """A node to which datagrams were sent."""

    __slots__ = ("sent", "unanswered")

    def __init__(self) -> None:
        self.sent: deque[tuple[int, bytes]] = deque(maxlen=SENT_MAX)
        self.unanswered = 0  # datagrams since its last one under the primary key


class Sealer:
    """The sealer of one node in one incarnation.

    `boot` (boot_of) is higher in every later incarnation; `secret` are 32 random bytes of this one. Datagrams are
    numbered from 1.
    """

    def __init__(self, keyring: Keyring, own: End, boot: int, secret: bytes, now: float) -> None:
        self.keyring = keyring
        self.boot = boot
        self._own = endpoint(*own)
        self._secret = secret
        self._era = 0
        self._number = 0
        self._lives = 0
        self._life_max = highest(boot >> CHANCE_BITS)
        self._peers: dict[End, _Peer] = {}
        self._receivers: BoundedMap[End, _Receiver] = BoundedMap(RECEIVERS_MAX)
        self._ciphers: BoundedMap[tuple[bytes, bytes, int], AESGCM] = BoundedMap(CIPHERS_MAX)
        self._challenges = FairRate(secret, CHALLENGES_PER_S, CHALLENGES_OF_ONE_PER_S, now)
        self._derivations = TokenBucket(DERIVATIONS_PER_S, now)

    def take(self, keyring: Keyring) -> None:
        """Use another key ring, which may share keys with the present one."""
        self.keyring = keyring
        for receiver in self._receivers.values():
            receiver.unanswered = 0

    # -- sending ------------------------------------------------------------------------------------------

    def seal(self, content: bytes, target: End, *, is_routine: bool = False, is_repeatable: bool = True) -> bytes:
        """The datagram for `target`. `content` has at most DATAGRAM_BYTES_MAX.

        `is_routine`: regular messages of an edge go without a ticket while they are answered. Any other datagram may
        reach a new incarnation of a known node, which needs the ticket to challenge it.

        `is_repeatable` False: a repetition would be useless, as of timed probes; the sender sends a new one.
        """
        receiver = self._receiver(target)
        data, number = self._send(content, target, receiver, with_ticket=not is_routine or bool(receiver.sent))
        if is_repeatable:
            receiver.sent.append((number, content))
        return data

    def seal_for_all(self, content: bytes, group: End) -> tuple[bytes, ...]:
        """Datagrams for a multicast group, one under each key, because the receivers' keys are unknown; no ticket."""
        keys = self.keyring.keys.values()
        return tuple(
            self._encrypt(What.MESSAGE, content, group, key, NO_TICKET, with_ticket=False)[0] for key in keys
        )

    def _send(self, content: bytes, target: End, receiver: _Receiver, *, with_ticket: bool) -> tuple[bytes, int]:
        """(datagram, number). A node that does not store the ticket gets it in any case."""
        peer = self._peers.get(target)
        key = self._key_for(peer, receiver)
        ticket = NO_TICKET if peer is None else peer.ticket
        with_ticket = with_ticket or peer is None or not peer.keeps_ours
        plain = self._ticket_for(target) + content if with_ticket else content
        return self._encrypt(What.MESSAGE, plain, target, key, ticket, with_ticket=with_ticket)

    def _key_for(self, peer: _Peer | None, receiver: _Receiver) -> Key:
        """The primary key, or by turns others while the peer may lack it, as during a rotation.

        A peer that has used the primary key may have restarted without it: after UNANSWERED_MAX datagrams without an
        answer all keys are used by turns.
        """
        primary, keys = self.keyring.primary, self.keyring.keys
        if len(keys) == 1:
            return primary
        last = None if peer is None else keys.get(peer.key_id)
        receiver.unanswered += 1
        if last is not None and last.id == primary.id:
            if receiver.unanswered <= UNANSWERED_MAX:
                return primary
            last = None
        choice = list(keys.values()) if last is None else [primary, last]
        return turns.chosen(choice, receiver.unanswered - 1)

    def _encrypt(
        self, what: What, plain: bytes, target: End, key: Key, ticket: bytes, *, with_ticket: bool
    ) -> tuple[bytes, int]:
        """`with_ticket`: `plain` begins with a ticket for the target."""
        self._number += 1
        header = pack(Header(what, with_ticket, key.id, self.boot, self._number, ticket))
        cipher = self._cipher(key, self._own, self.boot)
        return header + cipher.encrypt(
            _nonce(self._number), plain, header + self._own + endpoint(*target)
        ), self._number

    # -- receiving ----------------------------------------------------------------------------------------

    def open(self, data: bytes, source: End, now: float, *, group: End | None = None) -> Opened:
        """Open a datagram. Never raises. `group`: the multicast group it was sent to."""
        datagram = self._authenticate(data, source, self._own if group is None else endpoint(*group), now)
        if isinstance(datagram, Broken):
            return Opened(broken=datagram)
        known = self._peers.get(source)
        is_old = known is not None and datagram.header.boot < known.boot
        if group is not None:
            return Opened(broken=Broken.STALE_BOOT) if is_old else self._open_multicast(datagram)
        if known is not None and is_old:
            return self._open_older(datagram, known, now)
        if not hmac.compare_digest(datagram.header.ticket, self._ticket_for(source)):
            is_new = (
                known is None or datagram.header.boot > known.boot or known.window.is_ahead(datagram.header.number)
            )
            asks = datagram.header.what is What.MESSAGE  # answers are not challenged
            return self._challenge(datagram, now) if is_new and asks else Opened(broken=Broken.REPLAY)
        return self._open_current(datagram, self._peer(source), now)

    def _authenticate(self, data: bytes, source: End, target: bytes, now: float) -> _Authentic | Broken:
        """Check the seal. The datagram is authentic, but may be a replay."""
        header = _header_of(data)
        if isinstance(header, Broken):
            return header
        key = self.keyring.keys.get(header.key_id)
        if key is None:
            return Broken.NO_KEY
        cipher = self._cipher_of(header, key, source, now)
        if cipher is None:
            return Broken.CROWD
        plain = self._decrypt(data, header, cipher, endpoint(*source), target)
        if plain is None:
            return Broken.BAD_TAG
        self._ciphers[key.id, endpoint(*source), header.boot] = cipher  # forgers displace no entry
        cut = TICKET_BYTES if header.tells else 0
        return _Authentic(header, key, source, plain[:cut] or NO_TICKET, plain[cut:])

    def _cipher_of(self, header: Header, key: Key, source: End, now: float) -> AESGCM | None:
        """The cipher for the header; None: too many unknown senders at this moment."""
        end = endpoint(*source)
        cipher = self._ciphers.get((key.id, end, header.boot))
        if cipher is None:
            known = self._peers.get(source)
            is_kept = known is not None and (known.boot, known.key_id) == (header.boot, header.key_id)
            if not is_kept and not self._derivations.admit(now):
                return None
            cipher = _new_cipher(key, end, header.boot)
        return cipher

    @staticmethod
    def _decrypt(data: bytes, header: Header, cipher: AESGCM, source: bytes, target: bytes) -> bytes | None:
        clear, closed = data[:HEADER_BYTES], data[HEADER_BYTES:]
        try:
            plain = cipher.decrypt(_nonce(header.number), closed, clear + source + target)
        except InvalidTag:
            return None
        return None if header.tells and len(plain) < TICKET_BYTES else plain

    @staticmethod
    def _open_multicast(datagram: _Authentic) -> Opened:
        """It may be a replay: messages by multicast must have no effect by themselves."""
        to_all = datagram.header.what is What.MESSAGE and not datagram.header.tells
        return Opened(datagram.content) if to_all else Opened(broken=Broken.REPLAY)

    def _open_current(self, datagram: _Authentic, peer: _Peer, now: float) -> Opened:
        opened = self._accept(datagram, peer)
        if opened.broken is not Broken.REPLAY:
            peer.heard_at = now
        return opened

    def _accept(self, datagram: _Authentic, peer: _Peer) -> Opened:
        header = datagram.header
        if header.boot > peer.boot:
            peer.boot, peer.window, peer.ticket, peer.keeps_ours = header.boot, Window(), NO_TICKET, False
        is_latest = peer.window.is_ahead(header.number)
        if not peer.window.accept(header.number):
            return Opened(broken=Broken.REPLAY)
        if is_latest:  # an overtaken datagram has older tickets and keys
            peer.key_id = header.key_id
            receiver = self._receivers.get(datagram.source)
            if receiver is not None and header.key_id == self.keyring.primary.id:
                receiver.unanswered = 0
            peer.ticket = datagram.theirs if datagram.theirs != NO_TICKET else peer.ticket
        match header.what:
            case What.MESSAGE:
                peer.keeps_ours = True
                self._forget_sent(datagram.source)  # its answer shows that it has received them
                return Opened(datagram.content)
            case What.CHALLENGE:
                return Opened(replies=tuple(self._repeat(datagram.content, datagram.source)))
            case What.NEWER:
                return self._renew(datagram.content, datagram.source)

    # -- first contact ------------------------------------------------------------------------------------

    def _challenge(self, datagram: _Authentic, now: float) -> Opened:
        """Challenge a datagram that may be a replay. Nothing is kept; the reply is no longer than its cause."""
        if not self._may_reply(datagram, now):
            return Opened(broken=Broken.REPLAY)
        reply = self._reply(What.CHALLENGE, datagram.header.number, datagram)
        return Opened(broken=Broken.FIRST_CONTACT, replies=(reply,))

    def _may_reply(self, datagram: _Authentic, now: float) -> bool:
        """Reply only to datagrams with a ticket that are as long as the reply, so that forgers gain no amplification.

        A challenge of an incarnation that seems over is answered as well: it may be all that the node ever sends.
        """
        has_ticket = datagram.header.what is not What.NEWER and datagram.theirs != NO_TICKET
        return (
            has_ticket
            and len(datagram.content) >= NUMBER_BYTES
            and self._challenges.admit(endpoint(*datagram.source), now)
        )

    def _reply(self, what: What, number: int, datagram: _Authentic, ours: bytes | None = None) -> bytes:
        """Reply under the same key, with the sender's ticket; `ours`: the ticket to give."""
        content = number.to_bytes(NUMBER_BYTES, "big")
        ticket = ours or self._ticket_for(datagram.source)
        return self._encrypt(
            what, ticket + content, datagram.source, datagram.key, datagram.theirs, with_ticket=True
        )[0]

    def _repeat(self, content: bytes, source: End) -> Iterator[bytes]:
        """Send once more, with the ticket, what the challenger refused; each content once."""
        refused, receiver = int.from_bytes(content, "big"), self._receiver(source)
        waiting = [each for number, each in receiver.sent if number >= refused]
        receiver.sent.clear()
        for each in waiting:
            yield self._send(each, source, receiver, with_ticket=True)[0]

    def _open_older(self, datagram: _Authentic, known: _Peer, now: float) -> Opened:
        """An incarnation older than the one known: a replay, or a node without disk whose clock was set back.

        When the later one was silent for FORGET_S, the older one replaces it once it shows a ticket made for it;
        before, it has no effect.
        """
        is_silent, ours = now - known.heard_at >= FORGET_S, self._next_ticket(known)
        if is_silent and hmac.compare_digest(datagram.header.ticket, ours):
            self._peers[datagram.source] = _Peer(ours)
            return self._open_current(datagram, self._peers[datagram.source], now)
        lives = datagram.header.boot >> CHANCE_BITS, known.boot >> CHANCE_BITS
        if not self._may_reply(datagram, now):
            return Opened(broken=Broken.STALE_BOOT, lives=lives)
        if is_silent and datagram.header.what is What.MESSAGE:
            reply = self._reply(What.CHALLENGE, datagram.header.number, datagram, ours)
        else:
            reply = self._reply(What.NEWER, known.boot, datagram)
        return Opened(broken=Broken.STALE_BOOT, replies=(reply,), lives=lives)

    def _renew(self, content: bytes, source: End) -> Opened:
        """Take a boot number above the reported one, by a random jump: another such node may have taken the next."""
        later = int.from_bytes(content[:NUMBER_BYTES], "big")
        life = (later >> CHANCE_BITS) + 1
        if later <= self.boot:
            return Opened()
        if life > self._life_max:
            return Opened(broken=Broken.LEAP)
        self._lives += 1
        jump = int.from_bytes(hmac.digest(self._secret, b"jump %d" % self._lives, "sha256")[:2], "big") % JUMP_MAX
        life = min(life + jump, self._life_max)
        self.boot, self._number = boot_of(life, self._secret, self._lives), 0
        return Opened(replies=tuple(self._repeat(bytes(NUMBER_BYTES), source)), lives_again=True)

    # -- what is kept -------------------------------------------------------------------------------------

    def _forget_sent(self, end: End) -> None:
        receiver = self._receivers.get(end)
        if receiver is not None:
            receiver.sent.clear()

    def _receiver(self, end: End) -> _Receiver:
        receiver = self._receivers[end] = self._receivers.get(end) or _Receiver()
        return receiver

    def _peer(self, end: End) -> _Peer:
        peer = self._peers.get(end)
        if peer is None:
            if len(self._peers) >= PEERS_MAX:
                self._peers.clear()
                self._era += 1  # all tickets become void, so no old datagram counts as new
            peer = self._peers[end] = _Peer(self._ticket_for(end))
        return peer

    def _ticket_for(self, end: End) -> bytes:
        known = self._peers.get(end)
        if known is not None:
            return known.ours
        text = endpoint(*end) + self._era.to_bytes(8, "big")
        return hmac.digest(self._secret, text, "sha256")[:TICKET_BYTES]

    def _next_ticket(self, known: _Peer) -> bytes:
        """The ticket for a lower boot at the same endpoint, which no earlier datagram has shown."""
        return hmac.digest(self._secret, b"next" + known.ours, "sha256")[:TICKET_BYTES]

    def _cipher(self, key: Key, end: bytes, boot: int) -> AESGCM:
        name = key.id, end, boot
        cipher = self._ciphers.get(name) or _new_cipher(key, end, boot)
        self._ciphers[name] = cipher
        return cipher

    def has_met(self, end: End) -> bool:
        """Whether datagrams of `end` have shown a ticket, hence the key."""
        return end in self._peers

    def sizes(self) -> dict[str, int]:
        return {
            "sealed_peers": len(self._peers),
            "sealed_listeners": len(self._receivers),
            "seal_rings": len(self._ciphers),
        }


def _header_of(data: bytes) -> Header | Broken:
    if len(data) > SEALED_BYTES_MAX:
        return Broken.OVERSIZED
    if not data or data[0] != MAGIC:
        return Broken.FOREIGN if data else Broken.SHORT
    if len(data) > 1 and data[1] != SEALED_VERSION:
        return Broken.UNSEALED if data[1] == 1 else Broken.VERSION
    if len(data) < OVERHEAD_BYTES:
        return Broken.SHORT
    header = unpack(data)
    return Broken.VERSION if header is None or header.boot == 0 else header


def _new_cipher(key: Key, end: bytes, boot: int) -> AESGCM:
    return AESGCM(derive(key.secret, INFO_DATAGRAM + end + boot.to_bytes(8, "big")))


def _nonce(number: int) -> bytes:
    """Never used twice with one cipher: numbers count up within an incarnation."""
    return bytes(4) + number.to_bytes(8, "big")
