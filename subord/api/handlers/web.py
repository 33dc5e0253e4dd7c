"""The web address of a node (`node.metrics`): a part of the control socket's documents, for all that can reach it.

Nothing is changed here; changes are made at the control socket (handlers/control.py).
"""

from __future__ import annotations

from subord.api.handlers.scrape import metrics_app
from subord.api.http.page import page_app
from subord.api.http.server import App
from subord.api.node_api import NodeApi

PUBLIC = ("/v1/status", "/v1/tree", "/v1/why", "/v1/members", "/v1/changes", "/v1/events", "/sd")
"""The paths of the control socket that are served here, too. Names of keys are not among them."""


def web_app(node: NodeApi, control: App) -> App:
    """The handlers of the web address; `control` are those of the control socket."""
    return {**page_app(), **metrics_app(node), **{path: control[path] for path in PUBLIC}}
