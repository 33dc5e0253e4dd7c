"""The page: the files of subord/page as they are, for every browser that reaches the web address.

Intuition: a poster and its nails. The daemon hands them out and knows nothing of what they show; what is live on the
page, the browser asks for at the addresses under /v1. They are fetched from the cellar when the first reader comes.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
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
FILES = (
    FRONT,
    "page.css",
    "theme.js",
    "page.js",
    "watch.js",
    "talk.js",
    "forest.js",
    "tree.js",
    "node.js",
    "events.js",
    "words.js",
    "icon.svg",
)
"""Named one by one: whatever else may come to lie there is served to nobody."""

HEADERS = (
    # Nothing from elsewhere and nothing written into the page is obeyed (CSP level 3); it may be framed by its own
    # site alone, and tells nobody where its reader came from.
    (
        "content-security-policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; object-src 'none'",
    ),
    ("referrer-policy", "no-referrer"),
)


@cache
def _contents(name: str) -> bytes:
    """Read once, from wherever Python keeps its packages."""
    return resources.files("subord").joinpath("page", name).read_bytes()


def page_app() -> App:
    """The handlers of the page: `/`, and the files beside it."""
    return {"/" if name == FRONT else f"/{name}": _file(name) for name in FILES}


def _file(name: str) -> Handler:
    kind = TYPES[PurePosixPath(name).suffix]

    async def file(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        return Response(_contents(name), content_type=kind, headers=HEADERS)

    return file
