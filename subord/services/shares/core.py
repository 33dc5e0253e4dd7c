"""What a node answers about shares, what the issuer makes of all answers, and the further paths of the service.

Inputs are the state and the overview of the node, and queries: `/v1/shares/plan`, and `/v1/shares/why?node=ADDRESS`.
Invariant: of a wrong request no node is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio

from subord.api.handlers.control import budget_s
from subord.api.http.server import Handler, Query, Response, failure
from subord.api.http.server import document as shown
from subord.api.node_api import NodeApi
from subord.services.contract import Service
from subord.services.shares.past import keeping, public
from subord.services.shares.telling.answering import answer
from subord.services.shares.telling.published import published
from subord.services.shares.telling.reading import document
from subord.services.shares.telling.reasons import why


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    own = {"/v1/shares/plan": partial(_plan, node), "/v1/shares/why": partial(_why, node)}
    return {**own, **public.paths(node)}


async def _answer(node: NodeApi, payload: bytes) -> bytes:
    """Questions of the page are of their own kind; to others `keeping` answers nothing."""
    return await keeping.answer(node, payload) or await answer(node, payload)


async def _plan(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return shown(published(node).shown)


async def _why(node: NodeApi, query: Query) -> Response:
    address = query.get("node", node.address)
    position = node.settings.network.position_of(address)
    if position is None:
        return failure(404, f"{address[:64]!r} is no address of the network: no node was asked")
    return shown(await why(node, position, budget_s(query)))


SERVICE = Service(_answer, document, paths=paths)
