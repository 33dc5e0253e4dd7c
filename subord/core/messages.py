"""The messages of the protocol, and the bounds of their fields.

Finding a leader      Propose -> Accept | Refuse      asks for a slot below the receiver
                      Ask     -> Advice               asks for the root and for free slots
                      Back                            tells a guest that its home is alive
                      Announce (multicast)            tells all nodes of a root
                      Errand                          delegates probes to a node of the tree
                      Meet                            tells a root of another root
                      Probe   -> Pong                 measures a round trip
Staying attached      Beat    -> Echo | Stranger      keeps an edge alive, reports the subtree
                      Guide                           tells subordinates a new path to the root
Leaving               Goodbye
Not fitting           Versions                        lists the wire versions of the sender

Every message but Versions carries the incarnation of its sender, so a message of an earlier process at the same
address is recognized (docs/protocol.md, S4). Positions count from 1.

A new message: a struct with the next tag and a place in `Message`; its case in node.py, or in runtime/driver.py if
the core does not handle it; `positions_named` if it names nodes; `learn` in mapping/rank_classes.py if it states a
standing; sealing/policy.py if it is routine (sent without a ticket) or timed (not to be repeated). A daemon of an
older release drops unknown messages and unknown values of an enum as malformed and answers nothing; unknown fields at
the end it reads over, and does not pass them on.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, TypeAlias

import msgspec

from subord.core.quantize import CLASS_MAX, UNKNOWN
from subord.core.settings import Settings

PATH_POSITIONS_MAX = 64
ALTERNATES_MAX = 16
HINTS_MAX = 8
CHANGES_MAX = 24  # rows of one beat: 24 of the longest rows without proof fit into one datagram
ROWS_BYTES_MAX = 1104  # of the rows of one beat; core/state/roster.py sends as many as fit
VERSIONS_MAX = 8
RETRY_MS_MAX = 1000  # the longest time for which a busy node puts off a proposer
AGE_S_MAX = 1 << 31  # 68 years. The age of a row grows while the row is kept, and stops here
TERM_CHARACTERS_MAX = 200
REASON_CHARACTERS_MAX = 300
KEY_BYTES, PROOF_BYTES = 32, 64  # of Ed25519 (RFC 8032)

# The decoder checks these bounds, so no message grows the memory of a node, lengthens its timers, or carries a
# number that the node cannot pass on.
Number = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
Age = Annotated[int, msgspec.Meta(ge=0, le=AGE_S_MAX)]
Position = Annotated[int, msgspec.Meta(ge=1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=600_000)]
Term = Annotated[str, msgspec.Meta(max_length=TERM_CHARACTERS_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]
Path = Annotated[tuple[Position, ...], msgspec.Meta(max_length=PATH_POSITIONS_MAX)]
Alternates = Annotated[tuple[Position, ...], msgspec.Meta(max_length=ALTERNATES_MAX)]
Hints = Annotated[tuple[Position, ...], msgspec.Meta(max_length=HINTS_MAX)]
Levels = Annotated[tuple[Count, ...], msgspec.Meta(max_length=HINTS_MAX)]
Class = Annotated[int, msgspec.Meta(ge=0, le=CLASS_MAX)]  # of a measured quantity (core/quantize.py)
Key = Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)]  # of an identity (core/identity/signer.py); empty: none
Proof = Annotated[bytes, msgspec.Meta(max_length=PROOF_BYTES)]  # what it proves: core/identity/contents.py


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """The settings that two nodes must share to stand in one tree."""

    network: Term
    fanout: Count
    guest_slots: Count
    mapping: Term
    numbering: Term
    timing: Term

    @classmethod
    def of(cls, settings: Settings) -> Terms:
        text = settings.network.text
        if len(text) > TERM_CHARACTERS_MAX:
            text = settings.network.fingerprint
        return cls(
            text,
            settings.fanout,
            settings.guest_slots,
            settings.mapping,
            settings.numbering_name,
            settings.timing_name,
        )


TERM_WORDS = {"fanout": "fan-out", "guest_slots": "guest slots"}


def difference(theirs: Terms, ours: Terms) -> str | None:
    """The terms in which `theirs` differ, e.g. "fan-out 8, we use 4"; None when they are equal."""
    parts = [
        f"{TERM_WORDS.get(name, name)} {getattr(theirs, name)}, we use {getattr(ours, name)}"
        for name in Terms.__struct_fields__
        if getattr(theirs, name) != getattr(ours, name)
    ]
    return "; ".join(parts)[:REASON_CHARACTERS_MAX] or None


class Wish(enum.IntEnum):
    """What kind of slot a proposer may get."""

    HOME = 0
    GUEST = 1
    DISPLACE = 2  # all nodes are full: take the slot of a guest that ranks above the proposer
    SWAP = 3  # take the slot of such a guest if its party is at most half as large


class No(enum.IntEnum):
    """Why a proposal is refused.

    edges/slots.py decides on FULL and RANK, ingress.py on TERMS, edges/subordinates.py on BUSY and LEAVING: BUSY says
    that the same proposal may be granted later. The
    proposer reacts in search/search.py; a node that its own leader refuses, except with BUSY, gives that leader up
    (node.py). Each reason has its words in REFUSALS.
    """

    FULL = 0
    RANK = 1  # the proposer does not rank above the leader
    TERMS = 2  # settings differ, or the key is not accepted
    BUSY = 3  # too many questions, an older process of a subordinate, or a cycle is possible
    LEAVING = 4


REFUSALS: dict[No, str] = {
    No.FULL: "no free slot",
    No.RANK: "only a lower rank may lead",
    No.TERMS: "settings or keys differ",
    No.BUSY: "not now",
    No.LEAVING: "about to leave",
}
"""In words; for TERMS the text of `Refuse` says which."""


class Why(enum.IntEnum):
    """Why a node says goodbye."""

    LEAVING = 0  # to subordinates: find another leader; this one answers for a while
    LEFT = 1  # to the leader: the node stops
    MOVED = 2  # to the old leader: the node has another one
    DISPLACED = 3  # to a guest: a lower rank took its slot


class Guidance(msgspec.Struct, frozen=True, array_like=True):
    """What a leader tells its subordinates about the tree above them."""

    version: Number  # goes up when the content changes; a beat names the version last seen
    path: Path  # root first, the sender last
    alternates: Alternates  # leaders for the case that the sender dies
    siblings: Alternates  # subordinates of the sender with a free guest slot
    adrift: bool  # a node on the path lost its leader and keeps its branch


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The row of one node of a subtree, as reported upwards (docs/protocol.md, section 5).

    The node fills it in edges/own_row.py. claims.py decides when it counts as changed, and state/digests.py which
    fields both ends compare: a new field stays out of the digest. It is shown by snapshots.py as view.RosterRow, and
    by api/models/members.py and api/models/nodes.py as JSON (docs/schemas).
    """

    position: Position
    leader: Number  # 0: none
    place: Annotated[int, msgspec.Meta(ge=0, le=2)]  # 0 root, 1 home, 2 guest
    incarnation: Number
    moves: Count  # leader changes of that node in this incarnation
    age_s: Age  # in its place
    missing: bool = False
    performance: Class = UNKNOWN  # as that node measures it
    standing: Class = UNKNOWN  # the performance by which it ranks
    round_trip: Class = UNKNOWN  # to its leader
    key: Key = b""  # of that node; empty: not proven
    proof: Proof = b""  # by that node, of this row, or of its proposal
    exchange: Number = 0  # of that proposal, until its own first row comes; 0: the proof is of the row
    wish: Wish = Wish.HOME  # of that proposal


