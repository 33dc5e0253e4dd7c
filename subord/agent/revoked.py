"""The list of revoked operators as the agent holds it.

Input is the list that the daemon sends with an order, a signed document; output is whether an operator is on it. The
agent verifies the signature itself, and keeps the newest list on its disk. Invariants: a list is never replaced by an
older one, so a daemon can withhold a new list, and cannot bring an old one back; while the list on the disk cannot be
read, no operator counts, until a list comes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import trio

from subord.core.carriage.documents import REVOKED, Document, Documents
from subord.core.carriage.orders import Cluster, Verdict
from subord.core.identity.revocations import Revocations, entries_of
from subord.runtime.counters import Counters
from subord.runtime.security.gate import Gate
from subord.runtime.security.operators import Operators

logger = logging.getLogger("subord")

FILE: Final = "revoked"
FILE_BYTES_MAX: Final = 1 << 16
_decoder = msgspec.msgpack.Decoder(Document)
_encode = msgspec.msgpack.Encoder().encode


class _DamagedError(Exception):
    """The file holds no list."""


class RevokedList:
    """The list of one agent. `directory`: where it is kept."""

    def __init__(
        self, directory: str, operators: Operators, cluster: Cluster, wall: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.join(directory, FILE)
        self._operators = operators
        self.is_damaged = False
        self._documents = Documents(self._first())
        self._revocations = Revocations(self._documents)
        self._gate = Gate(operators, cluster, self._revocations, Counters(), wall)
        operators.revoke(self._revocations.operators)

    def word_for(self, *names: str) -> str:
        """ "revoked" if an operator with one of these names or fingerprints is on the list."""
        return "revoked" if self._revocations.has_operator(*names) else ""

    async def judge(self, document: Document) -> Verdict:
        """Whether an operator of this node that is not on the list has signed a document."""
        return await self._gate.judge(document)

    async def take(self, document: Document | None) -> None:
        """Take a list that is newer than the one held, if an operator has signed it. A damaged file that root has
        deleted is forgotten."""
        if self.is_damaged:
            self.is_damaged = await trio.to_thread.run_sync(os.path.lexists, self._path)
        if document is None or document.name != REVOKED or not self._documents.matters(document):
            return
        verdict = await self._gate.judge(document)
        if verdict.word or not self._documents.merge([document]):
            return
        self._operators.revoke(self._revocations.operators)
        self.is_damaged = False
        try:
            await trio.to_thread.run_sync(self._keep, document)
        except OSError as error:
            logger.error("the list of revoked operators is not kept over a restart: %s", error)

    def _first(self) -> list[Document]:
        """The list of the disk at the start."""
        try:
            found = self._read()
        except (OSError, _DamagedError) as error:
            self.is_damaged = True
            words = (
                "%s cannot be read, so no order counts until the daemon passes a list on, or the file is deleted: %s"
            )
            logger.error(words, self._path, error)
            return []
        return [] if found is None else [found]

    def _read(self) -> Document | None:
        """None: there is no file. Raises OSError, _DamagedError."""
        try:
            with open(self._path, "rb") as file:
                found = _decoder.decode(file.read(FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, ValueError) as error:
            raise _DamagedError(str(error)) from None
        if found.name != REVOKED or entries_of(found.order) is None:
            raise _DamagedError("it holds no list")
        return found

    def _keep(self, document: Document) -> None:
        """Write a list, unless another thread or process has written a newer one. Raises OSError."""
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            held = None
            with suppress(_DamagedError):
                held = self._read()
            if held is None or held.version <= document.version:
                self._write(_encode(document))
        finally:
            os.close(descriptor)

    def _write(self, data: bytes) -> None:
        fresh = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        except OSError:
            os.unlink(fresh)
            raise
        os.replace(fresh, self._path)
        directory = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)  # after a power failure the older list would count again
        finally:
            os.close(directory)
