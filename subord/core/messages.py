"""What nodes say to each other. Read this first: these eleven messages are the protocol.

Finding a leader      Propose -> Accept | Refuse      "may I be your subordinate?"
                      Ask     -> Advice               "are you there, and where is room for me?"
                      Back                            "your home is alive again"
Staying attached      Beat    -> Echo | Stranger      "I am here, this changed below me"
                      Guide                           "our way to the root changed"
Leaving               Goodbye
Not fitting           Versions                        "I speak these versions of the wire"

Every message but Versions carries the incarnation of its sender, so that words of a predecessor at
the same address are never taken for its own (docs/protocol.md, S4). Positions are 1-based.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from subord.core.settings import Settings
from subord.core.view import Incarnation, Position

PATH_POSITIONS_MAX = 64
ALTERNATES_MAX = 16
HINTS_MAX = 8
CHANGES_MAX = 24  # rows of one beat: 24 of the longest rows stay below the datagram limit
NETWORK_CHARACTERS_MAX = 200
REASON_CHARACTERS_MAX = 300


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """The settings that two nodes must share to stand in one tree."""

    network: str
    fanout: int
    guest_slots: int
    mapping: str
    numbering: str
    timing: str

    @classmethod
    def of(cls, settings: Settings) -> Terms:
        text = settings.network.text
        if len(text) > NETWORK_CHARACTERS_MAX:
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
    """How `theirs` differ, e.g. "fan-out 8, we use 4"; None when they fit."""
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
    DISPLACE = 2  # nobody has room: take the place of a guest that ranks above the proposer


class No(enum.IntEnum):
    """Why a proposal is refused."""

    FULL = 0
    RANK = 1  # the proposer does not rank above us
    TERMS = 2  # settings differ
    BUSY = 3  # too many questions this second
    LEAVING = 4


class Why(enum.IntEnum):
    """Why somebody says goodbye."""

    LEAVING = 0  # to subordinates: find another leader, I still answer for a while
    LEFT = 1  # to the leader: I am gone
    MOVED = 2  # to the old leader: I have another one
    DISPLACED = 3  # to a guest: your slot went to a lower rank


class Guidance(msgspec.Struct, frozen=True, array_like=True):
    """What a leader tells its subordinates about the tree above them."""

    version: int  # goes up when the content changes; a beat names the version last seen
    path: tuple[Position, ...]  # root first, the sender last
    alternates: tuple[Position, ...]  # where to go when the sender dies
    siblings: tuple[Position, ...]  # subordinates of the sender with a free guest slot
    adrift: bool  # somebody on the path lost its leader and holds its branch


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One node of a subtree, as reported upwards (docs/protocol.md, section 5)."""

    position: Position
    leader: Position  # 0: none
    place: int  # 0 root, 1 home, 2 guest
    incarnation: Incarnation
    moves: int  # leader changes of that node in this incarnation
    age_s: int  # in its place
    missing: bool = False


class Propose(msgspec.Struct, frozen=True, array_like=True, tag=1):
    incarnation: Incarnation
    exchange: int
    terms: Terms
    wish: Wish


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=2):
    incarnation: Incarnation
    exchange: int
    guidance: Guidance


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag=3):
    incarnation: Incarnation
    exchange: int
    no: No
    text: str
    retry_ms: int
    hints: tuple[Position, ...]
    highest_guest: Position  # of the refuser; 0: none. Who ranks below it may displace it


class Ask(msgspec.Struct, frozen=True, array_like=True, tag=4):
    incarnation: Incarnation
    exchange: int
    terms: Terms


class Advice(msgspec.Struct, frozen=True, array_like=True, tag=5):
    incarnation: Incarnation
    exchange: int
    room: bool  # for the asker, at the answering node
    root: Position  # 0: not known
    hints: tuple[Position, ...]  # best first
    highest_guest: Position


class Back(msgspec.Struct, frozen=True, array_like=True, tag=6):
    incarnation: Incarnation
    home: Position


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=7):
    incarnation: Incarnation
    leader_incarnation: Incarnation
    number: int
    next_ms: int  # the next beat is promised within this time
    guidance_seen: int
    changes: tuple[Change, ...] = ()
    gone: tuple[Position, ...] = ()
    more: bool = False  # more changes wait than fitted in


class Echo(msgspec.Struct, frozen=True, array_like=True, tag=8):
    incarnation: Incarnation
    number: int
    guidance: Guidance | None = None


class Stranger(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Answer to a beat of somebody who is not our subordinate: who are you, propose again."""

    incarnation: Incarnation
    number: int


class Guide(msgspec.Struct, frozen=True, array_like=True, tag=10):
    incarnation: Incarnation
    guidance: Guidance


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag=11):
    incarnation: Incarnation
    why: Why
    alternates: tuple[Position, ...] = ()


class Versions(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Readable in every version: the answer to a datagram of a version that we do not speak."""

    spoken: tuple[int, ...]


Message: TypeAlias = (
    Propose | Accept | Refuse | Ask | Advice | Back | Beat | Echo | Stranger | Guide | Goodbye | Versions
)
