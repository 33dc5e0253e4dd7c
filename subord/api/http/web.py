"""The web address of a node (`node.metrics`): what everybody may read who reaches it. Nothing is changed here.

Intuition: the notice board outside. At the desk inside (handlers/control.py) more is told, and orders are taken.
"""

from __future__ import annotations

from subord.api.http.page import page_app
from subord.api.http.scrape import metrics_app
from subord.api.http.server import App
from subord.api.node_api import NodeApi

OPEN = ("/v1/status", "/v1/tree", "/v1/why", "/v1/members", "/v1/changes", "/v1/events", "/sd")
"""What is shown outside, too. Not the names of keys."""


def web_app(shown: NodeApi, control: App) -> App:
    """The handlers of the web address; `control` are those of the control socket."""
    return {**page_app(), **metrics_app(shown), **{path: control[path] for path in OPEN}}
