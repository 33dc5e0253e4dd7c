"""Datagrams sealed and opened: who speaks, to whom, and that it is said now. Pure: time and chance come in.

Intuition: a seal ring, a guest book and tickets. Every life of every node has a seal ring of its own, cut from the
cluster's key and its address. Whoever comes for the first time gets a ticket and is asked to come again with it: who
only repeats what others once said has none, because tickets are made anew in every life of ours. Who is in the guest
book may say each sentence once.

Nothing here needs clocks that agree, and nothing is remembered of anybody who has not shown a ticket (S10).
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
from subord.sealing.fair_rate import Shares
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
FORGET_S = 60.0  # the boot of a peer that is silent for so long may be followed by a lower one
RINGS_MAX = 4096  # seal rings that are kept ready
SAID_MAX = 2  # to each of the last LISTENERS_MAX whom we spoke to: perhaps it has to be said again
LISTENERS_MAX = 1024
VAIN_MAX = 8  # datagrams without an answer, after which a peer may have lost our primary key
CHALLENGES_PER_S = 1000.0
CHALLENGES_OF_ONE_PER_S = 50.0  # whoever repeats what one sender once said does not use up those of the others
CUTS_PER_S = 2000.0  # seal rings that are cut for strangers, at 20 us each: a flood costs no more
CHANCE_BITS = 22
JUMP_MAX = 1 << 16

End = tuple[str, int]
"""Numeric address and port."""


class Broken(enum.Enum):
    """Why a datagram was not opened. Nothing was changed by it."""

    SHORT = "too_short"
    OVERSIZED = "oversized"
    FOREIGN = "not_subord"
    UNSEALED = "unsealed"
    VERSION = "unknown_version"
    NO_KEY = "no_key"
    BAD_TAG = "bad_tag"
    CROWD = "crowd_of_strangers"  # more than CUTS_PER_S
    REPLAY = "replay"
    STALE_BOOT = "stale_boot"
    LEAP = "boot_leap"  # we are told of a life of ours that is farther ahead than any could be
    FIRST_CONTACT = "first_contact"  # authentic, but perhaps not said now: it was asked to repeat it


def boot_of(life: int, secret: bytes, number: int = 0) -> int:
    """What a life is called: its order, and behind it chance, because two lives of a node without a disk may begin at
    the same time by its clock, and must not seal with the same keys and numbers. `number`: calls of this life."""
    chance = hmac.digest(secret, b"boot %d" % number, "sha256")
    return min(life, LIFE_MAX - 1) << CHANCE_BITS | int.from_bytes(chance[:4], "big") % (1 << CHANCE_BITS)


class Opened(NamedTuple):
    """What came of one datagram: `content` for the one who waits for it, `replies` to send back."""

    content: bytes | None = None
    broken: Broken | None = None
    replies: tuple[bytes, ...] = ()
    lives_again: bool = False  # we took a higher number for our life
    lives: tuple[int, int] | None = None  # with STALE_BOOT: the life that speaks, and the later one that we know


class _Letter(NamedTuple):
    """A datagram that somebody with the key has sealed. `theirs`: the ticket it has for us."""

    header: Header
    key: Key
    source: End
    theirs: bytes
    content: bytes


class _Peer:
    """Somebody who has shown our ticket."""

    __slots__ = ("boot", "heard_at", "keeps_ours", "key_id", "ours", "ticket", "window")

    def __init__(self, ours: bytes) -> None:
        self.ours = ours  # the ticket that it has shown
        self.boot = 0
        self.heard_at = 0.0
        self.window = Window()
        self.key_id = b""  # under which it spoke last
        self.ticket = NO_TICKET  # that it gave to us
        self.keeps_ours = False  # has it written down our ticket? Who challenges us only shows it


class _Listener:
    """Somebody to whom we spoke."""

    __slots__ = ("said", "vain")

    def __init__(self) -> None:
        self.said: deque[tuple[int, bytes]] = deque(maxlen=SAID_MAX)
        self.vain = 0  # since it last spoke under our primary key


class Sealer:
    """The seal of one node in one life.

    `boot` (boot_of) is higher in every later life; `secret` are 32 random bytes of this life. What is sent counts up
    from 1.
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
        self._listeners: BoundedMap[End, _Listener] = BoundedMap(LISTENERS_MAX)
        self._rings: BoundedMap[tuple[bytes, bytes, int], AESGCM] = BoundedMap(RINGS_MAX)
        self._challenges = Shares(secret, CHALLENGES_PER_S, CHALLENGES_OF_ONE_PER_S, now)
        self._cuts = TokenBucket(CUTS_PER_S, now)

    def take(self, keyring: Keyring) -> None:
        """Another ring, of which some keys are perhaps the same."""
        self.keyring = keyring
        for listener in self._listeners.values():
            listener.vain = 0

    # -- sending ------------------------------------------------------------------------------------------

    def seal(self, content: bytes, target: End, *, is_routine: bool = False, is_repeatable: bool = True) -> bytes:
        """The datagram for `target`. `content` has at most DATAGRAM_BYTES_MAX.

        `is_routine`: what is said again and again on an edge goes without our ticket while it is answered. Everything
        else may reach a new life of somebody we know, who cannot ask us to repeat it without that.

        `is_repeatable` False: later it would be no good, as what is timed; who is asked again says it anew.
        """
        listener = self._listener(target)
        data, number = self._say(content, target, listener, tell=not is_routine or bool(listener.said))
        if is_repeatable:
            listener.said.append((number, content))
        return data

    def seal_for_all(self, content: bytes, group: End) -> tuple[bytes, ...]:
        """For a multicast group, once under each key, because the keys of the hearers are not known. No ticket."""
        keys = self.keyring.keys.values()
        return tuple(self._close(What.MESSAGE, content, group, key, NO_TICKET, tell=False)[0] for key in keys)

    def _say(self, content: bytes, target: End, listener: _Listener, *, tell: bool) -> tuple[bytes, int]:
        """(datagram, number). It tells our ticket in any case to who does not keep it."""
        peer = self._peers.get(target)
        key = self._key_for(peer, listener)
        ticket = NO_TICKET if peer is None else peer.ticket
        tell = tell or peer is None or not peer.keeps_ours
        told = self._ticket_for(target) + content if tell else content
        return self._close(What.MESSAGE, told, target, key, ticket, tell=tell)

    def _key_for(self, peer: _Peer | None, listener: _Listener) -> Key:
        """Our primary; by turns others, while the peer is not known to have that (a rotation is under way).

        A peer that has spoken under our primary may have begun a life without it: after VAIN_MAX datagrams without
        an answer all keys are taken by turns.
        """
        primary, keys = self.keyring.primary, self.keyring.keys
        if len(keys) == 1:
            return primary
        last = None if peer is None else keys.get(peer.key_id)
        if last is not None and last.id == primary.id:
            if listener.vain < VAIN_MAX:
                listener.vain += 1
                return primary
            last = None
        choice = list(keys.values()) if last is None else [primary, last]
        turn, listener.vain = listener.vain, listener.vain + 1
        return choice[(turn + turn // len(choice)) % len(choice)]  # shifted: pairs meet all keys, too

    def _close(
        self, what: What, told: bytes, target: End, key: Key, ticket: bytes, *, tell: bool
    ) -> tuple[bytes, int]:
        """`tell`: `told` begins with a ticket for the target."""
        self._number += 1
        header = pack(Header(what, tell, key.id, self.boot, self._number, ticket))
        ring = self._ring(key, self._own, self.boot)
        return header + ring.encrypt(_nonce(self._number), told, header + self._own + endpoint(*target)), self._number

    # -- receiving ----------------------------------------------------------------------------------------

    def open(self, data: bytes, source: End, now: float, *, group: End | None = None) -> Opened:
        """What a datagram says. Never raises, whatever comes in. `group`: the multicast group it was sent to."""
        letter = self._letter(data, source, self._own if group is None else endpoint(*group), now)
        if isinstance(letter, Broken):
            return Opened(broken=letter)
        known = self._peers.get(source)
        is_old = known is not None and letter.header.boot < known.boot
        if group is not None:
            return Opened(broken=Broken.STALE_BOOT) if is_old else self._heard_by_all(letter)
        if known is not None and is_old:
            return self._too_old(letter, known, now)
        if not hmac.compare_digest(letter.header.ticket, self._ticket_for(source)):
            is_new = known is None or letter.header.boot > known.boot or known.window.is_ahead(letter.header.number)
            asks = letter.header.what is What.MESSAGE  # what only answers is not worth a question
            return self._challenge(letter, now) if is_new and asks else Opened(broken=Broken.REPLAY)
        return self._heard_now(letter, self._peer(source), now)

    def _letter(self, data: bytes, source: End, target: bytes, now: float) -> _Letter | Broken:
        """Authentic, but perhaps not said now."""
        header = _header_of(data)
        if isinstance(header, Broken):
            return header
        key = self.keyring.keys.get(header.key_id)
        if key is None:
            return Broken.NO_KEY
        ring = self._ring_of(header, key, source, now)
        if ring is None:
            return Broken.CROWD
        told = self._unseal(data, header, ring, endpoint(*source), target)
        if told is None:
            return Broken.BAD_TAG
        self._rings[key.id, endpoint(*source), header.boot] = ring  # only now: forgers push out nobody
        cut = TICKET_BYTES if header.tells else 0
        return _Letter(header, key, source, told[:cut] or NO_TICKET, told[cut:])

    def _ring_of(self, header: Header, key: Key, source: End, now: float) -> AESGCM | None:
        """With what its words were sealed, if they were. None: too many strangers, none of them is tried."""
        end = endpoint(*source)
        ring = self._rings.get((key.id, end, header.boot))
        if ring is None:
            known = self._peers.get(source)
            is_kept = known is not None and (known.boot, known.key_id) == (header.boot, header.key_id)
            if not is_kept and not self._cuts.admit(now):
                return None
            ring = _new_ring(key, end, header.boot)
        return ring

    @staticmethod
    def _unseal(data: bytes, header: Header, ring: AESGCM, source: bytes, target: bytes) -> bytes | None:
        clear, closed = data[:HEADER_BYTES], data[HEADER_BYTES:]
        try:
            told = ring.decrypt(_nonce(header.number), closed, clear + source + target)
        except InvalidTag:
            return None
        return None if header.tells and len(told) < TICKET_BYTES else told

    @staticmethod
    def _heard_by_all(letter: _Letter) -> Opened:
        """It may be a repetition: what is said to all must not change anything by itself."""
        to_all = letter.header.what is What.MESSAGE and not letter.header.tells
        return Opened(letter.content) if to_all else Opened(broken=Broken.REPLAY)

    def _heard_now(self, letter: _Letter, peer: _Peer, now: float) -> Opened:
        opened = self._fresh(letter, peer)
        if opened.broken is not Broken.REPLAY:
            peer.heard_at = now
        return opened

    def _fresh(self, letter: _Letter, peer: _Peer) -> Opened:
        header = letter.header
        if header.boot > peer.boot:
            peer.boot, peer.window, peer.ticket, peer.keeps_ours = header.boot, Window(), NO_TICKET, False
        is_latest = peer.window.is_ahead(header.number)
        if not peer.window.accept(header.number):
            return Opened(broken=Broken.REPLAY)
        if is_latest:  # what was overtaken may know less than what overtook it
            peer.key_id = header.key_id
            listener = self._listeners.get(letter.source)
            if listener is not None and header.key_id == self.keyring.primary.id:
                listener.vain = 0
            peer.ticket = letter.theirs if letter.theirs != NO_TICKET else peer.ticket
        match header.what:
            case What.MESSAGE:
                peer.keeps_ours = True
                self._forget_said(letter.source)  # it answers, so it has heard
                return Opened(letter.content)
            case What.CHALLENGE:
                return Opened(replies=tuple(self._again(letter.content, letter.source)))
            case What.NEWER:
                return self._live_again(letter.content, letter.source)

    # -- first contact ------------------------------------------------------------------------------------

    def _challenge(self, letter: _Letter, now: float) -> Opened:
        """Authentic, but said when? Nothing is remembered; the answer is no longer than the question."""
        if not self._may_answer(letter, now):
            return Opened(broken=Broken.REPLAY)
        answer = self._answer(What.CHALLENGE, letter.header.number, letter)
        return Opened(broken=Broken.FIRST_CONTACT, replies=(answer,))

    def _may_answer(self, letter: _Letter, now: float) -> bool:
        """Only what tells us a ticket, and is as long as the answer: nobody may use us to make more of little.

        A challenge of a life that we think is over is answered, too: it may never say anything else to us.
        """
        told = letter.header.what is not What.NEWER and letter.theirs != NO_TICKET
        return told and len(letter.content) >= NUMBER_BYTES and self._challenges.admit(endpoint(*letter.source), now)

    def _answer(self, what: What, number: int, letter: _Letter, ours: bytes | None = None) -> bytes:
        """Under the key and with the ticket that it came with; `ours`: the ticket that it is told."""
        content = number.to_bytes(NUMBER_BYTES, "big")
        told = ours or self._ticket_for(letter.source)
        return self._close(what, told + content, letter.source, letter.key, letter.theirs, tell=True)[0]

    def _again(self, content: bytes, source: End) -> Iterator[bytes]:
        """What it did not believe, with its ticket; each sentence once."""
        refused, listener = int.from_bytes(content, "big"), self._listener(source)
        waiting = [each for number, each in listener.said if number >= refused]
        listener.said.clear()
        for each in waiting:
            yield self._say(each, source, listener, tell=True)[0]

    def _too_old(self, letter: _Letter, known: _Peer, now: float) -> Opened:
        """A life before the one we know: a repetition; or its clock was set back and it has no disk.

        When the later life has been silent for FORGET_S, this one is believed as soon as it shows a ticket that was
        made for it. Until then nothing is changed.
        """
        is_silent, ours = now - known.heard_at >= FORGET_S, self._next_ticket(known)
        if is_silent and hmac.compare_digest(letter.header.ticket, ours):
            self._peers[letter.source] = _Peer(ours)
            return self._heard_now(letter, self._peers[letter.source], now)
        lives = letter.header.boot >> CHANCE_BITS, known.boot >> CHANCE_BITS
        if not self._may_answer(letter, now):
            return Opened(broken=Broken.STALE_BOOT, lives=lives)
        if is_silent and letter.header.what is What.MESSAGE:
            reply = self._answer(What.CHALLENGE, letter.header.number, letter, ours)
        else:
            reply = self._answer(What.NEWER, known.boot, letter)
        return Opened(broken=Broken.STALE_BOOT, replies=(reply,), lives=lives)

    def _live_again(self, content: bytes, source: End) -> Opened:
        """Farther than one step: another such life may have taken that, and its answer may have been lost."""
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
        return Opened(replies=tuple(self._again(bytes(NUMBER_BYTES), source)), lives_again=True)

    # -- what is kept -------------------------------------------------------------------------------------

    def _forget_said(self, end: End) -> None:
        listener = self._listeners.get(end)
        if listener is not None:
            listener.said.clear()

    def _listener(self, end: End) -> _Listener:
        listener = self._listeners[end] = self._listeners.get(end) or _Listener()
        return listener

    def _peer(self, end: End) -> _Peer:
        peer = self._peers.get(end)
        if peer is None:
            if len(self._peers) >= PEERS_MAX:
                self._peers.clear()
                self._era += 1  # all tickets are void: nobody's old sentences become new
            peer = self._peers[end] = _Peer(self._ticket_for(end))
        return peer

    def _ticket_for(self, end: End) -> bytes:
        known = self._peers.get(end)
        if known is not None:
            return known.ours
        words = endpoint(*end) + self._era.to_bytes(8, "big")
        return hmac.digest(self._secret, words, "sha256")[:TICKET_BYTES]

    def _next_ticket(self, known: _Peer) -> bytes:
        """For a life with a lower boot at the same end: nothing that was said to us until now has shown it."""
        return hmac.digest(self._secret, b"next" + known.ours, "sha256")[:TICKET_BYTES]

    def _ring(self, key: Key, end: bytes, boot: int) -> AESGCM:
        name = key.id, end, boot
        ring = self._rings.get(name) or _new_ring(key, end, boot)
        self._rings[name] = ring
        return ring

    def has_met(self, end: End) -> bool:
        """Whether its datagrams have shown our ticket, hence the key."""
        return end in self._peers

    def sizes(self) -> dict[str, int]:
        """How full our tables are."""
        return {
            "sealed_peers": len(self._peers),
            "sealed_listeners": len(self._listeners),
            "seal_rings": len(self._rings),
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


def _new_ring(key: Key, end: bytes, boot: int) -> AESGCM:
    return AESGCM(derive(key.secret, INFO_DATAGRAM + end + boot.to_bytes(8, "big")))


def _nonce(number: int) -> bytes:
    """Never twice under one ring: numbers count up within a life."""
    return bytes(4) + number.to_bytes(8, "big")
