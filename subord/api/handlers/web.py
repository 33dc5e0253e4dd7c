"""The web address of a node (`node.metrics`): `/metrics`, the page, and a part of the control socket's documents.

Nothing is changed here; changes are made at the control socket (handlers/control.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subord.api.handlers.web_problems import web_problems
from subord.api.http.page import page_app
from subord.api.http.server import METRICS_TYPE, App, Query, Response, failure
from subord.api.node_api import NodeApi
from subord.runtime import late

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

METRICS = "subord.api.handlers.metrics"
PUBLIC = (
    "/v1/status",
    "/v1/tree",
    "/v1/why",
    "/v1/members",
    "/v1/changes",
    "/v1/events",
    "/v1/orders",
    "/sd",
    "/metrics/members",
    "/metrics/cluster",
    "/v1/metrics/figures",
    "/v1/metrics/classes",
    "/v1/shares/past",
    "/v1/elastic/past",
    "/v1/machines/shown",
)
"""The paths of the control socket that are served here as they are. Names of keys are not among them."""


def web_app(node: NodeApi, control: App) -> App:
    """The handlers of the web address; `control` are those of the control socket."""
    problems: App = {"/v1/errors": web_problems(node)}
    public = {path: control[path] for path in PUBLIC if path in control}  # those of services that are registered
    return {**page_app(), **metrics_app(node), **public, **problems}


def metrics_app(node: NodeApi) -> App:
    """`/metrics`. The library behind it is loaded at the first scrape: it costs 2 MiB and 20 ms of each start."""
    registry: CollectorRegistry | None = None

    async def metrics(_: Query) -> Response:
        nonlocal registry
        if not await late.load(METRICS):
            return failure(503, "the metrics cannot be loaded: see the log of the daemon")
        from subord.api.handlers.metrics import node_registry, page  # noqa: PLC0415 - see above

        registry = registry or node_registry(node)
        return Response(page(registry), content_type=METRICS_TYPE)

    return {"/metrics": metrics}
