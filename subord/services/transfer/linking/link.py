"""Both directions of the link of one plan: what the driver of the two sides has of it.

Inputs are the peer of the plan, our identity, and where to listen; outputs are answers of the other cluster, and
answers to it. Invariants: one asker and one listener for a plan; a host that cannot listen yet still asks, and tries
to listen again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import trio

from subord.services.transfer.linking.asking import Asker
from subord.services.transfer.linking.certificate import CertificateError, mark_of, read
from subord.services.transfer.linking.context import Ends, renewed
from subord.services.transfer.linking.counts import Counts
from subord.services.transfer.linking.serving import ListenError, bound, serve
from subord.services.transfer.plan import Peer

logger = logging.getLogger("subord")
LISTEN_AGAIN_S: Final = 5.0
KEY_LOOK_S: Final = 60.0
"""Between two looks whether the file of our key has changed."""


class Key(NamedTuple):
    """The file of our key. `mark`: as it was when it was read (mark_of)."""

    path: str
    mark: tuple[int, ...]


class Link:
    """`listen`: address ("": all of this host) and port; None: this host does not listen, and no job comes. `key`: is
    read again when it has changed; None: never."""

    def __init__(self, peer: Peer, ends: Ends, listen: tuple[str, int] | None, key: Key | None = None) -> None:
        self.counts = Counts(trio.current_time())
        self.listening_fault = "" if listen else "this host does not listen for the other cluster"
        """Why no message of the other cluster can come; "": one can."""
        self.key_fault = ""
        """Why the file of our key cannot be read again."""
        self._key = key
        self._ends = ends
        self._asker = Asker(peer.addresses, self._ends, self.counts)
        self._fetcher = Asker(peer.addresses, self._ends, Counts(trio.current_time()))
        """On a connection of its own, so that messages do not wait for files."""
        self._listen = listen

    async def ask(self, body: bytes) -> bytes:
        """Raises LinkError."""
        return await self._asker.ask(body)

    async def fetch(self, body: bytes) -> bytes:
        """Of the files of jobs. Raises LinkError."""
        return await self._fetcher.ask(body)

    async def serve(self, answer: Callable[[bytes], Awaitable[bytes]]) -> None:
        """Until it is cancelled. `answer` raises ExchangeError for what is no message."""
        try:
            async with trio.open_nursery() as nursery:
                if self._key is not None:
                    nursery.start_soon(self._follow_key, *self._key)
                if self._listen is None:
                    await trio.sleep_forever()
                await serve(await self._bound(*self._listen), self._ends, answer, self.counts)
        finally:
            with trio.CancelScope(shield=True):
                await self._asker.aclose()
                await self._fetcher.aclose()

    async def _bound(self, host: str, port: int) -> list[trio.SocketListener]:
        while True:
            try:
                listeners = await bound(host, port)
            except ListenError as error:
                if str(error) != self.listening_fault:
                    logger.error("transfer: %s", error)
                self.listening_fault = str(error)
                await trio.sleep(LISTEN_AGAIN_S)
            else:
                self.listening_fault = ""
                return listeners

    async def _follow_key(self, path: str, seen: tuple[int, ...]) -> None:
        """What cannot be used is told once for each change of the file, and the key from before stays in use."""
        while True:
            await trio.sleep(KEY_LOOK_S)
            mark = await trio.to_thread.run_sync(mark_of, path)
            if mark == seen:
                continue
            seen = mark  # from before the file is read, so that a later change is noticed
            try:
                identity = await trio.to_thread.run_sync(read, path)
                self._ends = renewed(self._ends, identity)
            except CertificateError as error:
                self.key_fault = f"{error}; the key from before stays in use"
                logger.error("transfer: %s", self.key_fault)
                continue
            self.key_fault = ""
            logger.info("transfer: %s was read again: SHA-256 %s", path, identity.fingerprint)
            for each in (self._asker, self._fetcher):
                await each.renew(self._ends)
