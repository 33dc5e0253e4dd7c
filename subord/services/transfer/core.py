"""What a node answers about transfer queues, what the issuer makes of all answers, and the further paths of the
service.

Input is the state of the node. `/v1/transfer/plan` is the plan of this node, `/v1/transfer/site` its configuration,
and for `/v1/transfer/jobs` the transfer host alone is asked. Invariant: without a plan in force that asks no node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import trio

from subord.api.handlers.control import budget_s
from subord.api.http.server import Handler, Query, Response, failure
from subord.api.http.server import document as shown
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered, asked, covered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.services.contract import Service
from subord.services.transfer.telling.answering import answer
from subord.services.transfer.telling.documents import SiteDocument
from subord.services.transfer.telling.published import published
from subord.services.transfer.telling.reading import document
from subord.services.transfer.telling.words import JOB_FORM, JOBS, OVER, payload_for
from subord.services.transfer.telling.words import SERVICE as NAME


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """By path."""
    return {
        f"/v1/{NAME}/plan": partial(_plan, node),
        f"/v1/{NAME}/jobs": partial(_jobs, node),
        f"/v1/{NAME}/site": partial(_site, node),
    }


async def _plan(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    return shown(published(node).shown)


async def _jobs(node: NodeApi, query: Query) -> Response:
    job = query.get("job", "")
    if job and not re.fullmatch(JOB_FORM, job, re.ASCII):
        return failure(400, "?job= must be the number of a job: no node was asked")
    if query.get("over", "1") not in ("0", "1"):
        return failure(400, "?over= must be 0 or 1: no node was asked")
    if job and "over" in query:
        return failure(400, "?over= is for all jobs, not beside ?job=: no node was asked")
    plan = published(node).plan
    if plan is None or plan.is_off:
        await trio.lowlevel.checkpoint()
        nobody = Answer(targets=Ranges())
        return shown(document(Answered(node, nobody, covered(node, nobody, 0.0))))
    targets = Ranges.of((plan.host,))
    return shown(document(await asked(node, NAME, budget_s(query), payload=_payload(query), targets=targets)))


def _payload(query: Query) -> bytes:
    if job := query.get("job", ""):
        return payload_for(job)
    return OVER if query.get("over") == "1" else JOBS


async def _site(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    config = node.transfer.config
    return shown(
        SiteDocument(
            address=node.address,
            batch=config.batch,
            batch_environment=config.batch_environment,
            key=config.key,
            listen=config.listen,
            socket=config.socket,
        )
    )


SERVICE = Service(answer, document, paths=paths)
