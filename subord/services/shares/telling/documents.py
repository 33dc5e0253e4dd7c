"""The documents of `subord shares`, field by field, and the words in them. Percents are of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Addresses, Count, Document, Sentence, Time
from subord.core.carriage.engine.causes import OLDER
from subord.core.carriage.shares.branches import NO_REPORT, NONSENSE, STALE
from subord.core.carriage.shares.interface import DOCUMENT, KEPT, LEADER, NO_ROW

UNREADABLE: Final = "unreadable answer"
UNREADABLE_TEXT: Final = "the answer of the node cannot be read: it is of another release"
LEFT_OUT: Final[Mapping[str, str]] = {
    NO_REPORT: "has not reported yet, or its node cannot measure",
    STALE: "has not renewed its report",
    NONSENSE: "has reported what makes no sense",
    OLDER: "its node runs a release that does not know shares",
}
"""Why a branch has no part in the decisions, with its verb."""
FROM: Final[Mapping[str, str]] = {
    DOCUMENT: "by the document, as the root",
    LEADER: "by the row of its leader",
    KEPT: "by the last row of its leader, which was not renewed",
    NO_ROW: "by the document, because no leader has given it a row for long",
}
"""By what a node divides its branch."""


class WantedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class, and the part of all nodes that it is to get."""

    name: str
    percent: float


class PlanDocument(Document, frozen=True, kw_only=True):
    """The shares as the asked node holds them. `version` 0: no operator has published any. `off`: this version says
    that shares are off; then there are no `classes`. `principal`: the operator, as the file of the asked node names
    the key; null: not known. `conflict`: another document had the same version; this one counts."""

    version: Count
    principal: str | None
    time: Time | None
    off: bool
    round_s: float | None
    classes: tuple[WantedDocument, ...]
    conflict: bool


class KnownDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class, how many nodes are configured for it, and which of the nodes that have answered are not."""

    name: str
    nodes: Count
    lacking: Count
    addresses: Addresses


class SetDocument(PlanDocument, frozen=True, kw_only=True):
    """What is published, or would be. `known`: its classes on the nodes that have answered before. `unknown_nodes`:
    so many have not."""

    known: tuple[KnownDocument, ...]
    unknown_nodes: Count


class ClassDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class over the nodes of a branch, or of all branches: `wanted` by the decision, null: there was none;
    `allocation` and `usage`: means of a node. `needy`: work was left over on a node. null: not reported."""

    name: str
    wanted: float | None
    allocation: float | None
    usage: float | None
    needy: bool | None


class BranchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of the root, or with `alone` the root itself. `said_nodes`: as it says; `nodes` of them count."""

    address: Address
    alone: bool
    nodes: Count
    said_nodes: Count
    age_s: float
    classes: tuple[ClassDocument, ...]


class LeftOutDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A branch without part in the decisions. `nodes`: by the roster. `text`: why, with the fault of its report."""

    address: Address
    nodes: Count
    cause: str
    text: Sentence


class TreeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the root knows. `told` of `asked` nodes are in its decisions. `decided_s`: the age of the last one; null:
    there is none. `undecided`: why there was none in the last round; "": there was. `more_branches`, `more_left_out`:
    further ones, which had no room in the answer."""

    root: Address
    asked: Count
    told: Count
    decided_s: float | None
    undecided: Sentence
    classes: tuple[ClassDocument, ...]
    branches: tuple[BranchDocument, ...]
    left_out: tuple[LeftOutDocument, ...]
    more_branches: Count
    more_left_out: Count


class StateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that follow the document in the same way. `state`: a word, `text`: the same as a sentence. `detail`: why;
    `notes`: what is odd but hinders nothing. `follows`: as the document of the asked node says."""

    state: str
    text: Sentence
    detail: Sentence
    notes: tuple[Sentence, ...]
    version: Count
    follows: bool
    nodes: Count
    addresses: Addresses


class SharesDocument(CoverageDocument, frozen=True, kw_only=True):
    """`tree` null: the root has told nothing, or shares are off. `known`: the classes of the document and those of
    nodes. `states`: those that need an operator first. `unread`: nodes whose answers cannot be read."""

    plan: PlanDocument
    tree: TreeDocument | None
    known: tuple[KnownDocument, ...]
    states: tuple[StateDocument, ...]
    unread: Count


# -- why ------------------------------------------------------------------------------------------------------------


class ObeyedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class on a node. `tickets`: whole ones, of 100 of a node, with more than 50 classes of 1000."""

    name: str
    percent: float
    tickets: Count


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the node itself obeys, and how. `wanted_from`: by what it divides its branch; a node without branches
    obeys this."""

    address: Address
    version: Count
    state: str
    text: Sentence
    detail: Sentence
    notes: tuple[Sentence, ...]
    wanted_from: str
    wanted_text: Sentence
    row_age_s: float | None
    obeyed: tuple[ObeyedDocument, ...]


class DecidedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class in a decision. `wanted`: over all nodes of the leader's branch. `allocation`, `usage`, `needy`: the
    last report of the branch; null: it does not count. `steps`: of the decision by word, in their order, in tickets
    of a node of the branch; a `deposit` is in tickets of a branch of mean size. `totals`: the same of all branches
    together, in tickets of a branch of mean size. `row`: what the branch has got; null: nothing was decided for it.
    """

    name: str
    wanted: float
    allocation: float | None
    usage: float | None
    needy: bool | None
    steps: dict[str, float]
    totals: dict[str, float]
    row: float | None


class LeaderDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a node has decided for a branch of it, or for itself. `cause` not null: it has told nothing, and `text`
    says why. `nodes`: of the branch; null: it is not listed. `left_out`: why the branch has no part in the decisions;
    null: it has. `decided_s`, `branches`: the age
    of the last decision, and how many it was for; null: there is none."""

    address: Address
    about: Address
    cause: str | None
    text: Sentence | None
    version: Count
    wanted_from: str
    wanted_text: Sentence
    asked: Count
    told: Count
    decided_s: float | None
    branches: Count | None
    undecided: Sentence
    nodes: Count | None
    left_out: Sentence | None
    classes: tuple[DecidedDocument, ...]


class WhyDocument(CoverageDocument, frozen=True, kw_only=True):
    """`node` null: it has told nothing. `leaders`: the one that has decided for the node first, and the root last; a
    node with branches decides for itself."""

    node: NodeDocument | None
    leaders: tuple[LeaderDocument, ...]
