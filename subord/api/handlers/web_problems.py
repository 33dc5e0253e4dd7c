"""`/v1/errors` at the web address, which any client may read.

Input: a request. Output: the problems of the cluster without names of keys. All nodes are asked at most once in
KEPT_S, however many readers there are, because one question reaches every node.
"""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from subord.api.handlers import problems
from subord.api.http.server import Query, Response, document
from subord.api.models.fields import ErrorsDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import BUDGET_S

KEPT_S: Final = 5.0


class WebProblems:
    """The handler of one node."""

    def __init__(self, node: NodeApi) -> None:
        self._node = node
        self._lock = trio.Lock()
        self._answer: Response | None = None
        self._asked_at = 0.0

    async def __call__(self, _: Query) -> Response:
        async with self._lock:
            if self._answer is None or trio.current_time() - self._asked_at >= KEPT_S:
                found = await problems.find(self._node, BUDGET_S)
                self._answer, self._asked_at = document(without_key_names(found)), trio.current_time()
            return self._answer


def without_key_names(found: ErrorsDocument) -> ErrorsDocument:
    """The same problems; of nodes with other keys than most only that they have."""
    named = [
        msgspec.structs.replace(each, text="has other keys than most") if each.kind == "ring" else each
        for each in found.problems
    ]
    return msgspec.structs.replace(found, problems=tuple(named))
