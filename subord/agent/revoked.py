"""The list of revoked operators as the agent holds it.

Input is the list that the daemon sends with an order, a signed document; output is whether an operator is on it. The
agent verifies the signature itself, and keeps the newest list on its disk. Invariant: a list is never replaced by an
older one, so a daemon can withhold a new list, and cannot bring an old one back.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
import trio

from subord.core.carriage.documents import REVOKED, Document, Documents
from subord.core.carriage.orders import Cluster
from subord.core.identity.revocations import Revocations
from subord.runtime.counters import Counters
from subord.runtime.security.gate import Gate
from subord.runtime.security.operators import Operators

logger = logging.getLogger("subord")

FILE: Final = "revoked"
FILE_BYTES_MAX: Final = 1 << 16
_decoder = msgspec.msgpack.Decoder(Document)
_encode = msgspec.msgpack.Encoder().encode


class RevokedList:
    """The list of one agent. `directory`: where it is kept."""

    def __init__(
        self, directory: str, operators: Operators, cluster: Cluster, wall: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.join(directory, FILE)
        self._operators = operators
        self._documents = Documents(self._read())
        self._revocations = Revocations(self._documents)
        self._gate = Gate(operators, cluster, self._revocations, Counters(), wall)
        operators.revoke(self._revocations.operators)

    def word_for(self, *names: str) -> str:
        """ "revoked" if an operator with one of these names or fingerprints is on the list."""
        return "revoked" if self._revocations.has_operator(*names) else ""

    async def take(self, document: Document | None) -> None:
        """Take a list that is newer than the one held, if an operator has signed it."""
        if document is None or document.name != REVOKED or not self._documents.matters(document):
            return
        verdict = await self._gate.judge(document)
        if verdict.word or not self._documents.merge([document]):
            return
        self._operators.revoke(self._revocations.operators)
        try:
            await trio.to_thread.run_sync(self._write, _encode(document))
        except OSError as error:
            logger.error("the list of revoked operators is not kept over a restart: %s", error)

    def _read(self) -> list[Document]:
        try:
            with open(self._path, "rb") as file:
                return [_decoder.decode(file.read(FILE_BYTES_MAX))]
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            logger.error(
                "%s cannot be read, so no operator counts as revoked until a list comes: %s", self._path, error
            )
            return []

    def _write(self, data: bytes) -> None:
        fresh = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, self._path)
