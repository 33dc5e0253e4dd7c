"""Fetches an archive from the other cluster, chunk by chunk, and goes on where an earlier process has ended.

Inputs are a link and the key of a job; outputs are an archive in the spool, or why there is none. Invariants: each
chunk is checked against the list before it is kept; a link that is cut is waited for, as long as the archive is
wanted; at most one question is under way for each archive.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import trio

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import Manifest, name_of
from subord.services.transfer.data.listing import LOST, OTHER, WRONG, FilesError
from subord.services.transfer.data.spool import FETCHED, Spool, disk_fault, manifest_in
from subord.services.transfer.data.talk import CHUNKS_MAX, Kind, Part, Took, Want, Word, decode_part, encode
from subord.services.transfer.exchange import ExchangeError
from subord.services.transfer.jobs import Key
from subord.services.transfer.linking.asking import LinkError

PAUSE_S: Final = 2.0
FIRST: Final = 4
"""Chunks of the first question; a slow link is asked for fewer, a fast one for more."""
FAST_S, SLOW_S = 2.0, 8.0
WAIT_S_MAX: Final = 1800.0
"""For the other side to pack."""
AsksLink = Callable[[bytes], Awaitable[bytes]]
"""Raises LinkError."""
Counts = Callable[[int], None]


class Got(NamedTuple):
    """`is_nothing`: there is nothing to be unpacked. `remark`: of the other side."""

    is_nothing: bool
    remark: str
    directory: str


class Fetching:
    """`is_wanted`: of a job; an archive that is not wanted any more is not waited for. `count`: bytes that came."""

    def __init__(self, ask: AsksLink, spool: Spool, is_wanted: Callable[[Key], bool], count: Counts) -> None:
        self._ask = ask
        self._spool = spool
        self._is_wanted = is_wanted
        self._count = count

    async def fetch(self, key: Key, kind: Kind, bytes_max: int, name: bytes | None = None) -> Got:
        """`name`: of the blob, if it is known. Raises FilesError."""
        part = await self._announced(key, kind)
        if part.is_nothing:
            return Got(True, part.remark, part.directory)
        listed = manifest_in(part.content, bytes_max)
        if name is not None and name_of(part.content) != name:
            raise FilesError("the other cluster has other files than it has named", WRONG)
        try:
            await self._chunks(key, kind, listed, name_of(part.content))
            await trio.to_thread.run_sync(self._spool.keep_list, key, FETCHED, part.content)
        except OSError as error:
            raise disk_fault(error) from None
        return Got(False, part.remark, part.directory)

    async def tell(self, took: Took) -> None:
        """Once: what is not told is kept for a while."""
        try:
            await self._ask(encode(took))
        except LinkError:
            return

    async def _announced(self, key: Key, kind: Kind) -> Part:
        began = trio.current_time()
        while True:
            part = await self._asked(Want(key, kind))
            if part.word == Word.HERE:
                return part
            if part.word == Word.NONE:
                raise FilesError(part.remark or "the other cluster does not have them", LOST)
            if trio.current_time() > began + WAIT_S_MAX:
                raise FilesError(f"the other cluster has not packed them in {WAIT_S_MAX:g} s", LOST)
            await trio.sleep(PAUSE_S)

    async def _chunks(self, key: Key, kind: Kind, listed: Manifest, name: bytes) -> None:
        spool = self._spool
        at = await trio.to_thread.run_sync(spool.good, key, FETCHED, listed)
        count = FIRST
        while at < len(listed.chunks):
            began = trio.current_time()
            part = await self._asked(Want(key, kind, name, at, count))
            if part.word != Word.HERE or not part.content:
                raise FilesError(part.remark or "the other cluster does not have them any more", LOST)
            if len(part.content) > count * CHUNK_BYTES_MAX:
                raise FilesError("the other cluster has sent more than was asked for", WRONG)
            at += await trio.to_thread.run_sync(spool.add, key, FETCHED, listed, at, part.content)
            self._count(len(part.content))
            took_s = trio.current_time() - began
            count = min(CHUNKS_MAX, 2 * count) if took_s < FAST_S else count
            count = max(1, count // 2) if took_s > SLOW_S else count

    async def _asked(self, want: Want) -> Part:
        """Raises FilesError."""
        while True:
            if not self._is_wanted(want.key):
                raise FilesError("nobody wants it any more", OTHER)
            try:
                return decode_part(await self._ask(encode(want)))
            except LinkError:
                await trio.sleep(PAUSE_S)
            except ExchangeError as error:
                raise FilesError(str(error), WRONG) from None
