"""Elastic growth for the page: a path that any client may read, so the queue's node is asked rarely however many
there are.

Input: a request. Output: how the queue's node manages the cluster, and what its last polls have seen. Invariant: that
node is asked once in KEPT_S at most, and not while this node knows of no plan in force: every node has the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
import trio

from subord.api.http.server import Handler, Query, Response, document
from subord.api.models.coverage import Coverage
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept
from subord.api.query.one_node import NONE_ASKED, said_by
from subord.api.query.orders import BUDGET_S, Answered, asked
from subord.core.carriage.documents import ELASTIC
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.runtime.elastic.state import SENTENCES
from subord.services.elastic.past.documents import ElasticPastDocument, FiguresDocument, StageDocument
from subord.services.elastic.past.words import SERVICE, AskPast, SaidFigures, SaidPast, decode_said, encode
from subord.services.elastic.plan import decode_plan

PATH: Final = "/v1/elastic/past"
KEPT_S: Final = 4.0


class _Held(NamedTuple):
    """`manager` 0: no plan is in force. `version` 0: none was published."""

    version: int
    manager: Position


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """`/v1/elastic/past`."""
    kept = Kept(lambda: _asked(node), KEPT_S)

    async def past(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        held = _held(node)
        if not held.manager:
            return document(ElasticPastDocument(**_fields(NONE_ASKED), version=held.version or None, off=True))
        return document(_document(node, held, await kept.get()))

    return {PATH: past}


def _held(node: NodeApi) -> _Held:
    held = node.tracker.membership.documents.by_name.get(ELASTIC)
    if held is None:
        return _Held(0, 0)
    plan = decode_plan(held.order.body)
    is_on = plan is not None and not plan.is_off and plan.manager <= node.settings.network.size
    return _Held(held.version, plan.manager if plan is not None and is_on else 0)


async def _asked(node: NodeApi) -> Answered:
    """The node may have another plan by now; the answer says which node it is of."""
    targets = Ranges.of((_held(node).manager or node.snapshot().position,))
    return await asked(node, SERVICE, BUDGET_S, payload=encode(AskPast()), targets=targets)


def _fields(coverage: Coverage) -> dict[str, Any]:
    return msgspec.structs.asdict(coverage)


def _document(node: NodeApi, held: _Held, answered: Answered) -> ElasticPastDocument:
    address = node.settings.network.address_text_of(held.manager)
    said, coverage = said_by(answered, held.manager, address, decode_said)
    if said is None:
        return ElasticPastDocument(**_fields(coverage), version=held.version, off=False, address=address)
    return _of_manager(said, address, coverage, held.version)


def _of_manager(said: SaidPast, address: str, coverage: Coverage, version: int) -> ElasticPastDocument:
    return ElasticPastDocument(
        **_fields(coverage),
        version=version,
        off=False,
        address=address,
        state=said.word,
        text=SENTENCES.get(said.word, said.word),
        detail=said.detail or None,
        trial=said.is_trial,
        figures=None if said.figures is None else _figures(said.figures),
        fault=said.fault or None,
        why=said.why,
        stages=tuple(
            StageDocument(stage=each.stage, nodes=each.nodes, longest_s=each.longest_s, fault=each.fault or None)
            for each in said.stages
        ),
        ages_s=said.ages_s,
        num_hosts=said.num_hosts,
        running=said.running,
        queued=said.queued,
    )


def _figures(said: SaidFigures) -> FiguresDocument:
    return FiguresDocument(
        age_s=said.age_s,
        size=said.size,
        min_nodes=said.min_nodes,
        max_nodes=said.max_nodes,
        needed=said.needed,
        queued=said.queued,
        running=said.running,
        blocked_s=said.blocked_s or None,
    )
