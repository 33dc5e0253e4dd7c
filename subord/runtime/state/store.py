"""Saves the last neighbourhood, so that a restarted daemon tries its old place first.

In: the neighbourhood after each change. Out: the saved one, if it belongs to the same settings and address. The file
is replaced atomically. It is only a hint: an unusable file is ignored, a failed write is logged once.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import msgspec
import trio

from subord.core.decoding import UNREADABLE
from subord.core.events import Neighbourhood
from subord.core.messages import Terms
from subord.core.quantize import CLASS_MAX
from subord.core.view import Incarnation, Position
from subord.runtime.state.whole import write_whole

logger = logging.getLogger("subord")

WRITING = threading.Lock()  # of this process: a write of the former incarnation may still be running
SAVE_S_MAX = 1.0  # bound on the delay of a start or an end by a disk that does not answer
FORMAT = 1
FILE_NAME = "neighbourhood.json"
FILE_BYTES_MAX = 65536
INCARNATION_MAX = 1 << 63  # no daemon writes a larger one


class _Saved(msgspec.Struct, frozen=True):
    format: int
    terms: Terms
    position: Position
    neighbourhood: Neighbourhood


class Store:
    """One small file in `directory`; "": nothing is saved."""

    def __init__(self, directory: str, terms: Terms, position: Position) -> None:
        self._path = Path(directory) / FILE_NAME if directory else None
        self._terms = terms
        self._position = position
        self._last: Neighbourhood | None = None
        self._warned = False

    def load(self) -> Neighbourhood | None:
        """The neighbourhood saved with the same settings and address; None: there is none."""
        saved = self._read(self._path) if self._path is not None else None
        if saved is None:
            return None
        fits = (saved.format, saved.terms, saved.position) == (FORMAT, self._terms, self._position)
        return saved.neighbourhood if fits else None

    def _read(self, path: Path) -> _Saved | None:
        try:
            with path.open("rb") as file:
                saved = msgspec.json.decode(file.read(FILE_BYTES_MAX), type=_Saved)
        except FileNotFoundError:
            if not os.path.isdir(path.parent):
                self._warn(f"the directory {path.parent} does not exist; create it or correct node.state_directory")
            return None
        except (OSError, *UNREADABLE) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            logger.warning("%s is not usable and is ignored: %s", path, reason)
            return None
        if not 0 <= saved.neighbourhood.incarnation < INCARNATION_MAX:
            logger.warning("%s is not usable and is ignored: its incarnation is out of range", path)
            return None
        if not 0 <= saved.neighbourhood.standing <= CLASS_MAX:
            logger.warning("%s is not usable and is ignored: its standing is out of range", path)
            return None
        return saved

    async def save_incarnation(self, remembered: Neighbourhood, incarnation: Incarnation) -> None:
        """Save an incarnation ahead of the clock, so that the next start exceeds it. Waits up to SAVE_S_MAX."""
        with trio.move_on_after(SAVE_S_MAX):
            neighbourhood = msgspec.structs.replace(remembered, incarnation=incarnation)
            await trio.to_thread.run_sync(self.save, neighbourhood, abandon_on_cancel=True)

    def save(self, neighbourhood: Neighbourhood) -> None:
        """Replace the file atomically. Blocks: call it in a thread."""
        if self._path is None:
            return
        with WRITING:
            if neighbourhood != self._last:
                self._replace(self._path, neighbourhood)

    def _replace(self, path: Path, neighbourhood: Neighbourhood) -> None:
        saved = _Saved(FORMAT, self._terms, self._position, neighbourhood)
        try:
            write_whole(path, msgspec.json.encode(saved))
        except OSError as error:
            self._warn(f"{path}: {error.strerror}")
            return
        self._last = neighbourhood

    def _warn(self, reason: str) -> None:
        if not self._warned:
            logger.warning("cannot save the neighbourhood: %s; continuing without", reason)
            self._warned = True
