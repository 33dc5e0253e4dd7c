"""The control socket: its paths under /v1 and the documents behind them.

Input: the query of a request. Output: a JSON document, or one sentence that says why there is none. This node answers
about itself at once. For other nodes it asks them, and answers within a second (within the budget of the request for
questions to all nodes) even if they are silent.
"""

from __future__ import annotations

from functools import partial

import msgspec
import trio

from subord.api.handlers import changes, keys, peer_answers, problems
from subord.api.handlers.members import Cluster
from subord.api.handlers.targets import targets
from subord.api.http.server import App, EventStream, Query, Response, failure
from subord.api.models import nodes, trees
from subord.api.models.fields import JobsDocument, LogDocument, NamesDocument, RotatedDocument, WhyDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.api.query.root_query import find_roster
from subord.runtime.log.logger import LEVELS
from subord.wire.codec import UNREADABLE

ASK_S_MAX = 0.8
BUDGET_S_MIN, BUDGET_S_MAX = 0.1, 8.0
KEYS_S = 3.0
"""The budget for asking all nodes for their rings; half a second is left for the tenth level."""
ROOTS_ASKED_MAX = 3
ROOT_CHANGES_S = 0.5
"""The usual time until this node knows the next root."""
NOT_NOW = 503
"""Nothing was changed, and the same request may be repeated; after 504 the outcome is unknown."""


def control_app(node: NodeApi) -> App:
    """The handlers of the control socket.

    - `/v1/status`, `/v1/counters`: this node.
    - `/v1/tree`: the whole cluster, nested; with `?form=rows` flat, in depth-first order.
    - `/v1/why?address=A`: the node A; without `address` this one.
    - `/v1/members`: the live members and the vanished ones.
    - `/v1/changes[?since=TOKEN]`: the changes of the tree; `/v1/events` the same as server-sent events.
    - `/sd`: the targets for Prometheus (targets.py).
    - `/v1/keys[?budget=S]`: which nodes have which keys; the nodes have S seconds to answer.
    - `/v1/errors[?budget=S]`: the problems of all nodes.
    - `/v1/names`: the names of the host list by address, if there is one.
    - `/v1/log-level`: the log level.
    """

    async def status(_: Query) -> Response:
        return Response(msgspec.json.encode(nodes.status(node)))

    async def counters(_: Query) -> Response:
        return Response(msgspec.json.encode(nodes.counters(node)))

    async def tree(query: Query) -> Response:
        found = await find_roster(node)
        document = trees.tree(found.roster, found.complete, found.note)
        if query.get("form") == "rows":
            return Response(msgspec.json.encode(document))
        return Response(trees.encoded(document))

    async def why(query: Query) -> Response:
        return await _why(node, query.get("address", node.address))

    cluster = Cluster(node)

    async def members(_: Query) -> Response:
        return Response(msgspec.json.encode(await cluster.members()))

    async def changes_since(query: Query) -> Response:
        return await changes.changes(node, query)

    async def events(query: Query) -> Response | EventStream:
        return await changes.events(node, query)

    async def sd(query: Query) -> Response:
        return await targets(node, cluster, query)

    return {
        "/v1/status": status,
        "/v1/counters": counters,
        "/v1/tree": tree,
        "/v1/why": why,
        "/v1/members": members,
        "/v1/changes": changes_since,
        "/v1/events": events,
        **_cluster_handlers(node),
        "/v1/log-level": partial(_log_level, node),
        "/sd": sd,
    }


def _cluster_handlers(node: NodeApi) -> App:
    """The questions to all nodes, which travel along the tree; and the names of all nodes."""

    async def all_keys(query: Query) -> Response:
        return Response(msgspec.json.encode(await keys.find(node, _budget_s(query.get("budget")))))

    async def errors(query: Query) -> Response:
        return Response(msgspec.json.encode(await problems.find(node, _budget_s(query.get("budget")))))

    async def names(_: Query) -> Response:
        return Response(msgspec.json.encode(NamesDocument(names=node.names)))

    return {"/v1/names": names, "/v1/errors": errors, "/v1/keys": all_keys if node.keeping is not None else _no_keys}


