"""What nodes are asked about shares and what they tell, in MessagePack.

Inputs are questions and answers, or their bytes; outputs are the bytes, or what they say. Numbers of rows are
thousandths of a ticket. Invariants: what cannot be read is None, never an error, because a member may send anything;
an answer has at most RESULT_BYTES_MAX bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.shares.bounds import BRANCHES_MAX, CLASS_CHARS_MAX, CLASSES_MAX, NODES_MAX
from subord.runtime.shares.state import DETAIL_CHARS_MAX, NOTES_MAX
from subord.services.decoding import Reader, reader

SERVICE: Final = "shares"
CONFIGURED_MAX: Final = 256
"""Classes of a node that it names."""
PATH_MAX: Final = 64
"""Leaders above a node; a tree of IPv4 addresses has 32 levels at most."""
STEPS_MAX: Final = 16
FAULT_CHARS_MAX: Final = 160
AMOUNT_MAX: Final = 10**12
"""Thousandths of a ticket: those of all nodes of a cluster are fewer."""
AGE_MS_MAX: Final = 10**12

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Nodes = Annotated[int, msgspec.Meta(ge=0, le=NODES_MAX)]
_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Age = Annotated[int, msgspec.Meta(ge=0, le=AGE_MS_MAX)]
_Amount = Annotated[int, msgspec.Meta(ge=-AMOUNT_MAX, le=AMOUNT_MAX)]
Amounts = Annotated[tuple[_Amount, ...], msgspec.Meta(max_length=CLASSES_MAX)]
_Flags = Annotated[tuple[bool, ...], msgspec.Meta(max_length=CLASSES_MAX)]
_Columns = tuple[int, ...] | tuple[bool, ...]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Sentence = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=CLASS_CHARS_MAX)]
_Names = Annotated[tuple[_Name, ...], msgspec.Meta(max_length=CLASSES_MAX)]


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """`path`: from the root down to a node, each is asked about the next, and the last one about itself; without a
    path each is asked about itself. An empty payload asks for a `Told`."""

    path: Annotated[tuple[_Position, ...], msgspec.Meta(max_length=PATH_MAX)] = ()


class Following(msgspec.Struct, frozen=True, array_like=True):
    """How a node follows the document. `version` 0: it has none. `word`: of runtime/shares/state.py."""

    version: _Version
    mark: Annotated[int, msgspec.Meta(ge=0, le=255)]
    word: _Word
    detail: _Sentence = ""
    notes: Annotated[tuple[_Sentence, ...], msgspec.Meta(max_length=NOTES_MAX)] = ()


class Reported(msgspec.Struct, frozen=True, array_like=True):
    """Of a branch, or of several together: the mean allocation and usage of a node for each class, and whether work
    was left over."""

    nodes: _Nodes
    allocation: Amounts
    usage: Amounts
    needy: _Flags


class ToldBranch(msgspec.Struct, frozen=True, array_like=True):
    """A branch that counts. `said_nodes`: as it says. `row`: what the last decision gave it; empty: none yet."""

    position: _Position
    said_nodes: _Nodes
    age_ms: _Age
    row: Amounts
    report: Reported


class ToldLeftOut(msgspec.Struct, frozen=True, array_like=True):
    """A branch without part in the decisions."""

    position: _Position
    nodes: _Nodes
    cause: _Word
    fault: Annotated[str, msgspec.Meta(max_length=FAULT_CHARS_MAX)] = ""


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """What the root knows. `told` of `asked` nodes are in its decisions, and `whole` is their report; None: nothing
    was reported. `decided_ms`: the age of the last decision; None: there is none. The last two numbers count branches
    for which there was no room."""

    classes: _Names
    wanted: Amounts
    asked: _Nodes
    told: _Nodes
    whole: Reported | None
    decided_ms: _Age | None
    undecided: _Sentence
    branches: Annotated[tuple[ToldBranch, ...], msgspec.Meta(max_length=BRANCHES_MAX)]
    left_out: Annotated[tuple[ToldLeftOut, ...], msgspec.Meta(max_length=BRANCHES_MAX)]
    more_branches: _Nodes = 0
    more_left_out: _Nodes = 0

    def __post_init__(self) -> None:
        of_whole = [] if self.whole is None else _rows(self.whole)
        _check(len(self.classes), [self.wanted, *of_whole, *chain.from_iterable(map(_of_branch, self.branches))])


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a node. `classes`: of its configuration. `tree`: only of a root."""

    following: Following
    classes: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=CONFIGURED_MAX)]
    tree: Tree | None = None


class ToldStep(msgspec.Struct, frozen=True, array_like=True):
    """A step of a decision for the branch that is asked about, and for all branches together, in tickets of a branch
    of mean size. `column`: empty for a step on accounts alone."""

    word: _Word
    column: Amounts
    totals: Amounts


class ToldDecision(msgspec.Struct, frozen=True, array_like=True):
    """The last decision of a node about its branches, and what it is for the one that is asked about. `row` empty:
    the decision was made without it, and then there are no steps."""

    age_ms: _Age
    branches: _Nodes
    row: Amounts
    steps: Annotated[tuple[ToldStep, ...], msgspec.Meta(max_length=STEPS_MAX)]


class ToldWhy(msgspec.Struct, frozen=True, array_like=True):
    """The answer to `Ask`. `path`: the leaders of the node, the root first. `wanted`: the shares over its branch, and
    where they come from; `obeyed`: by the node itself. `about`: the branch that is asked about; `branch` or
    `left_out` says what is known of it; None of both: it is not listed there."""

    following: Following
    path: Annotated[tuple[_Position, ...], msgspec.Meta(max_length=PATH_MAX)]
    classes: _Names
    wanted: Amounts
    wanted_from: _Word
    row_age_ms: _Age | None
    obeyed: Amounts
    asked: _Nodes
    told: _Nodes
    undecided: _Sentence
    about: _Position
    branch: ToldBranch | None = None
    left_out: ToldLeftOut | None = None
    decision: ToldDecision | None = None

    def __post_init__(self) -> None:
        rows: list[_Columns] = [] if self.branch is None else _of_branch(self.branch)
        rows += [each for each in (self.wanted, self.obeyed) if each]
        if self.decision is not None:
            steps = self.decision.steps
            columns = [self.decision.row, *(each.column for each in steps)]
            rows += [*filter(None, columns), *(each.totals for each in steps)]
        _check(len(self.classes), rows)


def _rows(report: Reported) -> list[_Columns]:
    return [report.allocation, report.usage, report.needy]


def _of_branch(branch: ToldBranch) -> list[_Columns]:
    return [*_rows(branch.report), *([branch.row] if branch.row else [])]


def _check(classes: int, rows: Iterable[_Columns]) -> None:
    if any(len(each) != classes for each in rows):
        raise ValueError("a row has not as many numbers as there are classes")


encode: Final = msgspec.msgpack.Encoder().encode
decode_ask: Reader[Ask] = reader(Ask)
decode_told: Reader[Told] = reader(Told)
decode_why: Reader[ToldWhy] = reader(ToldWhy)
