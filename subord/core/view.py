"""The state of a node as plain values, for the commands, the web page, the lab and the checkers.

Positions count from 1 and are unique in the network; the caller turns them into addresses. Ages are seconds before
the moment of asking: clock times never leave a process.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

import msgspec

Position = int
Incarnation = int


class Place(enum.Enum):
    """The place of a node (docs/protocol.md, section 2)."""

    ROOT = "root"
    HOME = "home"
    GUEST = "guest"


PLACES: Final = tuple(Place)
"""By their codes in the rows of beats (messages.Change)."""
PLACE_CODES: Final = {place: code for code, place in enumerate(PLACES)}


class Liveness(enum.Enum):
    """The state of a node of the roster."""

    LIVE = "live"
    STALE = "stale"  # the subordinate that reported it is silent
    MISSING = "missing"  # vanished without goodbye
    HELD = "held"  # a node above it lost its leader and keeps its branch


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """One subordinate as its leader sees it."""

    position: Position
    place: Place
    incarnation: Incarnation
    since_s: float
    heard_s: float
    below: int  # nodes in its subtree, itself included
    silent: bool  # overdue: suspected, not yet given up


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of one candidate."""

    position: Position
    answer: str  # a word or sentence, e.g. "accepted", "full", "no answer", "no daemon there"
    ago_s: float


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A peer with other settings or wire versions."""

    address: str
    by: Literal["them", "us"]
    reason: str
    ago_s: float
    times: int


class RosterRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a subtree, as the owner of the roster knows it."""

    position: Position
    leader: Position | None
    place: Place
    incarnation: Incarnation
    since_s: float
    liveness: Liveness
    performance: float | None = None  # the middle of its class: jobs in the unit of time of this cluster
    round_trip_s: float | None = None  # to its leader, the middle of its class
    key: bytes = b""  # that it proved; empty: it is not bound to one


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """The last measured distance of another node."""

    position: Position
    round_trip_s: float  # the least of the samples
    performance: float | None
    ago_s: float


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """What a node measures, and its rank (docs/mappings.md)."""

    mapping: str
    performance: float | None = None  # as measured or supplied, smoothed
    performance_class: int = 0  # 0: unknown
    standing_class: int = 0  # by which the node ranks; 0: unknown, ranks last
    wanted_level: int | None = None  # by its rank, as the root last said
    level: int = 0  # in the real tree: the number of leaders above
    near: tuple[Near, ...] = ()  # nearest first
    moves: int = 0  # for a better rank or a nearer leader
    moves_held: int = 0  # not made: too many in this hour


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    position: Position
    level: int
    offset: int
    incarnation: Incarnation
    phase: str
    place: Place | None  # None: no place yet
    leader: Position | None
    since_s: float  # in this place
    home: Position | None  # the computed leader; None for the lowest position
    root: Position | None
    path: tuple[Position, ...]  # root first, the leader last
    alternates: tuple[Position, ...]
    adrift: bool  # a node above lost its leader
    subordinates: tuple[Edge, ...]
    subtree_nodes: int  # live, the node itself included
    subtree_not_home: int
    leader_changes: int
    exchanges: int  # answered questions and proposals
    refusals: tuple[Refusal, ...]
    tables: dict[str, int]  # entries of everything that could grow (docs/protocol.md, S5)
    ranking: Ranking
    unlisted: tuple[Position, ...] = ()  # nodes that the root does not list: this one, or nodes that told the root
    refused: str | None = None  # of a root: how many candidates refused it, and why
    disputed: tuple[Position, ...] = ()  # nodes that two subordinates report as living for long
    unbound: int = 0  # live nodes of the subtree without identity, or behind an older release
    rekeyed: tuple[Position, ...] = ()  # addresses for which other nodes hold another key than this one


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node has its place."""

    position: Position
    place: Place | None
    leader: Position | None
    reason: str  # one sentence
    ranked: tuple[Position, ...]  # the first candidates, best first
    asked: tuple[Asked, ...]  # the last answers of candidates, newest first
    ranking: Ranking


class RosterView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole subtree of one node."""

    owner: Position
    is_root: bool
    root: Position | None
    leader: Position | None
    quiet_s: float  # since the last change in it
    rows: tuple[RosterRow, ...]  # the owner first, then by position
    unlisted: tuple[Position, ...] = ()  # as in Snapshot
    refused: str | None = None  # as in Snapshot