def control_changes(node: NodeApi) -> App:
    """The handlers that change something; only root and the daemon's own user may call them.

    - `/v1/job-done[?weight=W]`: a job was completed on this node.
    - `/v1/log-level?level=L`: change the log level.
    - `/v1/keys/install`, `/v1/keys/use?key=K`, `/v1/keys/remove?key=K[&force=1]`: change the cluster's keys.
    """

    async def rotate(*words: str) -> Response:
        for _ in range(ROOTS_ASKED_MAX):
            response = _rotation_response(await peer_answers.of_root(node, Question("rotate", words, KEYS_S)))
            if response.status != NOT_NOW:
                break
            await trio.sleep(ROOT_CHANGES_S)
        return response

    async def install(_: Query) -> Response:
        return await rotate("install")

    async def use(query: Query) -> Response:
        return await rotate("use", query.get("key", "")[:32])

    async def remove(query: Query) -> Response:
        return await rotate("remove", query.get("key", "")[:32], *(["force"] if query.get("force") == "1" else []))

    async def job_done(query: Query) -> Response:
        return _job_done(node, query.get("weight", "1"))

    rotations = {"/v1/keys/install": install, "/v1/keys/use": use, "/v1/keys/remove": remove}
    return {
        "/v1/job-done": job_done,
        "/v1/log-level": partial(_take_log_level, node),
        **(rotations if node.keeping is not None else dict.fromkeys(rotations, _no_keys)),
    }


def _budget_s(text: str | None) -> float:
    try:
        seconds = float((text or "")[:32])
    except ValueError:
        return ASK_S_MAX
    return min(max(seconds, BUDGET_S_MIN), BUDGET_S_MAX) if seconds > 0 else ASK_S_MAX


async def _log_level(node: NodeApi, _: Query) -> Response:
    return Response(msgspec.json.encode(LogDocument(log_level=node.log.log_level, source=node.log.source)))


async def _take_log_level(node: NodeApi, query: Query) -> Response:
    level = next((each for each in LEVELS if each == query.get("level")), None)
    if level is None:
        return failure(400, f"the level must be one of {', '.join(LEVELS)}: nothing was changed")
    node.log.take(level, "command")
    return await _log_level(node, query)


def _job_done(node: NodeApi, weight: str) -> Response:
    try:
        jobs = float(weight[:32])
    except ValueError:
        return failure(400, "a weight must be a number: nothing was counted")
    complaint = node.performance.job_done(jobs)
    if complaint is not None:
        return failure(409, complaint)
    done, per_hour = node.counters.jobs_done, node.performance.jobs_per_hour
    return Response(msgspec.json.encode(JobsDocument(jobs_done=done, jobs_per_hour=per_hour)))


async def _no_keys(_: Query) -> Response:
    return failure(409, keys.NO_KEYS)


def _rotation_response(answer: bytes | AskFailure) -> Response:
    """The answer of another node is checked before it reaches a terminal."""
    if isinstance(answer, AskFailure):
        return failure(504, answer.reason)
    try:
        found = msgspec.json.decode(answer, type=RotatedDocument)
    except UNREADABLE:
        return failure(502, "the root answers something else than was asked: does it run this version?")
    if found.error is not None:
        return failure(NOT_NOW if found.passing else 409, found.error)
    return Response(msgspec.json.encode(found))


async def _why(node: NodeApi, address: str) -> Response:
    network = node.settings.network
    position = network.position_of(address)
    if position is None:
        return failure(404, f"{address!r} is no address of the network {network.text}: no node was asked")
    address = network.address_text_of(position)
    if address == node.address:
        return Response(await peer_answers.answer(node, Question("why")))
    with trio.move_on_after(ASK_S_MAX):
        answer = await node.ask(address, Question("why"), ASK_S_MAX)
        if isinstance(answer, AskFailure):
            return failure(504, f"{address} {answer.reason}")
        try:
            return Response(msgspec.json.encode(msgspec.json.decode(answer, type=WhyDocument)))
        except UNREADABLE:
            return failure(502, f"{address} answers something else than its reasons: does it run this version?")
    return failure(504, f"{address} does not answer")
