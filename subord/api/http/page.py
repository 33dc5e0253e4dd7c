"""The page: the files of subord/page, unchanged, at the web address.

The daemon reads them when they are first asked for and keeps them. They ask for all live data under /v1.
"""

from __future__ import annotations

from functools import cache
from pathlib import PurePosixPath

import trio

from subord.api.http.server import App, Handler, Query, Response

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FRONT = "index.html"
RUNBOOK = "runbook.html"
SCRIPTS = (
    *("theme.js", "page.js", "watch.js", "api.js", "poll.js", "dom.js", "forest.js", "fold.js", "header.js"),
    *("overview.js", "orders.js", "tree.js", "node.js", "problems.js", "events.js", "groups.js", "sparkline.js"),
    *("metrics.js", "spread.js", "coverage.js", "curves.js", "shares.js"),
    *("panel.js", "elastic.js", "machines.js", "servers.js"),
)
FILES = (FRONT, "page.css", *SCRIPTS, "icon.svg")
"""Named one by one, so that other files in the directory are not served."""

HEADERS = (
    # The browser runs only scripts of this site and no inline ones (CSP level 3); only this site may frame the page;
    # no referrer is sent.
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; object-src 'none'",
    ),
    ("referrer-policy", "no-referrer"),
)


@cache
def _contents(name: str) -> bytes:
    """Read once per file."""
    from importlib import resources  # noqa: PLC0415 - only a browser asks for the page

    return resources.files("subord").joinpath("page", name).read_bytes()


def page_app() -> App:
    """The handlers of the page: `/`, the files beside it, and the meaning of each alert of deploy/prometheus."""
    return {"/" if name == FRONT else f"/{name}": _file(name) for name in FILES} | {"/runbook": _file(RUNBOOK)}


def _file(name: str) -> Handler:
    kind = TYPES[PurePosixPath(name).suffix]

    async def file(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        return Response(_contents(name), content_type=kind, headers=HEADERS)

    return file
