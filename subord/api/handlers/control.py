"""The control socket: its paths under /v1 and the documents behind them.

Input: the query of a request. Output: a JSON document, or one sentence that says why there is none. This node answers
about itself at once. For other nodes it asks them, and answers within a second even if they are silent. Questions to
all nodes are services (subord/services).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from subord.api.handlers import changes, keys, members, operators, statements
from subord.api.handlers.targets import member_metrics, targets
from subord.api.http.server import App, Handler, Query, Response, document, failure
from subord.api.models import nodes, sets, trees
from subord.api.models.fields import JobsDocument, LogDocument, NamesDocument, WhyDocument
from subord.api.models.orders_under_way import orders
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.orders import BUDGET_S
from subord.api.query.peer import ASK_S_MAX, ask
from subord.api.query.root_query import find_roster
from subord.core.members.register import State
from subord.runtime.log.logger import LEVELS

BUDGET_S_MIN, BUDGET_S_MAX = 0.1, 8.0
OF_OLDER_COMMANDS = ("/v1/keys/install", "/v1/keys/use", "/v1/keys/remove")
"""Orders are signed now (handlers/orders.py)."""


def control_app(node: NodeApi) -> App:
    """The handlers of the control socket."""
    return {
        "/v1/status": _telling(lambda _: members.status(node)),
        "/v1/counters": _telling(lambda _: nodes.counters(node)),
        "/v1/log-level": _telling(lambda _: _log_level(node)),
        "/v1/names": _asking(lambda _: _names(node)),  # of the host list and the resolver, by address
        "/v1/tree": partial(_tree, node),  # of the whole cluster
        "/v1/why": partial(_why, node),  # ?address=A
        "/v1/operators": _asking(lambda _: operators.find(node)),
        "/v1/members": _asking(lambda _: members.of_cluster(node)),  # present ones, and those that are down
        "/v1/sets": _telling(lambda _: sets.sets(node)),
        "/v1/statements": _telling(lambda _: statements.said(node)),  # of operators, about nodes
        "/v1/changes": partial(changes.changes, node),  # ?since=TOKEN
        "/v1/events": partial(changes.events, node),
        "/v1/orders": _telling(lambda _: orders(node)),  # to nodes, at this node; by POST: signed ones
        "/sd": partial(targets, node),
        "/metrics/members": partial(member_metrics, node),
    }


def control_changes(node: NodeApi) -> App:
    """The handlers that change something; only root and the daemon's own user may call them."""
    return {
        "/v1/job-done": partial(_job_done, node),  # ?weight=W
        "/v1/log-level": partial(_take_log_level, node),  # ?level=L
        **dict.fromkeys(OF_OLDER_COMMANDS, _older),
    }


def _telling(make: Callable[[Query], object]) -> Handler:
    """A handler for a document of this node."""

    async def handler(query: Query) -> Response:
        return document(make(query))

    return handler


def _asking(make: Callable[[Query], Awaitable[object]]) -> Handler:
    """A handler for a document that takes questions to other nodes."""

    async def handler(query: Query) -> Response:
        return document(await make(query))

    return handler


def budget_s(query: Query, most_s: float = BUDGET_S_MAX) -> float:
    """Of `?budget=SECONDS`: the time of the nodes to answer an order."""
    try:
        seconds = float(query.get("budget", "")[:32])
    except ValueError:
        return BUDGET_S
    return min(max(seconds, BUDGET_S_MIN), most_s) if seconds > 0 else BUDGET_S


async def _tree(node: NodeApi, query: Query) -> Response:
    """Nested; with `?form=rows` flat, in depth-first order."""
    found = await find_roster(node)
    known = members.expected_rows(node, found.report)
    tree = trees.tree(known, found.note, members.gone(node), members.reasons(node, known))
    return document(tree) if query.get("form") == "rows" else Response(trees.encoded(tree))


async def _why(node: NodeApi, query: Query) -> Response:
    """Of the node `?address=A`; without it, of this one."""
    network, address = node.settings.network, query.get("address", node.address)
    position = network.position_of(address)
    if position is None:
        return failure(404, f"{address!r} is not an address of the network {network.text}: no node was asked")
    address = network.address_text_of(position)
    if address == node.address:
        return document(members.why(node))
    found = await ask(node, address, "why", WhyDocument, ASK_S_MAX)
    return _without_answer(found) if isinstance(found, AskFailure) else document(found)


def _without_answer(found: AskFailure) -> Response:
    return failure(502 if found.kind == "unreadable" else 504, found.reason)


async def _names(node: NodeApi) -> NamesDocument:
    register = node.tracker.membership.register
    members_of = nodes.addresses(node.settings, register.positions(State.UP, State.DOWN))
    unlisted = (each for each in (node.address, *members_of) if each not in node.names)
    resolved = await node.resolved_names.of(unlisted, own=node.address)
    return NamesDocument(names=node.names, resolved=resolved)


def _log_level(node: NodeApi) -> LogDocument:
    return LogDocument(log_level=node.log.log_level, source=node.log.source)


async def _take_log_level(node: NodeApi, query: Query) -> Response:
    level = next((each for each in LEVELS if each == query.get("level")), None)
    if level is None:
        return failure(400, f"the level must be one of {', '.join(LEVELS)}: nothing was changed")
    node.log.take(level, "command")
    return document(_log_level(node))


async def _job_done(node: NodeApi, query: Query) -> Response:
    try:
        jobs = float(query.get("weight", "1")[:32])
    except ValueError:
        return failure(400, "a weight must be a number: nothing was counted")
    complaint = node.performance.job_done(jobs)
    if complaint is not None:
        return failure(409, complaint)
    return document(JobsDocument(jobs_done=node.counters.jobs_done, jobs_per_hour=node.performance.jobs_per_hour))


async def _older(_: Query) -> Response:
    return failure(409, f"{keys.OLDER}; nothing was changed")
