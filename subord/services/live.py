"""Answers a signed order while nodes end: a line of JSON for new results, and at last the document of the service.

Input is an order that an operator has signed; output is a stream of lines. `{"results": [{"result": BASE64, "nodes":
[ADDRESS, ...]}, ...]}` has what came since the last one, `{"document": {...}}` is the end. Invariant: each node with
a result that is not left out stands in one line. When the reader leaves, the order is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import trio

from subord.api.http.server import EventStream, Send
from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument, Covered
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import NONE, Ranges

LINES: str = "application/x-ndjson"
Progress = Callable[[Answer], None]
Give = Callable[[Progress | None], Awaitable[Answered]]
"""Gives the order; the function gets what is known so far."""


class LiveResult(msgspec.Struct, frozen=True):
    result: bytes
    nodes: tuple[str, ...]


class LiveResults(msgspec.Struct, frozen=True):
    results: tuple[LiveResult, ...]


class LiveEnd(msgspec.Struct, frozen=True):
    document: CoverageDocument | Covered


class _Feed:
    """Sends what is new. The last answer counts, so a slow reader holds up no order."""

    def __init__(self, node: NodeApi) -> None:
        self._node = node
        self._answer: Answer | None = None
        self._is_over = False
        self._told: Ranges = NONE
        self._changed = trio.Event()

    def take(self, answer: Answer) -> None:
        self._answer = answer
        self._changed.set()

    def close(self) -> None:
        self._is_over = True
        self._changed.set()

    async def send_all(self, send: Send) -> None:
        """Until it is closed, and everything is sent."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            is_over = self._is_over
            if new := self._new():
                await send(_line(LiveResults(new)))
            if is_over:
                return

    def _new(self) -> tuple[LiveResult, ...]:
        found: list[LiveResult] = []
        for result, told in self._answer.groups if self._answer is not None else ():
            fresh = told - self._told
            if fresh:
                self._told |= fresh
                found.append(LiveResult(result, nodes.addresses(self._node.settings, fresh)))
        return tuple(found)


def stream(
    node: NodeApi, give: Give, document: Callable[[Answered], CoverageDocument | Covered], *, receipts: bool
) -> EventStream:
    """`receipts`: no result counts before its receipt is checked, so all are told at the end."""

    async def run(send: Send) -> None:
        feed = _Feed(node)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed.send_all, send)
            found = await give(None if receipts else feed.take)
            feed.take(found.answer)
            feed.close()
        await send(_line(LiveEnd(document(found))))

    return EventStream(run, LINES)


def _line(value: LiveResults | LiveEnd) -> bytes:
    return msgspec.json.encode(value) + b"\n"
