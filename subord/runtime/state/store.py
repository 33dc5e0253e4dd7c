"""The last neighbourhood on disk, so that a restarted daemon tries its old place first.

Intuition: a bookmark. It is convenience, not truth: a bookmark from another book (other settings, other
address) is ignored, one that cannot be written costs one warning.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from pathlib import Path

import msgspec
import trio

from subord.core.events import Neighbourhood
from subord.core.messages import Terms
from subord.core.placement.quantize import CLASS_MAX
from subord.core.state.view import Incarnation, Position
from subord.wire.codec import UNREADABLE

logger = logging.getLogger("subord")

WRITING = threading.Lock()  # of this process: two lives of one daemon must not write one file at once
SAVE_S_MAX = 1.0  # a disk that does not answer must not keep us from starting, or from leaving
FORMAT = 1
FILE_NAME = "neighbourhood.json"
FILE_BYTES_MAX = 65536
INCARNATION_MAX = 1 << 63  # a larger one was never ours, and would not fit a datagram for long


class _Bookmark(msgspec.Struct, frozen=True):
    format: int
    terms: Terms
    position: Position
    neighbourhood: Neighbourhood


class Store:
    """One small file in `directory`; "" remembers nothing."""

    def __init__(self, directory: str, terms: Terms, position: Position) -> None:
        self._path = Path(directory) / FILE_NAME if directory else None
        self._terms = terms
        self._position = position
        self._last: Neighbourhood | None = None
        self._warned = False

    def load(self) -> Neighbourhood | None:
        """What was saved under the same settings and address; None otherwise."""
        bookmark = self._read(self._path) if self._path is not None else None
        if bookmark is None:
            return None
        fits = (bookmark.format, bookmark.terms, bookmark.position) == (FORMAT, self._terms, self._position)
        return bookmark.neighbourhood if fits else None

    def _read(self, path: Path) -> _Bookmark | None:
        try:
            with path.open("rb") as file:
                bookmark = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Bookmark)
        except FileNotFoundError:
            if not os.path.isdir(path.parent):
                self._warn(f"the directory {path.parent} does not exist; create it or correct node.state_directory")
            return None
        except (OSError, *UNREADABLE) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            logger.warning("%s is not usable and is ignored: %s", path, reason)
            return None
        if not 0 <= bookmark.neighbourhood.incarnation < INCARNATION_MAX:
            logger.warning("%s is not usable and is ignored: no daemon has written its incarnation", path)
            return None
        if not 0 <= bookmark.neighbourhood.standing <= CLASS_MAX:
            logger.warning("%s is not usable and is ignored: no daemon has written its standing", path)
            return None
        return bookmark

    async def begin_life(self, remembered: Neighbourhood, incarnation: Incarnation) -> None:
        """Write down a number that the clock has not made: the next start must read it, however soon it comes.

        A disk that does not answer for SAVE_S_MAX is not waited for.
        """
        with trio.move_on_after(SAVE_S_MAX):
            life = msgspec.structs.replace(remembered, incarnation=incarnation)
            await trio.to_thread.run_sync(self.save, life, abandon_on_cancel=True)

    def save(self, neighbourhood: Neighbourhood) -> None:
        """Replace the file in one step. Blocks for a disk write: call it from a worker thread."""
        if self._path is None:
            return
        with WRITING:
            if neighbourhood != self._last:
                self._replace(self._path, neighbourhood)

    def _replace(self, path: Path, neighbourhood: Neighbourhood) -> None:
        bookmark = _Bookmark(FORMAT, self._terms, self._position, neighbourhood)
        fresh = path.with_suffix(".new")
        try:
            with open(fresh, "wb", opener=_for_the_owner) as file:
                file.write(msgspec.json.encode(bookmark))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError as error:
            self._warn(f"{path}: {error.strerror}")
            return
        self._last = neighbourhood

    def _warn(self, reason: str) -> None:
        if not self._warned:
            logger.warning("cannot remember the neighbourhood: %s; going on without", reason)
            self._warned = True


def _for_the_owner(path: str, flags: int) -> int:
    """Mode 0600, also where a wider file was left behind; what is no regular file keeps its mode."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor
