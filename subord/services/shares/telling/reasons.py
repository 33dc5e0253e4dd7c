"""Why a node has the row that it obeys: the node is asked first, and then its leaders up to the root.

Inputs are a node and a budget of time; output is a WhyDocument. Invariant: no more than these nodes are asked; one
that has told nothing has an entry with the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import trio

from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered, asked
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.runtime.shares.state import SENTENCES
from subord.services.answers import sentence_of
from subord.services.shares.telling.documents import (
    FROM,
    UNREADABLE,
    UNREADABLE_TEXT,
    DecidedDocument,
    LeaderDocument,
    NodeDocument,
    ObeyedDocument,
    WhyDocument,
)
from subord.services.shares.telling.reading import text_of_left_out
from subord.services.shares.telling.words import SERVICE, Ask, ToldWhy, decode_why, encode
from subord.services.shares.tickets import whole

FIRST_SHARE: Final = 0.5
"""Of the time, for the node itself."""
NOT_LISTED: Final = "is not in the roster of this leader just now"


async def why(node: NodeApi, position: Position, budget_s: float) -> WhyDocument:
    """Takes at most `budget_s`."""
    began = trio.current_time()
    first = await asked(node, SERVICE, budget_s * FIRST_SHARE, payload=encode(Ask()), targets=Ranges.of((position,)))
    said = _said(first).get(position)
    if said is None:
        return _document(node, [(first, {})], None, ())
    path = _path(node, position, said)
    found, every = [(first, {position: said})], {position: said}
    if path and said.classes:
        left_s = budget_s - (trio.current_time() - began)
        payload = encode(Ask((*path, position)))
        second = await asked(node, SERVICE, left_s, payload=payload, targets=Ranges.of(path))
        found.append((second, _said(second)))
        every |= found[-1][1]
    places = [*path, position]
    pairs = list(zip(reversed(places[:-1]), reversed(places[1:]), strict=True)) if said.classes else []
    if said.decision is not None or (said.left_out is not None and not path):
        pairs.insert(0, (position, position))
    causes = {each: cause for answered, _ in found for cause, missing in answered.answer.missing for each in missing}
    leaders = tuple(
        _leader(node, leader, about, every.get(leader), causes.get(leader, UNREADABLE)) for leader, about in pairs
    )
    return _document(node, found, _node(node, position, said), leaders)


def _said(answered: Answered) -> dict[Position, ToldWhy]:
    """By node; what cannot be read is left out."""
    decoded = ((decode_why(result), told) for result, told in answered.answer.groups)
    return {each: said for said, told in decoded if said is not None for each in told}


def _path(node: NodeApi, position: Position, said: ToldWhy) -> list[Position]:
    """The leaders that the node names, the root first; each once."""
    size = node.settings.network.size
    return [each for each in dict.fromkeys(said.path) if each <= size and each != position]


def _document(
    node: NodeApi,
    found: list[tuple[Answered, dict[Position, ToldWhy]]],
    shown: NodeDocument | None,
    leaders: tuple[LeaderDocument, ...],
) -> WhyDocument:
    coverage = [_coverage(node, answered, said) for answered, said in found]
    return WhyDocument(
        asked=sum(each.asked for each in coverage),
        told=sum(each.told for each in coverage),
        complete=all(each.complete for each in coverage),
        missing=tuple(missing for each in coverage for missing in each.missing),
        oldest_ms=sum(each.oldest_ms for each in coverage),
        note=next((each.note for each in coverage if each.note), None),
        node=shown,
        leaders=leaders,
    )


def _coverage(node: NodeApi, answered: Answered, said: dict[Position, ToldWhy]) -> Coverage:
    """Nodes whose answers cannot be read have told nothing."""
    found = answered.coverage
    unread = [each for _, told in answered.answer.groups for each in told if each not in said]
    if not unread:
        return found
    named = tuple(map(node.settings.network.address_text_of, unread))
    missing = MissingDocument(cause=UNREADABLE, text=UNREADABLE_TEXT, count=len(unread), addresses=named)
    return msgspec.structs.replace(
        found, told=found.told - len(unread), complete=False, missing=(*found.missing, missing)
    )


# -- parts ----------------------------------------------------------------------------------------------------------


def _node(node: NodeApi, position: Position, said: ToldWhy) -> NodeDocument:
    following = said.following
    return NodeDocument(
        address=node.settings.network.address_text_of(position),
        version=following.version,
        state=following.word,
        text=sentence_of(following.word, SENTENCES),
        detail=following.detail,
        notes=following.notes,
        wanted_from=said.wanted_from,
        wanted_text=FROM.get(said.wanted_from, said.wanted_from),
        row_age_s=None if said.row_age_ms is None else said.row_age_ms / 1000,
        obeyed=tuple(_obeyed(said)),
    )


def _obeyed(said: ToldWhy) -> Iterator[ObeyedDocument]:
    try:
        tickets = whole(said.obeyed) if said.obeyed else []
    except ValueError:  # a row of nothing, which no honest node has
        return
    for name, share, each in zip(said.classes, said.obeyed, tickets, strict=False):
        yield ObeyedDocument(name=name, percent=share / 1000, tickets=each)


def _leader(node: NodeApi, leader: Position, about: Position, said: ToldWhy | None, cause: str) -> LeaderDocument:
    to_text = node.settings.network.address_text_of
    branch, decision = (None, None) if said is None else (said.branch, said.decision)
    return LeaderDocument(
        address=to_text(leader),
        about=to_text(about),
        cause=None if said is not None else cause,
        text=None if said is not None else UNREADABLE_TEXT if cause == UNREADABLE else sentence(cause),
        version=0 if said is None else said.following.version,
        wanted_from="" if said is None else said.wanted_from,
        wanted_text="" if said is None else FROM.get(said.wanted_from, said.wanted_from),
        asked=0 if said is None else said.asked,
        told=0 if said is None else said.told,
        decided_s=None if decision is None else decision.age_ms / 1000,
        branches=None if decision is None else decision.branches,
        undecided="" if said is None else said.undecided,
        nodes=None if said is None else _nodes(said),
        left_out=None if said is None or branch is not None else _left_out(said),
        classes=() if said is None else tuple(_classes(said)),
    )


def _nodes(said: ToldWhy) -> int | None:
    if said.branch is not None:
        return said.branch.report.nodes
    return None if said.left_out is None else said.left_out.nodes


def _left_out(said: ToldWhy) -> str:
    return NOT_LISTED if said.left_out is None else text_of_left_out(said.left_out)


def _classes(said: ToldWhy) -> Iterator[DecidedDocument]:
    decision, branch = said.decision, said.branch
    steps = () if decision is None else decision.steps
    row = () if decision is None else decision.row
    for place, name in enumerate(said.classes):
        yield DecidedDocument(
            name=name,
            wanted=said.wanted[place] / 1000 if said.wanted else 0.0,
            allocation=None if branch is None else branch.report.allocation[place] / 1000,
            usage=None if branch is None else branch.report.usage[place] / 1000,
            needy=None if branch is None else branch.report.needy[place],
            steps={each.word: each.column[place] / 1000 for each in steps if each.column},
            totals={each.word: each.totals[place] / 1000 for each in steps},
            row=row[place] / 1000 if row else None,
        )
