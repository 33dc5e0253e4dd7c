"""The JSON documents of a node, field by field.

The producers (nodes.py, trees.py) and the readers (other nodes, the command line) share these definitions. Durations
are in seconds; ages are seconds before the moment of asking. Fields with a default may be missing in documents of
older daemons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from subord.config.schema import LogLevel
from subord.core.view import Place, Position
from subord.runtime.log.logger import Source

LivenessName = Literal["live", "stale", "missing", "held"]
MemberLiveness = Literal[LivenessName, "gone"]

# Documents of other nodes are checked against these patterns before any text of them reaches a terminal.
Address = Annotated[str, msgspec.Meta(max_length=45, pattern=r"^[0-9a-fA-F.:]+\Z")]
Addresses = Annotated[tuple[Address, ...], msgspec.Meta(max_length=512)]
KeyName = Annotated[str, msgspec.Meta(max_length=8, pattern=r"^[0-9a-f]{8}\Z")]
KeyNames = Annotated[tuple[KeyName, ...], msgspec.Meta(min_length=1, max_length=16)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Sentence = Annotated[str, msgspec.Meta(max_length=1000)]


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
    place: Place
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


class SealDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The key ring of one node, by names: the primary key first. `saved`: it is on disk."""

    revision: int
    keys: KeyNames
    saved: bool


class NearDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose distance was measured. `performance`: jobs in the cluster's unit of time; null: unknown."""

    address: Address
    position: Position
    round_trip_s: float
    performance: float | None
    ago_s: float


class RankingDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a node measures. Classes are those of protocol section 7, 0: unknown; `standing` is the middle of its
    class.

    `wanted_level` is the level of its rank, `level` its real level; `near` has the nearest nodes and the leader.
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

    `ranking` null: nothing is measured. `refused`: of a root, how many candidates refused it, and why.
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
    place: Place | None
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
    refused: Sentence | None = None


class CountedRing(msgspec.Struct, frozen=True, kw_only=True):
    """How many `nodes` have this ring; some of their `addresses`; how many (`unsaved`) would lose it at a restart."""

    revision: int
    keys: KeyNames
    nodes: int
    addresses: tuple[Address, ...]
    unsaved: int


class KeysDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The rings of a subtree. `silent`: some nodes without answer; `silent_nodes`: these and all nodes below them."""

    rings: tuple[CountedRing, ...]
    silent: tuple[Address, ...]
    silent_nodes: int


class AllKeysDocument(KeysDocument, frozen=True, kw_only=True):
    """The rings of the whole cluster as far as `asked` could find out; if that is not all, `note` says why."""

    asked: Address
    complete: bool
    note: str | None


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of at least `nodes` nodes, some of them by address. `ago_s`: when last seen; null: it lasts.

    For the kinds `version` and `ring` the difference is the problem, so all nodes report them.
    """

    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z_]+\Z")]
    text: Annotated[str, msgspec.Meta(max_length=200)]
    nodes: Count
    addresses: Addresses
    ago_s: float | None = None


class ProblemsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of the `nodes` nodes that answered. `more`: problems for which there was no room.

    `silent`: some nodes without an answer; `silent_nodes`: these and all nodes below them. `older`, `older_nodes`:
    the same for nodes whose version does not know the question. `is_whole`: the report is the root's. `listed`: how
    many nodes the root lists. `uncounted`: how many more nodes answered than are listed, as far as leaders below have
    stated.
    """

    nodes: Count
    problems: Annotated[tuple[ProblemDocument, ...], msgspec.Meta(max_length=64)]
    more: Count = 0
    silent: Addresses = ()
    silent_nodes: Count = 0
    older: Addresses = ()
    older_nodes: Count = 0
    is_whole: bool = False
    listed: Count | None = None
    uncounted: int = 0


class VersionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A version that `nodes` nodes run, some of them by address."""

    version: str
    nodes: Count
    addresses: Addresses


class ErrorsDocument(ProblemsDocument, frozen=True, kw_only=True):
    """The problems of the cluster as far as `asked` could find out; if that is not all, `note` says why.

    `maintained`: nodes under maintenance whose problems are left out. `versions` are those of the nodes that
    answered, the most frequent one first.
    """

    asked: Address
    complete: bool
    note: str | None
    maintained: Count = 0
    versions: tuple[VersionDocument, ...] = ()


class RotatedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a change of keys. `error`: nothing was changed; `passing`: the request may be repeated."""

    error: Sentence | None = None
    passing: bool = False
    key: KeyName | None = None
    revision: int = 0


class JobsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs reported since the start, by weight, and the rate that follows; None: not known yet."""

    jobs_done: float
    jobs_per_hour: float | None


class LogDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The log level, and what set it last."""

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
    """`candidates`: the first of the ranked list, best first; `others`: other nodes that were asked, newest first."""

    address: Address
    position: Position
    place: Place | None
    leader: Address | None
    reason: str
    candidates: tuple[CandidateDocument, ...]
    others: tuple[CandidateDocument, ...]
    ranking: RankingDocument | None = None


class MemberDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster, and where it stands: `since_s` in this place, or away.

    `gone`: it ended or vanished without goodbye and is in no roster any more; the fields describe where it stood, as
    far as is known. `maintenance`: the reason that an operator gave; null: it is under none.
    """

    address: Address
    position: Position
    level: int
    standing: MemberLiveness
    leader: Address | None
    place: Place | None
    since_s: float | None
    maintenance: Sentence | None = None


class RowDocument(MemberDocument, frozen=True, kw_only=True, omit_defaults=True):
    """A node of a roster. Tens of thousands of rows may be in one answer, so unknown fields are left out.

    `performance` and `round_trip_s`, to its leader, are the middles of classes; null: unknown.
    """

    standing: LivenessName
    place: Place
    since_s: float
    offset: int
    incarnation: int
    performance: float | None = None
    round_trip_s: float | None = None


class TreeRow(MemberDocument, frozen=True, kw_only=True):
    """A row in the tree. `real_level` counts edges from the top of its tree, 0 for the top.

    A gone node stands below its last leader, and has no incarnation. `apart` is null, or says why the row heads a
    tree of its own without being the owner of the roster.
    """

    offset: int
    incarnation: int | None
    performance: float | None = None
    round_trip_s: float | None = None

    real_level: int
    apart: str | None


class RosterDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The subtree of one node, the node itself first. `quiet_s`: seconds since the last change in it.

    `unlisted`: nodes that reported to the root that they stand below it, and are not in its list. `refused`: as in
    the status.
    """

    owner: Address
    is_root: bool
    root: Address | None
    leader: Address | None
    quiet_s: float
    rows: tuple[RowDocument, ...]
    unlisted: tuple[Address, ...] = ()
    refused: Sentence | None = None


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


class TreeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole cluster as far as `asked` knows it.

    `nodes` counts live nodes; `stale`, `missing`, `gone` and `held` count rows of that standing, and held ones are
    live; `down` counts missing and gone ones, `maintained` the rows under maintenance.
    `at_home` counts live rows that are no guests, `depth` the edges from the root to the lowest live one. `complete`
    is false if `asked` is not the root; then `note` says why. `refused`: as in the status of the root.
    """

    nodes: int
    at_home: int
    depth: int
    stale: int
    missing: int
    held: int
    gone: Count = 0
    down: Count = 0
    maintained: Count = 0
    asked: Address
    complete: bool
    note: str | None
    quiet_s: float
    rows: tuple[TreeRow, ...]
    refused: Sentence | None = None


class StatementDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Of how many nodes an operator said something, and some of them."""

    count: Count
    nodes: Addresses


class NamesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Names by address, as this node's host list has them."""

    names: Mapping[Address, str]


class MembersDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`complete` is false if `asked` is not the root; then `note` says why. `parted`: some of those that
    said goodbye or are forgotten."""

    asked: Address
    complete: bool
    note: Sentence | None
    members: tuple[MemberDocument, ...]
    parted: Addresses = ()


class ChangeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the tree. `wall`: seconds since 1970 by the clock of `source`; `old`: the leader before."""

    number: int
    wall: float
    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z]+\Z")]
    address: Address
    leader: Address | None
    old: Address | None
    place: Place | None


Token = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9a-z.]+\Z")]


class ChangesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Changes after a token, oldest first; `token` asks for the next ones. `missed`: some were forgotten.

    `note` says why they are not the root's.
    """

    source: Address
    token: Token
    missed: bool
    changes: Annotated[tuple[ChangeDocument, ...], msgspec.Meta(max_length=256)]
    note: Sentence | None = None
