"""Blobs at the control socket: every client may give chunks, and only root and the daemon's own user may take them.

A command gives the chunks of a bundle, then the list of them, and gets the name of the blob; it is held for the time
that the command says. The agent has a blob fetched, and takes it by parts. Input: names in hexadecimal; bodies are
the bytes. Invariant: what is given may give way to other blobs until the list has come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from subord.api.http.server import App, Call, Handler, Orders, Query, Response, document, failure
from subord.api.models.blobs import BlobDocument, ChunkDocument, FetchedDocument, PrunedDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.blobs.bounds import NAME_BYTES
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.runtime.blobs.parts import joined
from subord.runtime.blobs.store import BlobError

WAIT_S_MAX: Final = 5.0
"""Of one question for a blob; it is asked for again."""
KEEP_S: Final = 60.0
HOLDER_CHARS_MAX: Final = 64
BYTES: Final = "application/octet-stream"


def blob_handlers(node: NodeApi) -> Orders:
    """For every client of the control socket."""
    return {"/v1/blobs/chunk": partial(_add, node), "/v1/blobs": partial(_join, node)}


def blob_changes(node: NodeApi) -> App:
    """For the agent."""
    return {
        "/v1/blobs/fetch": _reading(partial(_fetch, node)),  # ?blob=B&source=POSITION&holder=WORD&keep=SECONDS
        "/v1/blobs/take": _reading(partial(_take, node)),  # as fetch, &first=NUMBER
        "/v1/blobs/read": _reading(partial(_read, node)),  # ?name=N
        "/v1/blobs/prune": partial(_prune, node),
        "/v1/blobs/release": _reading(partial(_release, node)),  # ?blob=B&holder=WORD
    }


async def _add(node: NodeApi, call: Call) -> Response:
    try:
        return document(ChunkDocument(name=(await node.held_blobs.add(call.body)).hex()))
    except BlobError as error:
        return failure(409, f"{error}: nothing was kept")


async def _join(node: NodeApi, call: Call) -> Response:
    """`?holder=WORD&keep=SECONDS`."""
    try:
        blob = await node.held_blobs.join(call.body, *_use(call.query))
    except (BlobError, ValueError) as error:
        return failure(409, f"{error}: nothing was kept")
    return document(BlobDocument(blob=blob.hex(), source=node.held_blobs.position))


def _reading(run: Callable[[Query], Awaitable[Response]]) -> Handler:
    """A handler that refuses a malformed question."""

    async def handler(query: Query) -> Response:
        try:
            return await run(query)
        except ValueError:
            return failure(400, "the question is malformed: nothing was changed")

    return handler


async def _fetch(node: NodeApi, query: Query) -> Response:
    return document(await _fetched(node, query))


async def _take(node: NodeApi, query: Query) -> Response:
    """The chunks from a number on; a document as of fetch while the blob is not here. They are not checked: who takes
    them trusts no daemon, and asks `read` for one that is damaged."""
    blob, first = _name(query, "blob"), int(query.get("first", "0")[:16])
    if first < 0:
        raise ValueError("no number")
    found = await _fetched(node, query)
    if not found.here:
        return document(found)
    try:
        return Response(joined(await node.held_blobs.part(blob, first)), content_type=BYTES)
    except BlobError as error:
        return failure(404, f"{error}: nothing was read")


async def _fetched(node: NodeApi, query: Query) -> FetchedDocument:
    """Raises ValueError."""
    blob, source = _name(query, "blob"), int(query.get("source", "")[:16])
    if not 1 <= source <= POSITION_MAX:
        raise ValueError("no position")
    is_here, reason = False, ""
    with trio.move_on_after(WAIT_S_MAX):
        try:
            await node.held_blobs.fetch(blob, source, *_use(query))
            is_here = True
        except BlobError as error:
            reason = str(error)
    return FetchedDocument(here=is_here, reason=reason)


async def _read(node: NodeApi, query: Query) -> Response:
    try:
        return Response(await node.held_blobs.chunk(_name(query, "name")), content_type=BYTES)
    except BlobError as error:
        return failure(404, f"{error}: nothing was read")


async def _release(node: NodeApi, query: Query) -> Response:
    await trio.lowlevel.checkpoint()
    node.held_blobs.release(_name(query, "blob"), _use(query)[0])
    return document(FetchedDocument(here=False, reason=""))


async def _prune(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    chunks, size = node.held_blobs.prune()
    return document(PrunedDocument(chunks=chunks, bytes=size))


def _name(query: Query, field: str) -> bytes:
    """Raises ValueError."""
    name = bytes.fromhex(query.get(field, "")[: 2 * NAME_BYTES + 1])
    if len(name) != NAME_BYTES:
        raise ValueError("no name")
    return name


def _use(query: Query) -> tuple[str, float]:
    """The holder, and for how long it needs the blob. Raises ValueError."""
    keep_s = float(query.get("keep", f"{KEEP_S}")[:32])
    if not keep_s > 0:
        raise ValueError("no time")
    return query.get("holder", "")[:HOLDER_CHARS_MAX], keep_s
