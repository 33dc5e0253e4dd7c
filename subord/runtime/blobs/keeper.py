"""Connects the blobs of this node with its disk: puts files, fetches blobs, and serves the actions of the engine.

Inputs are calls of services and actions of the engine; outputs are events for it, and files. Hashing and the disk are
in threads, one at a time and in order, so a chunk is never deleted after it has come again. Invariant: every fetch is
answered once, unless it is cancelled, and the engine keeps a blob until its last user has released it.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import trio

from subord.core.carriage.blobs.blobs import Blobs
from subord.core.carriage.blobs.interface import (
    Check,
    Checked,
    Evict,
    Fetch,
    Fetched,
    Held,
    Read,
    ReadEnded,
    Release,
    Wrong,
)
from subord.core.carriage.blobs.manifests import Name, name_of
from subord.core.carriage.engine.interface import PartEvent
from subord.core.carriage.engine.tree import Tree
from subord.core.view import Position
from subord.runtime.blobs.store import BlobError, ChunkStore, Put, reason_of

logger = logging.getLogger("subord")
DIRECTORY: Final = "blobs"
NO_DIRECTORY: Final = "this node keeps no blobs: set node.state_directory"


class _Waiting:
    """A service that waits for a blob."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.is_over = trio.Event()


class BlobKeeper:
    """The blobs of one daemon. `directory` "": none is kept, but chunks are passed on."""

    def __init__(self, directory: str, bytes_max: int, address_of: Callable[[Position], str]) -> None:
        self.feed: Callable[[PartEvent], None]
        self._path = Path(directory) / DIRECTORY if directory else None
        self._bytes_max = bytes_max if directory else 0
        self._address_of = address_of
        self._blobs: Blobs | None = None
        self._store: ChunkStore | None = None
        self._work: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._has_work = trio.Event()
        self._waiting: dict[Name, _Waiting] = {}
        self._users: Counter[Name] = Counter()
        """Calls of `put` and `fetch` that need a `release`."""
        self._warned = ""

    def part_of(self, tree: Tree) -> Blobs:
        """The part of the engine."""
        self._blobs = Blobs(tree, self._bytes_max)
        return self._blobs

    @property
    def actions(self) -> dict[Any, Callable[[Any], None]]:
        """What carries out the actions of the part."""
        return {
            Check: lambda action: self._plan(partial(self._check, action), self._checked),
            Read: lambda action: self._plan(partial(self._read, action)),
            Evict: lambda action: self._plan(partial(self._evict, action)),
            Fetched: self._fetched,
            Wrong: self._wrong,
        }

    async def run(self) -> NoReturn:
        """Serve the disk until cancelled."""
        if self._path is not None and await trio.to_thread.run_sync(self._path.exists, abandon_on_cancel=True):
            self._plan(self._held)
        while True:
            await self._has_work.wait()
            self._has_work = trio.Event()
            while self._work:
                work, then = self._work.popleft()
                then(await trio.to_thread.run_sync(work, abandon_on_cancel=True))

    def _plan(self, work: Callable[[], Any], then: Callable[[Any], None] | None = None) -> None:
        """`then` takes the result, without `then` the engine."""
        self._work.append((work, then or self._tell))
        self._has_work.set()

    def _tell(self, event: PartEvent | None) -> None:
        if event is not None:
            self.feed(event)

    # -- in a thread --------------------------------------------------------------------------------------

    def _opened(self) -> ChunkStore | None:
        """The directory; None: there is none, or it cannot be used, which was logged."""
        if self._store is None and self._path is not None:
            try:
                self._store = ChunkStore(self._path)
            except OSError as error:
                self._warn(error)
        return self._store

    def _warn(self, error: OSError) -> None:
        """Log it, unless it was the last that was logged, of another chunk or this one."""
        if reason_of(error) != self._warned:
            self._warned = reason_of(error)
            logger.error("cannot use %s, blobs are not kept: %s", self._path, error)

    def _held(self) -> PartEvent | None:
        try:
            store = self._opened()
            return None if store is None else Held(store.held())
        except OSError as error:
            self._warn(error)
            return None

    def _check(self, action: Check) -> tuple[Checked, str]:
        """Whether the chunk is right, and why it is not kept; "": it is."""
        store = self._opened() if self._bytes_max else None
        if store is None:
            ok, reason = name_of(action.chunk) == action.name, self._warned
        else:
            try:
                ok, reason = store.write(action.name, action.chunk), ""
            except OSError as error:
                self._warn(error)
                ok, reason = True, reason_of(error)
        return Checked(action.name, ok), reason

    def _read(self, action: Read) -> ReadEnded:
        try:
            store = self._opened()
            return ReadEnded(action.name, None if store is None else store.read(action.name))
        except OSError as error:
            self._warn(error)
            return ReadEnded(action.name, None)

    def _evict(self, action: Evict) -> None:
        try:
            if self._store is not None:
                self._store.delete(action.name)
        except OSError as error:
            self._warn(error)

    def _checked(self, found: tuple[Checked, str]) -> None:
        """A right chunk that cannot be written is passed on, and no blob comes to this node until it can."""
        checked, reason = found
        for blob in list(self._waiting) if reason else ():
            self.feed(Release(blob))
            self._end(blob, reason)
        self.feed(checked)
        if reason:
            self.feed(ReadEnded(checked.name, None))  # it is not on the disk

    # -- for services -------------------------------------------------------------------------------------

    async def put(self, path: Path) -> Name:
        """Keep a file as a blob, until `release`, one for each call. Raises BlobError. The disk may be over
        its bound for a moment, before others give way."""
        return await self._kept(lambda store: store.put(path, self._bytes_max))

    async def join(self, manifest: bytes) -> Name:
        """Keep chunks that are here as a blob; otherwise as `put`."""
        return await self._kept(lambda store: store.join(manifest), reason_of)

    async def _kept(self, work: Callable[[ChunkStore], Put], reason: Callable[[OSError], str] = str) -> Name:
        found, is_done = list[Put | BlobError](), trio.Event()

        def then(put: Put | BlobError) -> None:
            if isinstance(put, Put):
                waiting = self._waiting.setdefault(put.blob, _Waiting())
                self.feed(Held(put.chunks, put.blob))
                if waiting.reason:
                    put = BlobError(waiting.reason)
                else:
                    self._users[put.blob] += 1
            found.append(put)
            is_done.set()

        self._plan(partial(self._put, work, reason), then)
        await is_done.wait()
        if isinstance(found[0], BlobError):
            raise found[0]
        return found[0].blob

    def _put(self, work: Callable[[ChunkStore], Put], reason: Callable[[OSError], str]) -> Put | BlobError:
        """In a thread."""
        try:
            store = self._opened()
            return BlobError(self._why_closed) if store is None else work(store)
        except BlobError as error:
            return error
        except OSError as error:
            return BlobError(reason(error))

    @property
    def _why_closed(self) -> str:
        """Why there is no store."""
        return NO_DIRECTORY if self._path is None else self._warned

    async def fetch(self, blob: Name, source: Position) -> None:
        """Get a blob, and keep it until `release`, one for each call. Raises BlobError, and needs no `release` then;
        a cancelled fetch needs one, too."""
        if self._path is None:
            raise BlobError(NO_DIRECTORY)
        waiting = self._waiting.setdefault(blob, _Waiting())
        self._users[blob] += 1
        self.feed(Fetch(blob, source))
        await waiting.is_over.wait()
        if waiting.reason:
            self._leave(blob)
            raise BlobError(waiting.reason)

    def _fetched(self, action: Fetched) -> None:
        self._end(action.blob, action.reason)

    def _end(self, blob: Name, reason: str) -> None:
        waiting = self._waiting.pop(blob, None)
        if waiting is not None:
            waiting.reason = reason
            waiting.is_over.set()

    async def add(self, chunk: bytes) -> Name:
        """Keep one chunk, as long as no other needs its room. Raises BlobError."""
        found, is_done = list[Name | BlobError](), trio.Event()

        def then(name: Name | BlobError) -> None:
            if not isinstance(name, BlobError):
                self.feed(Held(((name, len(chunk)),)))
            found.append(name)
            is_done.set()

        self._plan(partial(self._added, chunk), then)
        await is_done.wait()
        if isinstance(found[0], BlobError):
            raise found[0]
        return found[0]

    def _added(self, chunk: bytes) -> Name | BlobError:
        """In a thread."""
        name = name_of(chunk)
        try:
            store = self._opened()
            return BlobError(self._why_closed) if store is None or not store.write(name, chunk) else name
        except OSError as error:
            return BlobError(reason_of(error))

    async def chunk(self, name: Name) -> bytes:
        """A chunk that is here. One that is damaged is forgotten: the next fetch gets it anew. Raises BlobError."""
        found = await trio.to_thread.run_sync(self._read, Read(name), abandon_on_cancel=True)
        if found.chunk is None:
            if self._blobs is not None and name in self._blobs.cache:
                self.feed(found)  # so that it is fetched when it is needed again
            raise BlobError("the chunk is not on this node")
        return found.chunk

    async def part(self, blob: Name, first: int) -> list[bytes]:
        """The chunks of a blob that is here, from a number on, as many as PART_CHUNKS_MAX, and before the first ones
        its manifest. They are not checked. Raises BlobError."""
        return await trio.to_thread.run_sync(self._part, blob, first, abandon_on_cancel=True)

    def _part(self, blob: Name, first: int) -> list[bytes]:
        """In a thread."""
        try:
            store = self._opened()
            if store is None:
                raise BlobError(NO_DIRECTORY)
            return store.part(blob, first)
        except OSError as error:
            raise BlobError(str(error)) from None

    async def copy(self, blob: Name, path: Path) -> None:
        """Write a blob that is here as a file. Raises BlobError."""
        store = await trio.to_thread.run_sync(self._opened, abandon_on_cancel=True)
        if store is None:
            raise BlobError(NO_DIRECTORY)
        try:
            await trio.to_thread.run_sync(store.copy, blob, path, abandon_on_cancel=True)
        except OSError as error:
            raise BlobError(str(error)) from None

    def release(self, blob: Name) -> None:
        """One user needs it no more; without users it may give way."""
        if self._leave(blob):
            self._waiting.pop(blob, None)
            self.feed(Release(blob))

    def prune(self) -> tuple[int, int]:
        """Delete the chunks that no blob in use needs; how many there were, and their bytes."""
        if self._blobs is None:
            return 0, 0
        cache = self._blobs.cache
        found = cache.unpinned()
        for name, _ in found:
            cache.remove(name)
            self._plan(partial(self._evict, Evict(name)))
        return len(found), sum(size for _, size in found)

    def _leave(self, blob: Name) -> bool:
        """Whether it was the last user."""
        self._users[blob] -= 1
        if self._users[blob] > 0:
            return False
        del self._users[blob]
        return True

    def _wrong(self, action: Wrong) -> None:
        logger.warning("%s has sent a chunk that is not %s", self._address_of(action.peer), action.name.hex())
