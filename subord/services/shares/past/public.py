"""The shares for the page: a path that any client may read, so the root is asked rarely however many there are.

Input: a request. Output: what the root decides, now and in the last minutes, with the nodes that it covers.
Invariants: the root is asked once in KEPT_S at most, and not while this node knows of no plan in force: every node
has the document. Nodes that are counted and not named are in the coverage, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from subord.api.http.server import Handler, Query, Response, document
from subord.api.models import nodes
from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.models.shares import ShareDocument, SharesCurveDocument, SharesPastDocument
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept
from subord.api.query.orders import BUDGET_S, YOUNG_NOTE, Answered, asked
from subord.core.carriage.engine.causes import OLDER
from subord.core.carriage.reports.coverage import UNREADABLE
from subord.core.carriage.shares.branches import NO_REPORT, NONSENSE, STALE
from subord.core.carriage.shares.interface import Overview
from subord.core.carriage.shares.plan import Plan
from subord.services.folds import root_of
from subord.services.shares.past.keeping import every_s, in_force, numbers_of
from subord.services.shares.past.ring import percent
from subord.services.shares.past.words import SERVICE, AskPast, SaidClass, SaidLeftOut, SaidPast, decode_said, encode

PATH: Final = "/v1/shares/past"
KEPT_S: Final = 4.0
"""Less than the time between two moments."""
FURTHER: Final = "left out further down"
SENTENCES: Final = {
    NO_REPORT: "the node has not reported yet, or cannot measure",
    STALE: "the node has not renewed its report, so its branch is left out",
    NONSENSE: "the last report of the node makes no sense, so its branch is left out",
    OLDER: "the node runs a release of subord that knows no orders, so its branch is left out",
    FURTHER: "a leader below the root leaves the nodes out, and names them",
    UNREADABLE: "the root holds another plan, or has answered what this release of subord cannot read",
}


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """`/v1/shares/past`."""
    kept = Kept(lambda: _asked(node), KEPT_S)

    async def past(_: Query) -> Response:
        found = node.shares.overview()
        plan = in_force(found)
        return document(_without(found) if plan is None else _document(node, plan, await kept.get()))

    return {PATH: past}


async def _asked(node: NodeApi) -> Answered:
    return await asked(node, SERVICE, BUDGET_S, payload=encode(AskPast()), targets=root_of(node))


def _without(found: Overview) -> SharesPastDocument:
    """Shares are off, or were never set: no node is asked."""
    version = None if found.plan is None else found.plan.version
    return SharesPastDocument(
        **_fields(Coverage(asked=0, told=0, complete=True, missing=(), oldest_ms=0.0)),
        version=version,
        round_s=None,
        address=None,
        undecided=None,
        classes=(),
        every_s=0.0,
        ages_s=(),
        nodes_told=(),
        nodes_asked=(),
        curves=(),
    )


def _fields(coverage: Coverage) -> dict[str, Any]:
    return msgspec.structs.asdict(coverage)


def _document(node: NodeApi, plan: Plan, answered: Answered) -> SharesPastDocument:
    for result, positions in answered.answer.groups:
        said = decode_said(result)
        if said is not None:
            return _of_root(node, said, nodes.address(node.settings, next(iter(positions))), answered.coverage)
    return _unanswered(plan, answered)


def _unanswered(plan: Plan, answered: Answered) -> SharesPastDocument:
    """What this node knows by itself."""
    coverage = answered.coverage
    if coverage.told:
        named = nodes.addresses(answered.node.settings, answered.answer.targets)
        missing = MissingDocument(cause=UNREADABLE, text=SENTENCES[UNREADABLE], count=len(named), addresses=named)
        coverage = msgspec.structs.replace(coverage, told=0, missing=(missing,))
    return SharesPastDocument(
        **_fields(msgspec.structs.replace(coverage, complete=False)),
        version=plan.version,
        round_s=plan.round_s,
        address=None,
        undecided=None,
        classes=tuple(
            ShareDocument(name=name, wanted=wanted, got=None, used=None, needy=False)
            for name, wanted in zip(plan.classes, plan.wanted, strict=True)
        ),
        every_s=every_s(plan),
        ages_s=(),
        nodes_told=(),
        nodes_asked=(),
        curves=(),
    )


def _of_root(node: NodeApi, said: SaidPast, address: str | None, answered: Coverage) -> SharesPastDocument:
    return SharesPastDocument(
        **_fields(_coverage(node, said, answered)),
        version=said.version,
        round_s=said.round_ms / 1000,
        address=address,
        undecided=said.undecided or None,
        classes=tuple(map(_class, said.classes)),
        every_s=said.every_ms / 1000,
        ages_s=tuple(each / 1000 for each in said.ages_ms),
        nodes_told=said.nodes_told,
        nodes_asked=said.nodes_asked,
        curves=tuple(_curves(said)),
    )


def _class(said: SaidClass) -> ShareDocument:
    wanted, got, used = map(percent, (said.wanted, said.got, said.used))
    return ShareDocument(name=said.name, wanted=wanted or 0.0, got=got, used=used, needy=said.is_needy)


def _curves(said: SaidPast) -> Iterator[SharesCurveDocument]:
    for each in said.curves:
        wanted, got, used = (tuple(map(percent, numbers_of(data))) for data in (each.wanted, each.got, each.used))
        yield SharesCurveDocument(name=each.name, wanted=tuple(one or 0.0 for one in wanted), got=got, used=used)


def _coverage(node: NodeApi, said: SaidPast, answered: Coverage) -> Coverage:
    """Of the nodes in the decisions of the root. It names the branches that it leaves out itself; what is left out
    below its subordinates it only counts."""
    told = min(said.told, said.asked)
    room, missing = said.asked - told, list[MissingDocument]()
    for each in said.left_out:
        count = min(each.nodes, room)
        room -= count
        if count:
            missing.append(_missing(node, each, count))
    if room:
        missing.append(MissingDocument(cause=FURTHER, text=SENTENCES[FURTHER], count=room, addresses=()))
    return Coverage(
        asked=said.asked,
        told=told,
        complete=said.is_root and told == said.asked and not said.is_young,
        missing=tuple(missing),
        oldest_ms=round(said.oldest_ms + answered.oldest_ms, 1),
        note=YOUNG_NOTE if said.is_young else None,
    )


def _missing(node: NodeApi, said: SaidLeftOut, count: int) -> MissingDocument:
    """The branches of one cause, each by its highest node."""
    named = nodes.addresses(node.settings, said.branches)
    return MissingDocument(
        cause=said.cause, text=SENTENCES.get(said.cause, said.cause), count=count, addresses=named[:count]
    )
