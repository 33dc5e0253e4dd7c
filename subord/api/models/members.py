"""The JSON documents of many nodes, field by field: members, rosters, the tree, and its changes.

Producers are nodes.py and trees.py; the style is that of fields.py.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec.structs import force_setattr

from subord.api.models.document import (
    Address,
    Addresses,
    Count,
    Document,
    Fingerprint,
    Renamed,
    Sentence,
    Time,
    time_text,
)
from subord.core.view import Place, Position

LivenessName = Literal["live", "stale", "missing", "held"]
MemberLiveness = Literal[LivenessName, "gone"]


class MemberDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the cluster, and where it stands: `since_s` in this place, or away.

    `gone`: it ended or vanished without goodbye and is in no roster any more; the fields describe where it stood, as
    far as is known. `maintenance`: the reason that an operator gave; null: it is under none. `identity`:
    the fingerprint of its key; null: the node that answers does not know it.
    """

    address: Address
    position: Position
    level: int
    standing: MemberLiveness
    leader: Address | None
    place: Place | None
    since_s: float | None
    maintenance: Sentence | None = None
    identity: Fingerprint | None = None


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


class RosterDocument(Document, frozen=True, kw_only=True):
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


class TreeDocument(Document, frozen=True, kw_only=True):
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


class MembersDocument(Document, frozen=True, kw_only=True):
    """`complete` is false if `asked` is not the root; then `note` says why. `parted`: some of those that
    said goodbye or are forgotten."""

    asked: Address
    complete: bool
    note: Sentence | None
    members: tuple[MemberDocument, ...]
    parted: Addresses = ()


class ChangeDocument(Renamed, frozen=True, kw_only=True):
    """One event. `time`: by the clock of the node that recorded it, `number` its count. `reason`, `by`: of an order,
    and the operator that signed it."""

    OLD_NAMES: ClassVar = {"former_leader": "old"}

    number: int
    wall: float
    time: Time = ""
    kind: Annotated[str, msgspec.Meta(max_length=16, pattern=r"^[a-z]+\Z")]
    address: Address
    leader: Address | None
    old: Address | None
    former_leader: Address | None = None
    place: Place | None
    reason: Sentence | None = None
    by: Sentence | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "time", time_text(self.wall))


Token = Annotated[str, msgspec.Meta(max_length=32, pattern=r"^[0-9a-z.]+\Z")]


class ChangesDocument(Renamed, Document, frozen=True, kw_only=True):
    """Events, oldest first; `token` asks for the next ones. `missed`: some were dropped.

    `note` says why others may come late.
    """

    OLD_NAMES: ClassVar = {"asked": "source"}

    source: Address
    asked: Address = ""
    token: Token
    missed: bool
    changes: Annotated[tuple[ChangeDocument, ...], msgspec.Meta(max_length=10_000)]
    note: Sentence | None = None
