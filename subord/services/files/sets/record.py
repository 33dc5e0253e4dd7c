"""What an agent knows of each set, on its disk: which document counts, what is in place, and how far a change is.

Input and output is a record for each set, in `files/sets` below the directory of the agent, and the manifest of what
is in place. Invariants: a record is on the disk before what it says is done; the document that counts is never
replaced by an older one.

All functions block.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from subord.core.carriage.documents import Document
from subord.core.carriage.published import Published, mark_of, read
from subord.core.decoding import UNREADABLE
from subord.services.files import manifest, records
from subord.services.files.manifest import Manifest, ManifestError
from subord.services.files.records import ANY_PLACE

logger = logging.getLogger("subord")

FOLDER: Final = "sets"
STAGING: Final = "staging"
ACTIVATING: Final = "activating"
AFTER: Final = "after"
DUE: Final = "due"
RESTING: Final = ""
"""How far a change is. STAGING: nothing is visible. ACTIVATING: the exchange may be done. DUE: it is done, and the
command after it has not begun. AFTER: that may have begun."""
RECORD_BYTES_MAX: Final = 1 << 20
FAILURES_MAX: Final = 64
FAILURES: Final = "failures"
"""A file beside the records; those have another suffix."""
_RECORD, _MANIFEST, _NEXT, _TABLE = ".set", ".manifest", ".next", ".table"


class Placed(msgspec.Struct, frozen=True, array_like=True):
    """A version in its directory; 0: files of no set. `mark`: of the order. `after`: a word of words.py, if the
    command after it did not end well, with detail."""

    version: int
    mark: bytes
    blob: bytes
    to: bytes
    after: str = ""
    detail: str = ""


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """Why a document has no effect. `mark`: of the order."""

    mark: bytes
    version: int
    cause: str
    detail: str


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A set at a node. `document`: the newest that was accepted, by `principal` with the key `fingerprint`. `tag`:
    makes the names under which it is staged, and the previous version is kept. `inode`: device and number of the
    directory that is staged. `is_released`: the node is not to look after it any more. `place`: device and number of
    the directory above, while something is staged; ANY_PLACE: of a release that did not note it."""

    document: Document
    principal: str
    fingerprint: str
    tag: bytes
    phase: str = RESTING
    inode: tuple[int, int] = (0, 0)
    placed: Placed | None = None
    previous: Placed | None = None
    is_released: bool = False
    place: tuple[int, int] = ANY_PLACE

    @property
    def said(self) -> Published:
        found = read(self.document.order)
        assert found is not None, "a document that was accepted can be read"
        return found

    @property
    def mark(self) -> bytes:
        return mark_of(self.document.order)

    @property
    def is_in_place(self) -> bool:
        """Whether the document that counts has been carried out."""
        return self.placed is not None and self.placed.mark == self.mark

    @property
    def holds(self) -> tuple[bytes, ...]:
        """The blobs of what is in place, and of what was before."""
        if self.is_released:
            return ()
        found = [each.blob for each in (self.placed, self.previous) if each is not None and each.blob]
        return tuple(dict.fromkeys(found))


_decoder = msgspec.msgpack.Decoder(Record)
_failures = msgspec.msgpack.Decoder(dict[str, Failure])
_encode = msgspec.msgpack.Encoder().encode


class Sets:
    """The sets of one agent. Raises OSError."""

    def __init__(self, directory: str) -> None:
        """`directory`: of the agent."""
        self._directory = os.path.join(directory, records.FOLDER, FOLDER)

    def all(self) -> Iterator[tuple[str, Record]]:
        """Each set with its name. One that cannot be read is logged and left."""
        try:
            names = sorted(os.listdir(self._directory))
        except FileNotFoundError:
            return
        for each in names:
            name, suffix = os.path.splitext(each)
            found = self._readable(name) if suffix == _RECORD else None
            if found is not None:
                yield name, found

    def _readable(self, name: str) -> Record | None:
        """As `get`. An error of the disk is logged, too: it takes this set away, and no other one."""
        try:
            return self.get(name)
        except OSError as error:
            logger.error("the record of the set %s cannot be read: %s", name, error)
            return None

    def get(self, name: str) -> Record | None:
        """None: there is none, or it cannot be read, which is logged."""
        path = self._path(name, _RECORD)
        try:
            with open(path, "rb") as file:
                found = _decoder.decode(file.read(RECORD_BYTES_MAX))
            if read(found.document.order) is None:
                raise ValueError("it has no document")
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            logger.error("%s cannot be read, and does not count: %s", path, error)
            return None
        return found

    def put(self, name: str, record: Record) -> None:
        """Whole or not at all."""
        self._write(self._path(name, _RECORD), _encode(record))

    def age_s(self, name: str) -> float | None:
        """Since the record was written; None: it is not there, or cannot be looked at."""
        try:
            return time.time() - os.stat(self._path(name, _RECORD)).st_mtime
        except OSError:
            return None

    # -- manifests ----------------------------------------------------------------------------------------------

    def put_next(self, name: str, found: Manifest) -> None:
        """The manifest of what is staged."""
        self._write(self._path(name, _NEXT), _encode(found))

    def take_next(self, name: str) -> None:
        """What was staged is in place."""
        with suppress(FileNotFoundError):
            os.replace(self._path(name, _NEXT), self._path(name, _MANIFEST))

    def manifest(self, name: str) -> Manifest | None:
        """Of what is in place; None: there is none, or it cannot be read."""
        try:
            with open(self._path(name, _MANIFEST), "rb") as file:
                return manifest.decode(file.read(manifest.MANIFEST_BYTES_MAX))
        except (FileNotFoundError, ManifestError):
            return None

    def forget_manifest(self, name: str) -> None:
        """The node does not look after the set any more. The record stays, so an older document does not count."""
        for suffix in (_MANIFEST, _NEXT):
            with suppress(FileNotFoundError):
                os.unlink(self._path(name, suffix))

    # -- failures -----------------------------------------------------------------------------------------------

    def failure(self, name: str) -> Failure | None:
        """Of the last attempt for a set."""
        return self._all_failures().get(name)

    def fail(self, name: str, failure: Failure | None) -> None:
        """Note why a document has no effect; None: it has. The oldest give way."""
        found = self._all_failures()
        if found.get(name) != failure:
            found.pop(name, None)
            if failure is not None:
                found[name] = failure
            self._write(self._path(FAILURES, _TABLE), _encode(dict(list(found.items())[-FAILURES_MAX:])))

    def _all_failures(self) -> dict[str, Failure]:
        try:
            with open(self._path(FAILURES, _TABLE), "rb") as file:
                return _failures.decode(file.read(RECORD_BYTES_MAX))
        except (FileNotFoundError, *UNREADABLE):
            return {}

    def _path(self, name: str, suffix: str) -> str:
        return os.path.join(self._directory, name + suffix)

    def _write(self, path: str, data: bytes) -> None:
        os.makedirs(self._directory, 0o700, exist_ok=True)
        records.write_whole(path, data)
