"""Blobs for other processes of this host: commands give chunks, and the agent takes them.

Inputs are chunks, and questions for a blob by a holder, each with the time for which it is needed; output are chunks.
A hold ends with its time, or before when its holder says so, so a process that dies keeps nothing for long.
Invariant: a blob that is held does not give way to others.
"""

from __future__ import annotations

from typing import Final, NoReturn

import trio

from subord.core.carriage.blobs.manifests import Name
from subord.core.view import Position
from subord.runtime.blobs.keeper import BlobKeeper
from subord.runtime.blobs.store import BlobError

HOLDS_MAX: Final = 64
KEEP_S_MAX: Final = 86_400.0
TOO_MANY: Final = "too many blobs are in use on this node: try again later"


class _Hold:
    """One blob for one holder. `reason`: why it does not come; "": it comes, or is here."""

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.is_decided = trio.Event()
        self.reason = ""


class BlobHolds:
    """The blobs that processes of this host use."""

    def __init__(self, keeper: BlobKeeper, position: Position) -> None:
        self.position = position
        """Of this node."""
        self._keeper = keeper
        self._holds: dict[tuple[Name, str], _Hold] = {}
        self._nursery: trio.Nursery

    async def run(self) -> NoReturn:
        """Keep what is held until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await trio.sleep_forever()
        raise AssertionError("unreachable")

    async def add(self, chunk: bytes) -> Name:
        """Keep a chunk until others need its room. Raises BlobError."""
        return await self._keeper.add(chunk)

    async def join(self, manifest: bytes, holder: str, keep_s: float) -> Name:
        """Make a blob of chunks that are here, and hold it. Raises BlobError."""
        blob = await self._keeper.join(manifest)
        try:
            await self.fetch(blob, self.position, holder, keep_s)
        finally:
            self._keeper.release(blob)
        return blob

    async def fetch(self, blob: Name, source: Position, holder: str, keep_s: float) -> None:
        """Get a blob, and hold it for so long from now on. Cancelled, it goes on. Raises BlobError."""
        hold = self._holds.get((blob, holder))
        if hold is None:
            if len(self._holds) >= HOLDS_MAX:
                raise BlobError(TOO_MANY)
            hold = self._holds[blob, holder] = _Hold()
            self._nursery.start_soon(self._keep, blob, source, holder, hold)
        hold.scope.deadline = trio.current_time() + min(keep_s, KEEP_S_MAX)
        await hold.is_decided.wait()
        if hold.reason:
            raise BlobError(hold.reason)

    def release(self, blob: Name, holder: str) -> None:
        """The holder needs it no more."""
        hold = self._holds.get((blob, holder))
        if hold is not None:
            hold.scope.cancel()

    async def chunk(self, name: Name) -> bytes:
        """A chunk that is here. Raises BlobError."""
        return await self._keeper.chunk(name)

    async def part(self, blob: Name, first: int) -> list[bytes]:
        """The next chunks of a blob that is here, from a number on, unchecked. Raises BlobError."""
        return await self._keeper.part(blob, first)

    def prune(self) -> tuple[int, int]:
        """Delete what nothing uses; the chunks and their bytes."""
        return self._keeper.prune()

    async def _keep(self, blob: Name, source: Position, holder: str, hold: _Hold) -> None:
        hold.reason = "nothing needs it any more"
        is_used = True
        try:
            with hold.scope:
                try:
                    await self._keeper.fetch(blob, source)
                except BlobError as error:
                    is_used, hold.reason = False, str(error)
                else:
                    hold.reason = ""
                    hold.is_decided.set()
                    await trio.sleep_forever()
        finally:
            del self._holds[blob, holder]
            hold.is_decided.set()
            if is_used:
                self._keeper.release(blob)
