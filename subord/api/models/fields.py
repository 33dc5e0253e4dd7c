"""The JSON documents of a node, field by field.

Intuition: the printed forms of an office. Which boxes there are is fixed here, so that whoever fills one
in (nodes.py, trees.py) and whoever reads one (other nodes, the command line) mean the same.
Durations are seconds, ages are seconds before the moment of asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from subord.config.schema import LogLevel
from subord.core.state.view import Position
from subord.runtime.log.logger import Source

PlaceName = Literal["root", "home", "guest"]
StandingName = Literal["live", "stale", "missing", "held"]

# Documents of other nodes are checked against this before anything of them reaches a terminal.
Address = Annotated[str, msgspec.Meta(max_length=45, pattern=r"^[0-9a-fA-F.:]+\Z")]


class SettingsDocument(msgspec.Struct, frozen=True, kw_only=True):
    network: str
    positions: int
    fanout: int
    guest_slots: int
    mapping: str
    numbering: str
    timing: str
    leader_silence_s: float


class EdgeDocument(msgspec.Struct, frozen=True, kw_only=True):
    address: Address
    position: Position
    place: PlaceName
    incarnation: int
    since_s: float
    heard_s: float
    below: int
    silent: bool


class RefusalDocument(msgspec.Struct, frozen=True, kw_only=True):
    address: str
    by: Literal["them", "us"]
    reason: str
    ago_s: float
    times: int


KeyName = Annotated[str, msgspec.Meta(max_length=8, pattern=r"^[0-9a-f]{8}\Z")]


class SealDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The key ring of one node, by names: the primary key first. `saved`: a restart would not forget it."""

    revision: int
    keys: Annotated[tuple[KeyName, ...], msgspec.Meta(min_length=1, max_length=16)]
    saved: bool


class NearDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose distance was measured. Jobs are in the unit of time of this cluster; null: not known."""

    address: Address
    position: Position
    round_trip_s: float
    performance: float | None
    ago_s: float


class RankingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a node measures. Classes are of protocol section 7, 0: not known; `standing` is the middle of its class.

    `wanted_level` is where it belongs by its rank, `level` where it stands; `near` are the nearest, and the leader.
    """

    mapping: str
    performance: float | None
    performance_class: int
    standing: float | None
    standing_class: int
    wanted_level: int | None
    level: int
    leader_round_trip_s: float | None
    near: tuple[NearDocument, ...]
    moves: int
    moves_held: int


class StatusDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One node. `real_level` is its distance from the root, `level` the computed one.

    Here and below: what has a default is missing in documents of older daemons. `ranking` null: nothing is measured.
    """

    version: str
    address: Address
    port: int
    position: Position
    level: int
    offset: int
    incarnation: int
    up_s: float
    phase: str
    place: PlaceName | None
    leader: Address | None
    since_s: float
    home: Address | None
    root: Address | None
    real_level: int
    path: tuple[Address, ...]
    alternates: tuple[Address, ...]
    adrift: bool
    subordinates: tuple[EdgeDocument, ...]
    subtree_nodes: int
    subtree_not_home: int
    leader_changes: int
    exchanges: int
    seal: SealDocument | None
    refusals: tuple[RefusalDocument, ...]
    settings: SettingsDocument
    ranking: RankingDocument | None = None


class CountedRing(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes have this ring; some of their addresses; how many would forget it at a restart."""

    revision: int
    keys: Annotated[tuple[KeyName, ...], msgspec.Meta(min_length=1, max_length=16)]
    nodes: int
    addresses: tuple[Address, ...]
    unsaved: int


class KeysDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A roll call. `silent`: some who did not answer; `silent_nodes`: they, and all that live below them."""

    rings: tuple[CountedRing, ...]
    silent: tuple[Address, ...]
    silent_nodes: int


class AllKeysDocument(KeysDocument, frozen=True, kw_only=True):
    """The roll call of the whole cluster, as far as `asked` could find out; if that is not all, `note` says why."""

    asked: Address
    complete: bool
    note: str | None


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The same trouble of at least so many `nodes`, some of them by address. `ago_s`: last seen; null: it lasts.

    Of the kinds `version` and `ring` a difference is the trouble, so they are gathered from all.
    """

    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z_]+\Z")]
    text: Annotated[str, msgspec.Meta(max_length=200)]
    nodes: Annotated[int, msgspec.Meta(ge=0)]
    addresses: Annotated[tuple[Address, ...], msgspec.Meta(max_length=512)]
    ago_s: float | None = None


class ProblemsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `nodes` nodes said of their troubles. `more`: troubles for which there was no room.

    `silent`: some who did not answer; `silent_nodes`: they, and all that live below them. `older` likewise: their
    version does not know the question. `is_whole`: it is the root that says so. `listed`: so many nodes it lists.
    `uncounted`: so many more than are listed have answered, as leaders below have stated already.
    """

    nodes: Annotated[int, msgspec.Meta(ge=0)]
    problems: Annotated[tuple[ProblemDocument, ...], msgspec.Meta(max_length=64)]
    more: Annotated[int, msgspec.Meta(ge=0)] = 0
    silent: Annotated[tuple[Address, ...], msgspec.Meta(max_length=512)] = ()
    silent_nodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    older: Annotated[tuple[Address, ...], msgspec.Meta(max_length=512)] = ()
    older_nodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    is_whole: bool = False
    listed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    uncounted: int = 0


class ErrorsDocument(ProblemsDocument, frozen=True, kw_only=True):
    """The troubles of the cluster as far as `asked` could find out; if that is not all, `note` says why."""

    asked: Address
    complete: bool
    note: str | None


class RotatedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a change of keys. `error`: nothing was changed; `passing`: asked again it may be."""

    error: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    passing: bool = False
    key: KeyName | None = None
    revision: int = 0


class JobsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs reported since the start, by weight, and what follows from them; None: too early to tell."""

    jobs_done: float
    jobs_per_hour: float | None


class LogDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How much the log says, and what chose that last."""

    log_level: LogLevel
    source: Source


class CandidateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`answer` None: not asked."""

    address: Address
    position: Position
    level: int
    offset: int
    answer: str | None
    ago_s: float | None


class WhyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`candidates`: the first of the ranked list, best first; `others`: asked besides them, newest first."""

    address: Address
    position: Position
    place: PlaceName | None
    leader: Address | None
    reason: str
    candidates: tuple[CandidateDocument, ...]
    others: tuple[CandidateDocument, ...]
    ranking: RankingDocument | None = None


class RowDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """There may be tens of thousands in one answer: what is not known is left out."""

    address: Address
    position: Position
    level: int
    offset: int
    leader: Address | None
    place: PlaceName
    incarnation: int
    since_s: float
    standing: StandingName
    performance: float | None = None
    round_trip_s: float | None = None


class RosterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The subtree of one node, the node itself first. `quiet_s`: since anything in it changed.

    `unlisted`: nodes that told the root that they stand below it, and are not in its list.
    """

    owner: Address
    is_root: bool
    root: Address | None
    leader: Address | None
    quiet_s: float
    rows: tuple[RowDocument, ...]
    unlisted: tuple[Address, ...] = ()


class CountersDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Since the daemon started. Messages are datagrams, bytes are UDP payload."""

    up_s: float
    exchanges: int
    leader_changes: int
    messages_sent: int
    messages_received: int
    bytes_sent: int
    bytes_received: int
    dropped: int
    send_errors: int
    messages_sent_by_type: dict[str, int]
    messages_received_by_type: dict[str, int]
    dropped_by_reason: dict[str, int]
    send_errors_by_errno: dict[str, int]
    jobs_done: float
    jobs_per_hour: float | None


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node where it stands. `real_level` counts edges from the top of its tree, 0 for the top.

    `apart` is null, or says why the row heads a tree of its own without being the owner of the roster.
    `performance` and `round_trip_s`, to its leader, are the middles of classes; null: not known.
    """

    address: Address
    position: Position
    level: int
    offset: int
    place: PlaceName
    standing: StandingName
    since_s: float
    incarnation: int
    real_level: int
    leader: Address | None
    apart: str | None
    performance: float | None = None
    round_trip_s: float | None = None


class TreeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cluster as far as `asked` knows it.

    `nodes` are the live ones; `stale`, `missing` and `held` count rows of that standing, and held ones
    are live. `at_home` counts live rows that are no guest, `depth` the edges from the root to the lowest
    live one. `complete` is false if `asked` is not the root; then `note` says why.
    """

    nodes: int
    at_home: int
    depth: int
    stale: int
    missing: int
    held: int
    asked: Address
    complete: bool
    note: str | None
    quiet_s: float
    rows: tuple[TreeRow, ...]


class NamesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Names by address, as this node's host list has them."""

    names: Mapping[Address, str]


class MemberDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One who is there, or was lately: `gone` vanished without goodbye and is in nobody's roster any more.

    Where it stands, or stood; `since_s`: in this place, or away. `place` null: not known.
    """

    address: Address
    position: Position
    level: int
    standing: Literal["live", "stale", "held", "missing", "gone"]
    leader: Address | None
    place: PlaceName | None
    since_s: float


class MembersDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`complete` is false if `asked` is not the root, or if this was known some time ago; then `note` says why.

    `parted`: roots before this one who said goodbye.
    """

    asked: Address
    complete: bool
    note: Annotated[str, msgspec.Meta(max_length=1000)] | None
    members: tuple[MemberDocument, ...]
    parted: Annotated[tuple[Address, ...], msgspec.Meta(max_length=64)] = ()


class ChangeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the tree. `wall`: seconds since 1970 by the clock of `source`; `old`: the leader before."""

    number: int
    wall: float
    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z]+\Z")]
    address: Address
    leader: Address | None
    old: Address | None
    place: PlaceName | None


Token = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9a-z.]+\Z")]


class ChangesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Changes after a token, oldest first; asked again with `token`, the next ones. `missed`: some were forgotten.

    `note` says why they are not the root's.
    """

    source: Address
    token: Token
    missed: bool
    changes: Annotated[tuple[ChangeDocument, ...], msgspec.Meta(max_length=256)]
    note: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
