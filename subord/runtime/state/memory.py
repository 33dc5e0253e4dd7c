"""The copy of the register, the documents and the journal on disk (core/members/membership.py).

In: changes. Out: a file, replaced atomically SAVE_S after a change, and at once when an operator waits for it; the
journal has a file of its own (journal_file.py). A file of another network, or an unusable one, is ignored: the
neighbours send what they have.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

import msgspec
import trio

from subord.core.carriage.documents import Documents
from subord.core.decoding import UNREADABLE
from subord.core.identity.pins import Pins
from subord.core.members.membership import Membership, Signer
from subord.core.members.register import Register
from subord.core.messages import Terms
from subord.core.settings import Settings
from subord.core.view import Position
from subord.runtime.state.journal_file import JournalFile
from subord.runtime.state.whole import write_whole

logger = logging.getLogger("subord")

WRITING = threading.Lock()  # an abandoned write may still be running
FILE_NAME = "members.bin"
FORMAT = 1
SAVE_S = 2.0
RETRY_S = 60.0  # after a write that failed
FILE_BYTES_MAX = 64 << 20


NO_DOCUMENTS = msgspec.msgpack.encode(())


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """Fields are only appended: 0.2 has those up to `unsigned`."""

    format: int
    terms: Terms
    register: bytes
    unsigned: bytes  # documents that no operator has signed, of 0.2
    cluster_name: str = ""  # for which the documents were signed
    documents: bytes = NO_DOCUMENTS
    signers: dict[str, Signer] = {}
    pins: bytes = b""


class Memory:
    """One file in `directory`; "": nothing is saved."""

    def __init__(self, directory: str, settings: Settings, position: Position = 0) -> None:
        """`position`: of this node."""
        self._path = Path(directory) / FILE_NAME if directory else None
        self._settings = settings
        self._due = trio.Event()
        self._is_saved = True
        self._warned = False
        self._states = 0  # that were to be written
        self._written = 0  # the newest that was; guarded by WRITING
        self._events = JournalFile(directory, Terms.of(settings).network, settings.network.size)
        self.membership = self._load(position)
        self._changes = self.membership.changes

    def _load(self, position: Position) -> Membership:
        register, documents = Register(self._settings.network.size), Documents()
        pins = Pins(self._settings.network.size)
        signers: dict[str, Signer] = {}
        saved = None if self._path is None else self._read(self._path)
        if saved is not None and saved.format == FORMAT and saved.terms.network == Terms.of(self._settings).network:
            now_ms = int(time.time() * 1000)
            try:
                register.merge(register.decode(saved.register, now_ms))
                if saved.pins:
                    pins.merge(pins.decode(saved.pins, now_ms))
                if saved.cluster_name == self._settings.cluster_name:
                    documents.merge(documents.decode(saved.documents, now_ms))
                    signers = {name: each for name, each in saved.signers.items() if name in documents.by_name}
            except UNREADABLE as error:
                logger.warning("%s is not usable and is ignored: %s", self._path, error)
        expected, journal = self._settings.expected, self._events.journal
        return Membership(register, documents, expected, signers, pins, journal, position)

    def _read(self, path: Path) -> _Saved | None:
        try:
            with path.open("rb") as file:
                return msgspec.msgpack.decode(file.read(FILE_BYTES_MAX), type=_Saved)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            logger.warning("%s is not usable and is ignored: %s", path, reason)
            return None

    def _pins(self) -> bytes:
        pins = self.membership.pins
        return b"" if pins is None else pins.encode(pins.saved())

    def change(self) -> None:
        """There is something to save."""
        if self._changes != self.membership.changes:
            self._changes, self._is_saved = self.membership.changes, False
        self._due.set()

    async def save_forever(self) -> None:
        """Save SAVE_S after a change, because one often follows another."""
        while True:
            await self._due.wait()
            await trio.sleep(SAVE_S)
            self._due = trio.Event()
            if not await self.save() and self._path is not None:
                await trio.sleep(RETRY_S)
                self._due.set()

    async def save(self) -> bool:
        """Save now, in a thread; whether the disk has the present state. Cancellable while it does not answer."""
        await self._events.save()
        if self._path is None or self._is_saved:
            return self._path is not None
        register, documents = self.membership.register, self.membership.documents
        saved = msgspec.msgpack.encode(
            _Saved(
                FORMAT,
                Terms.of(self._settings),
                register.encode(register.items()),
                NO_DOCUMENTS,
                self._settings.cluster_name,
                documents.encode(documents.items()),
                self.membership.signers,
                self._pins(),
            )
        )
        self._states += 1
        self._is_saved, is_written = True, False  # it may change during the write
        try:
            write, path, number = self._write, self._path, self._states
            is_written = await trio.to_thread.run_sync(write, path, saved, number, abandon_on_cancel=True)
        finally:
            self._is_saved = self._is_saved and is_written
        return is_written

    def _write(self, path: Path, content: bytes, number: int) -> bool:
        """Blocks. `number`: of the state; threads may come here in another order."""
        try:
            with WRITING:
                if number < self._written:
                    return True
                write_whole(path, content)
                _sync_directory(path.parent)
                self._written = number
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("cannot save the members: %s: %s; continuing without", path, error.strerror)
            return False
        return True


def _sync_directory(path: Path) -> None:
    """After a power cut the directory may else name the old file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