class Propose(msgspec.Struct, frozen=True, array_like=True, tag=1):
    incarnation: Number
    exchange: Number
    terms: Terms
    wish: Wish
    nodes: Count = 1  # of the proposer's party, itself included
    standing: Class = UNKNOWN  # by which the proposer will rank
    key: Key = b""
    proof: Proof = b""


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=2):
    incarnation: Number
    exchange: Number
    guidance: Guidance
    key: Key = b""
    proof: Proof = b""


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=3):
    incarnation: Number
    exchange: Number
    no: No
    text: Reason
    retry_ms: Annotated[int, msgspec.Meta(ge=0, le=RETRY_MS_MAX)]
    hints: Hints
    highest_guest: Number  # of the refuser; 0: none. A node that ranks below it may displace it
    standing: Class = UNKNOWN  # of the refuser


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=4):
    incarnation: Number  # of the asker
    exchange: Number
    terms: Terms
    asker: Number = 0  # the root that delegated the question to the sender; 0: the sender itself
    standing: Class = UNKNOWN  # of the asker
    performance: Class = UNKNOWN
    listing: Count = 0  # 0: asks for room. n: asks whether the root lists the asker, for the n-th time
    suspect: Number = 0  # the leader of sender and receiver, which does not answer the sender; 0: none

    def about_listing(self, times: int) -> Ask:
        return msgspec.structs.replace(self, listing=times)


class Advice(msgspec.Struct, frozen=True, array_like=True, tag=5):
    incarnation: Number
    exchange: Number
    room: bool  # for the asker, below the answering node
    root: Number  # without a leader: the lowest position that the answering node heard lately
    hints: Hints  # best first
    highest_guest: Number
    levels: Levels = ()  # of the hints, in the real tree
    wanted: Count = 0  # level where the asker belongs, by its rank among the living; 0: unknown
    swap: Number = 0  # a full leader with a guest that gives way to a SWAP; 0: none
    swap_level: Count = 0
    standing: Class = UNKNOWN  # of the answering node
    root_standing: Class = UNKNOWN
    others: Hints = ()  # live nodes that may lead the asker, drawn at random for measuring
    listed: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0  # 0 not told, 1 yes, 2 no


