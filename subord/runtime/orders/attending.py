"""Hands one lasting document to the agent of this node, and hears what the agent says as long as it counts.

Inputs are the documents of the node, and frames of the agent; outputs are calls of a Side, which a service gives.
The agent is handed the document over a connection that lasts as long as the document, or until the agent has
followed it; one that breaks is opened again, after pauses that double. Invariants: one document is handed at a time,
the one that counts; after `begin` the side hears nothing of an earlier document.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from math import inf
from typing import Final, NoReturn, Protocol

import trio

from subord.core.carriage.documents import Document
from subord.core.pacing.backoff import Backoff
from subord.runtime.frames import Frames, Sender
from subord.runtime.orders.agent import Agent, Done, decode_done
from subord.runtime.state.tracker import Tracker

RETRY_S: Final = 1.0
RETRY_S_MAX: Final = 30.0
REFUSED_RETRY_S_MAX: Final = 600.0
"""A refusal ends with the policy of the node, which seldom changes; each attempt may start an agent."""
STEADY_S: Final = 10.0
"""After a connection that has lasted so long, the next one comes soon."""
SETTLED: Final = inf
"""The agent has followed the document, which is not handed again in this life of the daemon."""


class Side(Protocol):
    """What a service makes of it."""

    def begin(self, document: Document | None) -> None:
        """From now on this document counts; None: there is none."""

    def hear(self, data: bytes) -> bool:
        """A frame of the agent; False: the service has no such frames, so it is the last one."""

    def end(self, done: Done | None) -> float:
        """A connection has ended; None: there is no agent, or it has ended meanwhile. Returns the longest pause
        before the document is handed again, or SETTLED."""


class Attending:
    """A document of one daemon, by name. `frame_bytes_max`: of what the agent says."""

    def __init__(self, name: str, side: Side, agent: Agent, tracker: Tracker, frame_bytes_max: int) -> None:
        self._name = name
        self._side = side
        self._agent = agent
        self._tracker = tracker
        self._frame_bytes_max = frame_bytes_max
        self._document: Document | None = None
        self._scope = trio.CancelScope()
        """Of all that is done for the present document."""
        self._is_again = False
        """The document is to be handed over as if it were new."""
        self._changed = trio.Event()
        self._sender: Sender | None = None
        """Of the connection to the agent."""

    async def run(self) -> NoReturn:
        """Follow the document until cancelled."""
        self._tracker.on_documents.append(self._note)
        async with trio.open_nursery() as nursery:
            while True:
                self._look(self._tracker.membership.documents.by_name.get(self._name), nursery)
                await self._changed.wait()
                self._changed = trio.Event()
        raise AssertionError("unreachable")

    async def say(self, data: bytes) -> bool:
        """Whether there is a connection to an agent, which is told this."""
        if self._sender is None:
            await trio.lowlevel.checkpoint()
            return False
        await self._sender.send(data)
        return True

    def hand_again(self) -> None:
        """Hand the document that counts over from the beginning."""
        self._is_again = True
        self._changed.set()

    def _note(self, _: Iterable[Document]) -> None:
        self._changed.set()

    def _look(self, document: Document | None, nursery: trio.Nursery) -> None:
        """Begin with another document, and end what was done for the one before."""
        if document == self._document and not self._is_again:
            return
        self._document, self._is_again = document, False
        self._scope.cancel()
        self._scope = trio.CancelScope()
        self._side.begin(document)
        if document is not None:
            nursery.start_soon(self._hand, document, self._scope)

    async def _hand(self, document: Document, scope: trio.CancelScope) -> None:
        """Have the agent follow a document, until it is settled or another one counts."""
        pause = Backoff(RETRY_S)
        with scope:
            while True:
                began = trio.current_time()
                done = await self._attended(document)
                await _demand_current()
                most_s = self._side.end(done)
                if most_s == SETTLED:
                    return
                if trio.current_time() - began >= STEADY_S:
                    pause = Backoff(RETRY_S)
                await trio.sleep(pause.step(most_s))

    async def _attended(self, document: Document) -> Done | None:
        """How a connection to the agent has ended; None: there was none, or it broke."""
        stream = await self._agent.attend(document)
        if stream is None:
            return None
        async with stream:
            frames, sender = Frames(stream), Sender(stream, self._name)
            self._sender = sender
            try:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    while (data := await frames.next(self._frame_bytes_max)) is not None:
                        await _demand_current()
                        if not self._side.hear(data):
                            return decode_done(data)
            finally:
                if self._sender is sender:
                    self._sender = None
        return None


async def _demand_current() -> None:
    """The document still counts: it may have ended since what a task has waited for came. Raises Cancelled."""
    await trio.lowlevel.checkpoint_if_cancelled()
