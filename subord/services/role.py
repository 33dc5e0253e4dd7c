"""The part of the one node that decides by a document: it runs as long as the document counts and a daemon listens.

Inputs are the document and connections of the daemon of this node; outputs are what the work tells, to each daemon
that is connected. Elastic growth and machines have one each. Invariant: without a connection for GRACE_S the work
ends; what it has begun has ended when `is_over` is set.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final

import trio

from subord.core.carriage.engine.causes import FAILED
from subord.services.acting import Handed, Talk

logger = logging.getLogger("subord")
GRACE_S: Final = 30.0
"""A daemon that restarts, or finds a newer document, is back by then."""


class Role(ABC):
    """From when this node begins to decide by a document until another one takes over, or the daemon is gone."""

    NAME: str
    """Of the service, for the log."""
    ALONE: str
    """What follows without a daemon."""
    REVOKED: str
    """What follows when the operator counts no more."""

    def __init__(self, handed: Handed) -> None:
        self.order = handed.document.order
        self.is_over = trio.Event()
        self._handed = handed
        self._scope = trio.CancelScope()
        """Of the work."""
        self._is_revoked = False
        self._talks = 0
        self._talks_changed = trio.Event()
        self._fault = ""
        self._told = trio.Event()

    # -- of the service -------------------------------------------------------------------------------------------

    @abstractmethod
    async def manage(self) -> str:
        """Work until it is cancelled; the fault that hinders it."""

    @abstractmethod
    def fail(self, fault: str) -> None:
        """What is told from now on: the work has ended by a fault."""

    @abstractmethod
    def news(self, sent: int) -> tuple[Iterator[bytes], int]:
        """What to tell a daemon that was told `sent` of what there is; and how much it has been told then. The first
        time it is -1."""

    def hear(self, data: bytes) -> None:  # noqa: B027 - there may be nothing that it says
        """What a daemon says."""

    async def leave(self) -> None:  # noqa: B027 - there may be nothing that is left
        """The document counts no more, and there is no other one yet."""

    # -- for all ----------------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Another document takes over."""
        self._scope.cancel()
        await self.is_over.wait()

    async def run(self, talk: Talk) -> str:
        """Work, and tell a first daemon; the cause why that has failed."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.tell, talk)
                nursery.start_soon(self._end_when_alone)
                with self._scope:
                    self._become(await self.manage())
                if self._is_revoked:
                    await self.leave()
                self._end()
        finally:
            self._end()
        return self._cause

    async def tell(self, talk: Talk) -> str:
        """Tell a daemon until it ends, or the work has ended; the cause why that has failed."""
        self._count_talks(1)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._hear, talk, nursery.cancel_scope)
                await self._send(talk)
                nursery.cancel_scope.cancel()
        finally:
            self._count_talks(-1)
        return self._cause

    def note(self) -> None:
        """There is something to tell."""
        before, self._told = self._told, trio.Event()
        before.set()

    async def check_revoked(self) -> None:
        """After each step of the work."""
        if self._handed.is_revoked(self._handed.principal, self._handed.fingerprint):
            logger.warning("%s: %s", self.NAME, self.REVOKED)
            self._is_revoked = True
            self._scope.cancel()
        await trio.lowlevel.checkpoint()

    # -- parts ------------------------------------------------------------------------------------------------------

    def _become(self, fault: str) -> None:
        """The work has ended by itself."""
        self._fault = fault
        if fault:
            logger.error("%s: %s", self.NAME, fault)
            self.fail(fault)

    @property
    def _cause(self) -> str:
        return FAILED if self._fault else ""

    def _end(self) -> None:
        self.is_over.set()
        self._talks_changed.set()
        self.note()

    async def _end_when_alone(self) -> None:
        """Once there was no daemon for GRACE_S."""
        while not self.is_over.is_set():
            changed, is_alone = self._talks_changed, not self._talks
            with trio.move_on_after(GRACE_S) if is_alone else trio.CancelScope() as scope:
                await changed.wait()
            if scope.cancelled_caught:
                logger.info("%s: no daemon for %g s: %s", self.NAME, GRACE_S, self.ALONE)
                self._scope.cancel()
                return

    def _count_talks(self, change: int) -> None:
        self._talks += change
        before, self._talks_changed = self._talks_changed, trio.Event()
        before.set()

    async def _hear(self, talk: Talk, scope: trio.CancelScope) -> None:
        """Until the daemon is gone."""
        while (data := await talk.next()) is not None:
            self.hear(data)
        scope.cancel()

    async def _send(self, talk: Talk) -> None:
        """What there is, and what comes from now on, the last one too."""
        sent = -1
        while True:
            told, is_last = self._told, self.is_over.is_set()
            news, sent = self.news(sent)
            for each in list(news):
                await talk.send(each)
            if is_last:
                return
            await told.wait()


class Place:
    """Of this node, for as long as the process lives."""

    def __init__(self) -> None:
        self.turn = trio.Lock()
        """Of documents that are accepted and take over."""
        self._role: Role | None = None

    async def role_in(self, handed: Handed, make: Callable[[], Role] | None) -> tuple[Role | None, bool]:
        """The part of the deciding node in a document, and whether it is new, so that it is to be run. `make` None:
        this node has another part. What an earlier document has begun has ended then."""
        role = self._role
        if role is not None and (make is None or role.is_over.is_set() or role.order != handed.document.order):
            await role.end()
            role = self._role = None
        if make is None or role is not None:
            return role, False
        self._role = make()
        return self._role, True