class Back(msgspec.Struct, frozen=True, array_like=True, tag=6):
    incarnation: Number
    home: Position


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=7):
    incarnation: Number
    leader_incarnation: Number
    number: Number
    next_ms: Milliseconds  # the next beat is promised within this time
    guidance_seen: Number
    changes: Annotated[tuple[Change, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()
    gone: Annotated[tuple[Position, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()
    more: bool = False  # further changes did not fit into this beat
    rows: Count = 0  # that the sender lists, itself included; 0: not told
    digest: Count = 0  # of these rows (state/digests.py); 0: not told
    guidance_digest: Count = 0  # of the guidance that the sender holds; 0: not told


class Echo(msgspec.Struct, frozen=True, array_like=True, tag=8):
    incarnation: Number
    number: Number
    guidance: Guidance | None = None


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Answer to a beat of a node that is not a subordinate of the sender; the node proposes again."""

    incarnation: Number
    number: Number


class Guide(msgspec.Struct, frozen=True, array_like=True, tag=10):
    incarnation: Number
    guidance: Guidance


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=11):
    incarnation: Number
    why: Why
    alternates: Alternates = ()
    key: Key = b""
    proof: Proof = b""


class Versions(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Answer to a datagram of a version that the sender does not speak. Every version reads it."""

    spoken: Annotated[tuple[Number, ...], msgspec.Meta(max_length=VERSIONS_MAX)]


class Announce(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """Multicast of a node without a leader. Receivers send no answer to it."""

    incarnation: Number
    terms: Terms
    standing: Class = UNKNOWN


class Errand(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """From a root to a node of its tree: ask these targets in the name of the root."""

    incarnation: Number
    exchange: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]  # of the first target; the next targets count on
    targets: Hints
    standing: Class = UNKNOWN


class Meet(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """To the root of another tree, or to a node without a leader: a lower root exists."""

    incarnation: Number
    root: Position
    standing: Class = UNKNOWN  # of that root


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=16):
    incarnation: Number
    number: Number


class Pong(msgspec.Struct, frozen=True, array_like=True, tag=17):
    incarnation: Number
    number: Number
    held_us: Count  # between the arrival of the probe and this answer
    performance: Class = UNKNOWN


Signed: TypeAlias = Propose | Accept | Goodbye
"""The messages that their senders sign (core/identity/identity.py)."""
Message: TypeAlias = (
    Propose
    | Accept
    | Refuse
    | Ask
    | Advice
    | Back
    | Beat
    | Echo
    | Stranger
    | Guide
    | Goodbye
    | Versions
    | Announce
    | Errand
    | Meet
    | Probe
    | Pong
)


BARE_FIELDS = Change.__struct_fields__.index("key")
ROW_FIELDS = Change.__struct_fields__.index("exchange")


def bare(change: Change) -> Change:
    """The row without its proof."""
    return msgspec.structs.replace(change, key=b"", proof=b"", exchange=0, wish=Wish.HOME) if change.key else change


def written_row(change: Change) -> tuple[object, ...]:
    """The fields of a row on the wire: those of the proof only where there is one."""
    fields = msgspec.structs.astuple(change)
    return fields if change.exchange else fields[: ROW_FIELDS if change.key else BARE_FIELDS]


def written(message: Message) -> object:
    """What the codec encodes: without a key, a message that ends with key and proof does not have them."""
    match message:
        case Beat() if message.changes:
            return msgspec.structs.replace(message, changes=tuple(map(written_row, message.changes)))
        case Propose() | Accept() | Goodbye() if not message.key:
            return (message.__struct_config__.tag, *msgspec.structs.astuple(message)[:-2])
        case _:
            return message


def positions_named(message: Message) -> Iterator[int]:  # noqa: PLR0911 - one return a shape
    """Every position in the message that the node may act on, 0 (none) included; some may not exist in the network.

    The suspect of an `Ask` is only compared with the leader.
    """
    match message:
        case Beat():
            return chain(message.gone, *((change.position, change.leader) for change in message.changes))
        case Accept() | Guide():
            return _guided(message.guidance)
        case Echo():
            return iter(()) if message.guidance is None else _guided(message.guidance)
        case Refuse():
            return chain(message.hints, (message.highest_guest,))
        case Advice():
            return chain(message.hints, message.others, (message.highest_guest, message.root, message.swap))
        case Goodbye():
            return iter(message.alternates)
        case Back():
            return iter((message.home,))
        case Ask():
            return iter((message.asker,))
        case Errand():
            return iter(message.targets)
        case Meet():
            return iter((message.root,))
        case _:
            return iter(())


def _guided(guidance: Guidance) -> Iterator[int]:
    return chain(guidance.path, guidance.alternates, guidance.siblings)
