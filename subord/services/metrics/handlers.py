"""The paths of `subord metrics` at the control socket, beside that of the figures.

Inputs are queries: `/v1/metrics/branches?name=PATTERN`, `/v1/metrics/history?name=PATTERN&seconds=N&of=FIGURE`, with
`&by=branch` also of the subordinates of the root. Invariant: of a wrong request no node is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from subord.api.handlers.control import budget_s
from subord.api.http.server import Handler, Query, Response, document, failure
from subord.api.node_api import NodeApi
from subord.core.decoding import UNREADABLE
from subord.services.metrics.branches.document import branches
from subord.services.metrics.past.document import history
from subord.services.metrics.plan.carried import shown_plan
from subord.services.metrics.questions.words import FIGURES, HISTORY_S_MAX, AskBranch, AskPast


def handlers(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    return {
        "/v1/metrics/plan": partial(_plan, node),
        "/v1/metrics/branches": partial(_branches, node),
        "/v1/metrics/history": partial(_history, node),
    }


async def _plan(node: NodeApi, _: Query) -> Response:
    return document(shown_plan(node))


async def _branches(node: NodeApi, query: Query) -> Response:
    try:
        ask = msgspec.convert([1, query.get("name", "")], AskBranch)
    except UNREADABLE:
        return failure(400, "the name of a metric has at most 64 characters: no node was asked")
    return document(await branches(node, ask.pattern, budget_s(query)))


async def _history(node: NodeApi, query: Query) -> Response:
    try:
        seconds = int(query.get("seconds", "600")[:32])
        ask = msgspec.convert([2, query.get("name", ""), seconds, query.get("of", FIGURES[0])], AskPast)
    except UNREADABLE:
        what = f"a name of at most 64 characters, 1 to {HISTORY_S_MAX} seconds, and one of {', '.join(FIGURES)}"
        return failure(400, f"a history needs {what}: no node was asked")
    return document(await history(node, ask, budget_s(query), by_branch=query.get("by") == "branch"))
