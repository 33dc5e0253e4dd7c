"""What a node answers about machines, what the issuer makes of all answers, and the further paths of the service.

Inputs are the states of the node, and queries; signed orders are for the agent (agent.py). `/v1/machines/plan` is the
plan of this node, `/v1/machines/servers` asks nodes for what is on them, and for `/v1/machines/manager` and
`/v1/machines/why?job=ID` the queue's node alone is asked. `/v1/machines/where` asks all nodes which are servers.
`/v1/machines/shown` is for the page. Invariant: without a plan in force no queue's node is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio

from subord.api.handlers.control import budget_s
from subord.api.http.server import Handler, Query, Response, failure
from subord.api.http.server import document as shown
from subord.api.node_api import NodeApi
from subord.api.query.orders import NEW, Answered, asked, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.machines.state import NAME_CHARS_MAX
from subord.services.contract import Service
from subord.services.machines.shown import answering, public
from subord.services.machines.telling.answering import answer
from subord.services.machines.telling.ordering import ordered, where
from subord.services.machines.telling.published import published
from subord.services.machines.telling.reading import document, list_of, why_of
from subord.services.machines.telling.words import SERVICE as NAME
from subord.services.machines.telling.words import AskJob, AskServer, encode
from subord.services.serving import targets_of


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    own = {
        f"/v1/{NAME}/plan": partial(_plan, node),
        f"/v1/{NAME}/servers": partial(_servers, node),
        f"/v1/{NAME}/manager": partial(_manager, node),
        f"/v1/{NAME}/why": partial(_why, node),
        f"/v1/{NAME}/where": partial(_where, node),
    }
    return {**own, **public.paths(node)}


async def _answer(node: NodeApi, payload: bytes) -> bytes:
    """Questions of the page are of their own kind; to others `answering` of the page answers nothing."""
    return await answering.answer(node, payload) or await answer(node, payload)


async def _plan(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return shown(published(node).shown)


async def _servers(node: NodeApi, query: Query) -> Response:
    try:
        targets = targets_of(query.get("nodes"), node.settings.network.size)
    except ValueError as error:
        return failure(400, f"{error}: no node was asked")
    given = NEW._replace(receipts=query.get("receipts") == "1")
    payload = encode(AskServer())
    return shown(list_of(await asked(node, NAME, budget_s(query), payload=payload, targets=targets, given=given)))


async def _manager(node: NodeApi, query: Query) -> Response:
    return shown(document(await _asked_manager(node, query, b"")))


async def _why(node: NodeApi, query: Query) -> Response:
    job = query.get("job", "")
    if not 0 < len(job) <= NAME_CHARS_MAX:
        return failure(400, f"?job= is missing, or has more than {NAME_CHARS_MAX} characters: no node was asked")
    return shown(why_of(await _asked_manager(node, query, encode(AskJob(job))), job))


async def _where(node: NodeApi, query: Query) -> Response:
    return shown(where(await asked(node, NAME, budget_s(query))))


async def _asked_manager(node: NodeApi, query: Query, payload: bytes) -> Answered:
    """The answer of the queue's node; of no node without a plan in force."""
    plan = published(node).plan
    if plan is None or plan.is_off:
        await trio.lowlevel.checkpoint()
        none = Answer(targets=Ranges())
        return Answered(node, none, covered(node, none, 0.0))
    targets = Ranges.of((plan.manager,))
    return await asked(node, NAME, budget_s(query), payload=payload, targets=targets)


SERVICE = Service(_answer, document, paths=paths, acted=ordered)
