"""The content of a bundle, as the daemon of this node gets it from other nodes: the agent takes it by parts.

Inputs are the socket of the daemon, the name of the blob and its source; output are chunks. A part is the next
chunks, as many as PART_CHUNKS_MAX; before the first ones it has the list of all. Invariant: the daemon is not
trusted. Each chunk is checked against its name, and the first name is in what the operator has signed.

All functions block.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from typing import Final

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import ManifestError, Name, decode, name_of
from subord.runtime.blobs.parts import PART_CHUNKS_MAX, split
from subord.services.control import Answer, ControlError, UnansweredError, post
from subord.services.files.outcome import CACHE_FULL, NO_CONTENT, FilesError
from subord.services.files.staging import Pause

ASK_S_MAX: Final = 15.0
KEEP_S: Final = 60.0
"""For how long the daemon keeps the blob after each question."""
ATTEMPTS_MAX: Final = 6
ATTEMPT_S: Final = 1.0
"""Between two attempts: a daemon that is busy or restarts answers later."""
ANSWER_BYTES_MAX: Final = (PART_CHUNKS_MAX + 2) * CHUNK_BYTES_MAX


class Content:
    """One blob, for one user of it."""

    def __init__(self, socket: str, blob: Name, source: int, holder: str) -> None:
        self._socket = socket
        self._blob = blob
        self._query = f"blob={blob.hex()}&source={source}&holder={holder}&keep={KEEP_S:g}"
        self._begin: list[bytes] = []
        """The first part."""

    def fetch(self, pause: Pause, asks_max: float = inf) -> bool:
        """Wait until the daemon has all of it; False: not after so many questions. Raises FilesError, and what
        `pause` raises."""
        asks = 0
        while asks < asks_max:
            pause()
            self._begin = self._part(0, pause)
            if self._begin:
                return True
            asks += 1
        return False

    def chunks(self, pause: Pause) -> Iterator[bytes]:
        """In order, after `fetch`. Raises FilesError."""
        [manifest, *part], self._begin = self._begin, []
        try:
            names = decode(self._checked(self._blob, manifest, pause)).chunks
        except ManifestError as error:
            raise FilesError(NO_CONTENT, str(error)) from None
        at = 0
        while at < len(names):
            part = part or self._part(at, pause)
            if not part:
                raise FilesError(NO_CONTENT, "the daemon has it no more")
            for name, chunk in zip(names[at:], part, strict=False):
                pause()
                yield self._checked(name, chunk, pause)
            at, part = at + len(part), []

    def release(self) -> None:
        """It is needed no more. A daemon that does not answer releases it by itself."""
        with suppress(ControlError):
            self._post("release")

    def _part(self, first: int, pause: Pause) -> list[bytes]:
        """The chunks from a number on, after the list if it is 0; empty: it is not here yet. Raises FilesError."""
        answer = _answered(lambda: self._post("take", f"&first={first}"), pause)
        if not answer.is_json:
            try:
                return split(answer.body)
            except ValueError:
                raise FilesError(NO_CONTENT, "the answer of the daemon is malformed") from None
        reason = _reason(answer)
        if reason:
            raise FilesError(CACHE_FULL if _is_full(reason) else NO_CONTENT, reason)
        return []

    def _checked(self, name: Name, data: bytes, pause: Pause) -> bytes:
        """The chunk. One that is damaged on the disk of the daemon is asked for once more, and forgotten there: the
        next push gets it from another node. Raises FilesError."""
        if name_of(data) == name:
            return data
        data = bytes(_answered(lambda: _asked(self._socket, f"/v1/blobs/read?name={name.hex()}"), pause).body)
        if name_of(data) != name:
            raise FilesError(NO_CONTENT, "the daemon gives other bytes than the name says")
        return data

    def _post(self, word: str, more: str = "") -> Answer:
        """Raises ControlError."""
        return _asked(self._socket, f"/v1/blobs/{word}?{self._query}{more}")


def _asked(socket: str, target: str) -> Answer:
    """Raises ControlError."""
    return post(socket, target, ASK_S_MAX, ANSWER_BYTES_MAX)


def _answered(ask: Callable[[], Answer], pause: Pause) -> Answer:
    """The answer of one of several attempts. Raises FilesError, and what `pause` raises."""
    for left in reversed(range(ATTEMPTS_MAX)):
        try:
            return ask()
        except ControlError as error:
            if not left or not isinstance(error, UnansweredError):
                raise FilesError(NO_CONTENT, str(error)) from None
        pause()
        time.sleep(ATTEMPT_S)
    raise AssertionError("there is an attempt")


def _is_full(reason: str) -> bool:
    """Whether the cache of the daemon, or its disk, has no room."""
    from subord.core.carriage.blobs.blobs import NO_ROOM  # they import the engine
    from subord.runtime.blobs.store import reason_of

    return reason in (
        NO_ROOM,
        *(reason_of(OSError(each, os.strerror(each))) for each in (errno.ENOSPC, errno.EDQUOT)),
    )


def _reason(answer: Answer) -> str:
    """Raises FilesError."""
    try:
        return str(answer.document().get("reason", ""))
    except ControlError as error:
        raise FilesError(NO_CONTENT, str(error)) from None
