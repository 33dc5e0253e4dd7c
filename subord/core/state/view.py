"""What a node shows of itself: plain values, the same for the CLI, the page, the lab and the checkers.

Positions are integers, 1-based, and unique in the network; whoever shows them to people turns them
into addresses. Ages are seconds before the moment of asking: instants never leave a process.
"""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

Position = int
Incarnation = int


class Place(enum.Enum):
    """Where a node stands (docs/protocol.md, section 2)."""

    ROOT = "root"
    HOME = "home"
    GUEST = "guest"


class Standing(enum.Enum):
    """What is known of a node of the roster."""

    LIVE = "live"
    STALE = "stale"  # the one who reported it is silent just now
    MISSING = "missing"  # vanished without goodbye
    HELD = "held"  # somebody above it lost its leader and holds its branch together


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
    """Somebody and we do not fit together: settings or wire version differ."""

    address: str
    by: Literal["them", "us"]
    reason: str
    ago_s: float
    times: int


class RosterRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a subtree, as its owner knows it."""

    position: Position
    leader: Position | None
    place: Place
    incarnation: Incarnation
    since_s: float
    standing: Standing
    performance: float | None = None  # the middle of its class: jobs in the unit of time of this cluster
    round_trip_s: float | None = None  # to its leader, the middle of its class


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """How far away somebody is, as last measured."""

    position: Position
    round_trip_s: float  # the least of some samples
    performance: float | None
    ago_s: float


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """What a node measures, and what follows from it (docs/mappings.md)."""

    mapping: str
    performance: float | None = None  # as given to us, smoothed
    performance_class: int = 0  # 0: unknown
    standing_class: int = 0  # by which the node ranks; 0: unknown, after all that are known
    wanted_level: int | None = None  # by its rank, as the root last said
    level: int = 0  # in the real tree: how many are above
    near: tuple[Near, ...] = ()  # nearest first
    moves: int = 0  # made for a better rank or for a nearer leader
    moves_held: int = 0  # not made, because there were too many in this hour


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one node as one value."""

    position: Position
    level: int
    offset: int
    incarnation: Incarnation
    phase: str
    place: Place | None  # None: still looking
    leader: Position | None
    since_s: float  # in this place
    home: Position | None  # the computed leader; None for the lowest position
    root: Position | None
    path: tuple[Position, ...]  # root first, our leader last
    alternates: tuple[Position, ...]
    adrift: bool  # somebody above us lost its leader; we hold
    subordinates: tuple[Edge, ...]
    subtree_nodes: int  # live, ourselves included
    subtree_not_home: int
    leader_changes: int
    exchanges: int  # proposals that were answered
    refusals: tuple[Refusal, ...]
    tables: dict[str, int]  # entries of everything that could grow (docs/protocol.md, S5)
    ranking: Ranking = Ranking(mapping="ip")
    unlisted: tuple[Position, ...] = ()  # of this tree, and not listed by its root: we, or some that told the root so
    disputed: tuple[Position, ...] = ()  # some that two of our subordinates have long reported as living


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a node stands where it stands."""

    position: Position
    place: Place | None
    leader: Position | None
    reason: str  # one plain sentence
    ranked: tuple[Position, ...]  # the first candidates, best first
    asked: tuple[Asked, ...]  # what candidates last answered, newest first
    ranking: Ranking = Ranking(mapping="ip")


class RosterView(msgspec.Struct, frozen=True, kw_only=True):
    """The whole subtree of one node."""

    owner: Position
    is_root: bool
    root: Position | None
    leader: Position | None
    quiet_s: float  # since anything in it changed
    rows: tuple[RosterRow, ...]  # the owner first, then by position
    unlisted: tuple[Position, ...] = ()  # as in Snapshot
