"""The last minutes of a figure, as the root knows them, and each of its subordinates of its own branch.

Input is a question; output is a document with the moments of each node that was asked. Invariant: a moment that a
node does not know is not in the document.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import isfinite
from typing import Annotated

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Count, Time, time_text
from subord.api.node_api import NodeApi
from subord.api.query.orders import YOUNG_NOTE
from subord.core.view import Position
from subord.services.metrics.past.keeping import numbers_of
from subord.services.metrics.questions.asking import heard
from subord.services.metrics.questions.words import SLOTS, AskPast, Figure, SaidPast

DIGITS = 6
"""Of numbers of four bytes."""


class SeriesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A metric. `values`: at the moments of its branch; null: it had none. `least`, `greatest`, `last`: of those that
    are known; null: none is."""

    name: str
    least: float | None
    greatest: float | None
    last: float | None
    values: Annotated[tuple[float | None, ...], msgspec.Meta(max_length=SLOTS)]


class PastDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a node knows of its branch. `whole`: of the whole cluster, as its root. `since`: its first moment,
    `known_s` ago; null: it has none. `ages_s`: the moments, the oldest first; `told`, `asked`: of how many nodes, and
    of how many it should be. `left_out`: further metrics."""

    address: Address
    whole: bool
    since: Time | None
    known_s: float
    ages_s: tuple[float, ...]
    told: tuple[Count, ...]
    asked: tuple[Count, ...]
    metrics: tuple[SeriesDocument, ...]
    left_out: Count


class HistoryDocument(CoverageDocument, frozen=True, kw_only=True):
    """The coverage is of the nodes that were asked: the root, and by branch its subordinates. `figure`: of each
    metric, over the nodes; `seconds`: the period."""

    figure: Figure
    seconds: Count
    branches: tuple[PastDocument, ...]


async def history(node: NodeApi, ask: AskPast, budget_s: float, *, by_branch: bool) -> HistoryDocument:
    """What the root, and by branch its subordinates know. Not complete when one does not answer, or the first one is
    no root just now, or may not know all members yet."""
    found = await heard(node, ask, SaidPast, budget_s, with_below=by_branch)
    everyone = {found.root_position: found.said, **found.below}
    said = msgspec.structs.asdict(found.coverage)
    said["complete"] &= found.said is not None and found.said.is_root and not found.said.is_young
    if found.said is not None and found.said.is_young:
        said["note"] = YOUNG_NOTE
    known = tuple(_known(node, position, each) for position, each in everyone.items() if each is not None)
    return HistoryDocument(**said, figure=ask.figure, seconds=ask.seconds, branches=known)


def _known(node: NodeApi, position: Position, said: SaidPast) -> PastDocument:
    known_s = said.known_ms / 1000
    has_ring = bool(said.known_ms or said.ages_ms)
    return PastDocument(
        address=node.settings.network.address_text_of(position),
        whole=said.is_root,
        since=time_text(time.time() - known_s) if has_ring else None,
        known_s=known_s,
        ages_s=tuple(each / 1000 for each in said.ages_ms),
        told=said.told,
        asked=said.asked,
        metrics=tuple(_series(said)),
        left_out=said.left_out,
    )


def _series(said: SaidPast) -> Iterator[SeriesDocument]:
    for name, data in sorted(said.series.items()):
        values = tuple(_rounded(each) for each in numbers_of(data))
        known = [each for each in values if each is not None]
        if known:
            yield SeriesDocument(name=name, least=min(known), greatest=max(known), last=known[-1], values=values)


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
