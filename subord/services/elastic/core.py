"""What a node answers about elastic growth, what the issuer makes of all answers, and the further paths of the
service.

Input is the state of the node; signed orders are for the agent (agent.py). `/v1/elastic/plan` is the plan of this
node, `/v1/elastic/polls` are its polls, and for `/v1/elastic/manager` the queue's node alone is asked. POST to
`/v1/elastic/poll` has the agent of this node poll now. Invariant: without a plan in force that asks no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import trio

from subord.api.handlers.control import budget_s
from subord.api.http.server import Call, Handler, Orders, Query, Response, failure
from subord.api.http.server import document as shown
from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered, asked, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.elastic.state import SENTENCES, Poll
from subord.services.contract import Service
from subord.services.elastic.past import answering, public
from subord.services.elastic.telling import steps
from subord.services.elastic.telling.answering import answer
from subord.services.elastic.telling.documents import PollDocument, PollingDocument, PollsDocument
from subord.services.elastic.telling.published import published
from subord.services.elastic.telling.reading import document
from subord.services.elastic.telling.words import SERVICE as NAME


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    own = {
        f"/v1/{NAME}/plan": partial(_plan, node),
        f"/v1/{NAME}/manager": partial(_manager, node),
        f"/v1/{NAME}/polls": partial(_polls, node),
    }
    return {**own, **public.paths(node)}


async def _answer(node: NodeApi, payload: bytes) -> bytes:
    """Questions of the page are of their own kind; to others `answering` of the page answers nothing."""
    return await answering.answer(node, payload) or await answer(node, payload)


async def _plan(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return shown(published(node).shown)


async def _manager(node: NodeApi, query: Query) -> Response:
    plan = published(node).plan
    if plan is None or plan.is_off:
        await trio.lowlevel.checkpoint()
        nobody = Answer(targets=Ranges())
        return shown(document(Answered(node, nobody, covered(node, nobody, 0.0))))
    return shown(document(await asked(node, NAME, budget_s(query), targets=Ranges.of((plan.manager,)))))


def posts(node: NodeApi) -> Orders:
    """By path. A poll changes nothing that the next one would not, so it needs no authority."""
    return {f"/v1/{NAME}/poll": partial(_poll_soon, node)}


async def _poll_soon(node: NodeApi, _: Call) -> Response:
    if await node.elastic.poll_soon():
        return shown(PollingDocument(asked=True))
    sentence = SENTENCES[node.elastic.state.word]
    return failure(409, f"this node adds and removes no nodes, so it was not asked to poll: {sentence}")


async def _polls(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    plan = published(node).plan
    interval_s = None if plan is None or plan.options is None else plan.options.interval_s
    polls = tuple(map(_poll, node.elastic.polls))
    return shown(PollsDocument(cluster=node.settings.cluster_name, interval_s=interval_s, polls=polls))


def _poll(found: Poll) -> PollDocument:
    return PollDocument(
        time=time_text(found.time),
        num_hosts=found.num_hosts,
        running=found.running,
        queued=found.queued,
        slots=found.slots,
        avg_duration=found.avg_duration,
        avg_wait=found.avg_wait,
        avg_load=found.avg_load,
    )


SERVICE = Service(_answer, document, paths=paths, acted=steps.document, posts=posts)
