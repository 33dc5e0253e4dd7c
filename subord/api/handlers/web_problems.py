"""`/v1/errors` at the web address, which any client may read.

Input: a request. Output: the problems of the cluster without names of keys. All nodes are asked at most once in
KEPT_S, however many readers there are, because one question reaches every node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from subord.api.handlers import problems
from subord.api.http.server import Query, Response, document
from subord.api.models.fields import ErrorsDocument
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept
from subord.api.query.orders import BUDGET_S

KEPT_S: Final = 5.0


def web_problems(node: NodeApi) -> Callable[[Query], Awaitable[Response]]:
    """The handler of one node."""

    async def ask() -> Response:
        return document(without_key_names(await problems.find(node, BUDGET_S)))

    kept = Kept(ask, KEPT_S)
    return lambda _: kept.get()


def without_key_names(found: ErrorsDocument) -> ErrorsDocument:
    """The same problems; of nodes with other keys than most only that they have."""
    named = [
        msgspec.structs.replace(each, text="has other keys than most") if each.kind == "ring" else each
        for each in found.problems
    ]
    return msgspec.structs.replace(found, problems=tuple(named))
