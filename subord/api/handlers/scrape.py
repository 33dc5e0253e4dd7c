"""`/metrics`, in the text format of Prometheus.

The library behind it is imported at the first scrape: it costs 2 MiB and 20 ms of each start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subord.api.http.server import App, Query, Response
from subord.api.node_api import NodeApi

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_app(node: NodeApi) -> App:
    """The handlers of the metrics address."""
    registry: CollectorRegistry | None = None

    async def metrics(_: Query) -> Response:
        nonlocal registry
        from subord.api.handlers.metrics import node_registry, page  # noqa: PLC0415 - see above

        registry = registry or node_registry(node)
        return Response(page(registry), content_type=CONTENT_TYPE)

    return {"/metrics": metrics}
