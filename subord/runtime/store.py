"""The last neighbourhood on disk, so that a restarted daemon tries its old place first.

Intuition: a bookmark. It is convenience, not truth: a bookmark from another book (other settings, other
address) is ignored, one that cannot be written costs one warning.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import msgspec

from subord.core.events import Neighbourhood
from subord.core.messages import Terms
from subord.core.view import Position

logger = logging.getLogger("subord")

FORMAT = 1
FILE_NAME = "neighbourhood.json"
FILE_BYTES_MAX = 65536


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
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                bookmark = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Bookmark)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            logger.warning("%s is not usable and is ignored: %s", self._path, error)
            return None
        if (bookmark.format, bookmark.terms, bookmark.position) != (FORMAT, self._terms, self._position):
            return None
        return bookmark.neighbourhood

    def save(self, neighbourhood: Neighbourhood) -> None:
        """Replace the file in one step. Blocks for a disk write: call it from a worker thread."""
        if self._path is None or neighbourhood == self._last:
            return
        bookmark = _Bookmark(FORMAT, self._terms, self._position, neighbourhood)
        fresh = self._path.with_suffix(".new")
        try:
            with fresh.open("wb") as file:
                file.write(msgspec.json.encode(bookmark))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError as error:
            if not self._warned:
                logger.warning("cannot remember the neighbourhood: %s; going on without", error)
                self._warned = True
            return
        self._last = neighbourhood
