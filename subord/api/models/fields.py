"""The JSON documents of one node, and the problems and keys of the cluster, field by field. Rows are in members.py.

The producers (nodes.py, trees.py) and the readers (other nodes, the command line) share these definitions. Durations
are in seconds; ages are seconds before the moment of asking. Fields with a default may be missing in documents of
older daemons. docs/json.md has the style, and docs/schemas/ the schemas made from these definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from subord import SCHEMA_VERSION
from subord.api.models.coverage import Coverage
from subord.api.models.document import (
    Address,
    Addresses,
    Count,
    Document,
    Fingerprint,
    KeyName,
    KeyNames,
    Renamed,
    Sentence,
    Time,
)
from subord.config.schema import LogLevel
from subord.core.view import Place, Position
from subord.runtime.log.logger import Source


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


class RefusalDocument(Renamed, frozen=True, kw_only=True):
    OLD_NAMES: ClassVar = {"since_s": "ago_s"}

    address: str
    by: Literal["them", "us"]
    reason: str
    ago_s: float
    since_s: float = 0.0
    times: int


class SealDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The key ring of one node, by names: the primary key first. `saved`: it is on disk."""

    revision: int
    keys: KeyNames
    saved: bool


class IdentityDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of one node. `since`: when its key was made.

    `valid_until`: of the certificate that it shows; null: it shows none, so other nodes pin its key.
    """

    fingerprint: Fingerprint
    since: Time
    certified: bool
    valid_until: Time | None


class NearDocument(Renamed, frozen=True, kw_only=True):
    """A node whose distance was measured. `performance`: jobs in the cluster's unit of time; null: unknown."""

    OLD_NAMES: ClassVar = {"since_s": "ago_s"}

    address: Address
    position: Position
    round_trip_s: float
    performance: float | None
    ago_s: float
    since_s: float = 0.0


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


class StatusDocument(Renamed, Document, frozen=True, kw_only=True):
    """One node. `real_level` is its distance from the root, `level` the computed one. `identity` null: it has none.

    `ranking` null: nothing is measured. `refused`: of a root, how many candidates refused it, and why.
    `orphaned`: it, or a node above it, has lost its leader. `down`: how many members are down, as its register has
    them. `maintenance`: of the node, as in the members.
    """

    OLD_NAMES: ClassVar = {"orphaned": "adrift"}

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
    orphaned: bool = False
    subordinates: tuple[EdgeDocument, ...]
    subtree_nodes: int
    subtree_not_home: int
    leader_changes: int
    exchanges: int
    seal: SealDocument | None
    identity: IdentityDocument | None = None
    refusals: tuple[RefusalDocument, ...]
    settings: SettingsDocument
    ranking: RankingDocument | None = None
    refused: Sentence | None = None
    down: Count = 0
    maintenance: Sentence | None = None


class CountedRing(msgspec.Struct, frozen=True, kw_only=True):
    """How many `nodes` have this ring; some of their `addresses`; how many (`unsaved`) would lose it at a restart."""

    revision: int
    keys: KeyNames
    nodes: int
    addresses: tuple[Address, ...]
    unsaved: int


class KeysDocument(Renamed, frozen=True, kw_only=True):
    """The rings of nodes.

    `silent_addresses`: some nodes without answer; `silent_nodes`: all of them, by release 0.2 also those below them.
    """

    OLD_NAMES: ClassVar = {"silent_addresses": "silent"}

    rings: tuple[CountedRing, ...]
    silent: tuple[Address, ...]
    silent_addresses: tuple[Address, ...] = ()
    silent_nodes: int


class AllKeysDocument(KeysDocument, frozen=True, kw_only=True):
    """The rings of the whole cluster as far as `asked` could find out; if that is not all, `note` says why.

    `coverage`: which nodes have answered, and which not and why; null: an older daemon has answered.
    """

    schema_version: int = SCHEMA_VERSION
    asked: Address
    complete: bool
    note: str | None
    coverage: Coverage | None = None


class ProblemDocument(Renamed, frozen=True, kw_only=True):
    """One problem of at least `nodes` nodes, some of them by address. `since_s`: when last seen; null: it lasts.

    For the kinds `version` and `ring` the difference is the problem, so all nodes report them.
    """

    OLD_NAMES: ClassVar = {"since_s": "ago_s"}

    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z_]+\Z")]
    text: Annotated[str, msgspec.Meta(max_length=200)]
    nodes: Count
    addresses: Addresses
    ago_s: float | None = None
    since_s: float | None = None


class ProblemsDocument(Renamed, frozen=True, kw_only=True):
    """The problems of the `nodes` nodes that answered. `more`: problems for which there was no room.

    `silent_addresses`: some nodes without an answer; `silent_nodes`: all of them, by release 0.2 also those below
    them. `older_addresses`, `older_nodes`: the same for nodes whose version does not know the question.
    `listed`: how many nodes the root lists. `uncounted`: 0, by release 0.2 how many more nodes answered than are
    listed. `is_whole`, between nodes only: the report is the root's.
    """

    OLD_NAMES: ClassVar = {"silent_addresses": "silent", "older_addresses": "older"}

    nodes: Count
    problems: Annotated[tuple[ProblemDocument, ...], msgspec.Meta(max_length=64)]
    more: Count = 0
    silent: Addresses = ()
    silent_addresses: Addresses = ()
    silent_nodes: Count = 0
    older: Addresses = ()
    older_addresses: Addresses = ()
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

    `maintained`: nodes under maintenance whose problems are left out. `down`: all nodes that are down, those too.
    `versions` are those of the nodes that answered, and of older ones that told it, the most frequent one first.
    `coverage`: as of the keys.
    """

    schema_version: int = SCHEMA_VERSION
    asked: Address
    complete: bool
    note: str | None
    maintained: Count = 0
    down: Count = 0
    versions: tuple[VersionDocument, ...] = ()
    coverage: Coverage | None = None


class RotatedDocument(Document, frozen=True, kw_only=True):
    """The result of a change of keys. `error`: nothing was changed; `passing`: the request may be repeated."""

    error: Sentence | None = None
    passing: bool = False
    key: KeyName | None = None
    revision: int = 0


class JobsDocument(Document, frozen=True, kw_only=True):
    """Jobs reported since the start, by weight, and the rate that follows; None: not known yet."""

    jobs_done: float
    jobs_per_hour: float | None


class RecordsDocument(Document, frozen=True, kw_only=True):
    """Records of one request that this node keeps until a sink has them."""

    accepted: int


class LogDocument(Document, frozen=True, kw_only=True):
    """The log level, and what set it last."""

    log_level: LogLevel
    source: Source


class CandidateDocument(Renamed, frozen=True, kw_only=True):
    """`answer` None: not asked."""

    OLD_NAMES: ClassVar = {"since_s": "ago_s"}

    address: Address
    position: Position
    level: int
    offset: int
    answer: str | None
    ago_s: float | None
    since_s: float | None = None


class WhyDocument(Document, frozen=True, kw_only=True):
    """`candidates`: the first of the ranked list, best first; `others`: other nodes that were asked, newest first.
    `maintenance`: as in the members."""

    address: Address
    position: Position
    place: Place | None
    leader: Address | None
    reason: str
    candidates: tuple[CandidateDocument, ...]
    others: tuple[CandidateDocument, ...]
    ranking: RankingDocument | None = None
    maintenance: Sentence | None = None


class CountersDocument(Document, frozen=True, kw_only=True):
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
    orders_refused_by_reason: dict[str, int]
    send_errors_by_errno: dict[str, int]
    jobs_done: float
    jobs_per_hour: float | None


class StatementDocument(Document, frozen=True, kw_only=True):
    """Of how many nodes an operator said something, and some of them. `principal`: the operator, as the file of the
    asked node names the key of the signature."""

    nodes: Count
    addresses: Addresses
    principal: str


class NamesDocument(Document, frozen=True, kw_only=True):
    """Names by address, as this node's host list has them; `resolved`: of other members, by its resolver, and of this
    node else its own host name."""

    names: Mapping[Address, str]
    resolved: Mapping[Address, str] = {}
