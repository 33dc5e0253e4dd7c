"""The content of a bundle, as the daemon of this node gets it from other nodes: the agent asks for it by chunks.

Inputs are the socket of the daemon, the name of the blob and its source; output are chunks. Invariant: the daemon is
not trusted. Each chunk is checked against its name, and the first name is in what the operator has signed.

All functions block.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import Final

from subord.client.daemon import change, raw_change
from subord.client.errors import CommandError
from subord.core.carriage.blobs.blobs import NO_ROOM
from subord.core.carriage.blobs.manifests import ManifestError, Name, decode, name_of
from subord.runtime.blobs.store import reason_of
from subord.services.files.outcome import CACHE_FULL, NO_CONTENT, FilesError
from subord.services.files.staging import Pause

ASK_S_MAX: Final = 15.0
KEEP_S: Final = 60.0
"""For how long the daemon keeps the blob after each question."""
_FULL: Final = (NO_ROOM, *(reason_of(OSError(each, os.strerror(each))) for each in (errno.ENOSPC, errno.EDQUOT)))
"""What the daemon says of a cache without room."""


class Content:
    """One blob, for one user of it."""

    def __init__(self, socket: str, blob: Name, source: int, holder: str) -> None:
        self._socket = socket
        self._blob = blob
        self._query = f"blob={blob.hex()}&source={source}&holder={holder}&keep={KEEP_S:g}"

    def fetch(self, pause: Pause, asks_max: float = inf) -> bool:
        """Wait until the daemon has all of it; False: not after so many questions. Raises FilesError, and what
        `pause` raises."""
        asks = 0
        while asks < asks_max:
            pause()
            found = self._asked(f"/v1/blobs/fetch?{self._query}")
            if found["reason"]:
                reason = str(found["reason"])
                raise FilesError(CACHE_FULL if reason in _FULL else NO_CONTENT, reason)
            if found["here"]:
                return True
            asks += 1
        return False

    def chunks(self, pause: Pause) -> Iterator[bytes]:
        """In order. Raises FilesError."""
        try:
            names = decode(self._chunk(self._blob)).chunks
        except ManifestError as error:
            raise FilesError(NO_CONTENT, str(error)) from None
        for number, name in enumerate(names):
            pause()
            if number % 64 == 63:
                self._asked(f"/v1/blobs/fetch?{self._query}")  # it is kept for longer
            yield self._chunk(name)

    def release(self) -> None:
        """It is needed no more. A daemon that does not answer releases it by itself."""
        with suppress(CommandError):
            change(self._socket, f"/v1/blobs/release?{self._query}", ASK_S_MAX)

    def _chunk(self, name: Name) -> bytes:
        try:
            data = raw_change(self._socket, f"/v1/blobs/read?name={name.hex()}", ASK_S_MAX)
        except CommandError as error:
            raise FilesError(NO_CONTENT, str(error)) from None
        if name_of(data) != name:
            raise FilesError(NO_CONTENT, "the daemon gives other bytes than the name says")
        return data

    def _asked(self, target: str) -> dict[str, object]:
        try:
            return change(self._socket, target, ASK_S_MAX)
        except CommandError as error:
            raise FilesError(NO_CONTENT, str(error)) from None
