"""The figures of the whole cluster, of the root alone, and of the branch of each of its subordinates.

Input is a pattern of names; output is a document with the coverage of the whole cluster and of each branch.
Invariant: a branch that has not answered has a row with the cause, and the document is then not complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import msgspec

from subord.api.models import nodes
from subord.api.models.coverage import Coverage, CoverageDocument
from subord.api.models.document import Address, Count, Sentence
from subord.api.models.metrics import MetricDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.frames import Unreadable
from subord.core.carriage.reports.answer import decode_fold
from subord.core.carriage.reports.coverage import SENTENCES, UNREADABLE
from subord.core.carriage.reports.reports import Fold
from subord.core.settings import Settings
from subord.core.view import Position
from subord.services.folds import fold_coverage
from subord.services.metrics.questions.asking import Heard, heard
from subord.services.metrics.questions.words import AskBranch, SaidBranch
from subord.services.metrics.record import figures


class BranchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The branch of a node; `alone`: the node without those below it. `coverage` null: it has not answered, and
    `cause` and `text` say why."""

    address: Address
    alone: bool
    coverage: Coverage | None
    cause: str | None
    text: Sentence | None
    metrics: tuple[MetricDocument, ...]


class BranchesDocument(CoverageDocument, frozen=True, kw_only=True):
    """`metrics`: of the whole cluster, as its root knows it, and of it is the coverage. `branches`: the root alone,
    and then each of its subordinates. `left_out`: at least so many metrics of nodes are not in it."""

    metrics: tuple[MetricDocument, ...]
    branches: tuple[BranchDocument, ...]
    left_out: Count


async def branches(node: NodeApi, pattern: str, budget_s: float) -> BranchesDocument:
    """The document of the metrics that fit a pattern."""
    found = await heard(node, AskBranch(pattern), SaidBranch, budget_s, with_below=True)
    whole = None if found.said is None else _fold(found.said.fold)
    if found.said is None or whole is None:
        said = msgspec.structs.asdict(replace(found, said=None).coverage)
        said["complete"] = False
        return BranchesDocument(**said, metrics=(), branches=(), left_out=0)
    rows = tuple(_rows(node, found, found.said))
    said = msgspec.structs.asdict(fold_coverage(node, whole))
    said["complete"] &= all(each.coverage is not None and each.coverage.complete for each in rows)
    return BranchesDocument(**said, metrics=_figures(node.settings, whole), branches=rows, left_out=whole.left_out)


def _rows(node: NodeApi, found: Heard[SaidBranch], root: SaidBranch) -> Iterator[BranchDocument]:
    yield _row(node, found.root_position, _fold(root.own), UNREADABLE, alone=True)
    for position, said in found.below.items():
        cause = found.cause_of(position) if said is None else UNREADABLE
        yield _row(node, position, None if said is None else _fold(said.fold), cause, alone=False)


def _row(node: NodeApi, position: Position, fold: Fold | None, cause: str, *, alone: bool) -> BranchDocument:
    address = node.settings.network.address_text_of(position)
    if fold is None:
        text = SENTENCES.get(cause) or sentence(cause)
        return BranchDocument(address=address, alone=alone, coverage=None, cause=cause, text=text, metrics=())
    covered = fold_coverage(node, fold)
    is_whole = covered.told == covered.asked and not fold.coverage.unlisted and not fold.left_out
    return BranchDocument(
        address=address,
        alone=alone,
        coverage=msgspec.structs.replace(covered, complete=is_whole),
        cause=None,
        text=None,
        metrics=_figures(node.settings, fold),
    )


def _fold(data: bytes) -> Fold | None:
    try:
        return decode_fold(data)
    except Unreadable:
        return None


def _figures(settings: Settings, fold: Fold) -> tuple[MetricDocument, ...]:
    return tuple(figures(fold.record, partial(_address, settings)))


def _address(settings: Settings, position: Position) -> str | None:
    return next(iter(nodes.addresses(settings, (position,))), None)
