"""The key ring of a running node: its sources, its subscribers, and its copy on disk.

In: the operator's file, the saved ring, signed rings among the documents. The newest ring wins (sealing/rotation.py).
A new ring goes to all subscribers at once and is saved, so that a restart does not return to older keys.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

import trio

from subord.core.carriage.documents import RING, Document
from subord.sealing import keyfile, rotation
from subord.sealing.keyfile import Kept
from subord.sealing.keys import Keyring, KeyringError, parse

logger = logging.getLogger("subord")

WRITING = threading.Lock()  # an abandoned write may still be running
FILE_NAME = "keyring"


class RunningKeyRing:
    """The current ring of a daemon with a key. The callbacks in `taken` receive every new ring."""

    def __init__(self, file: str, directory: str) -> None:
        """`file`: the operator's ring. `directory`: for the saved ring, "" for none. Raises KeyringError."""
        self._file = file
        self._path = os.path.join(directory, FILE_NAME) if directory else ""
        given = keyfile.read(file)
        self._since = rotation.fingerprint(given)
        kept = self._kept()
        self.ring: Keyring = rotation.at_start(given, *(kept or (None, "")))
        self._warn_if_old(given)
        self.is_saved = self.ring == (given if kept is None else kept.ring)
        self.taken: list[Callable[[Keyring], None]] = []
        self._changed = trio.Event()
        if not self.is_saved:
            self._changed.set()

    def _kept(self) -> Kept | None:
        """The saved ring. Without it the node starts with the operator's and gets the newest from its neighbours."""
        try:
            return keyfile.read_kept(self._path) if self._path else None
        except KeyringError as error:
            logger.error("the saved key ring cannot be used, continuing with %s: %s", self._file, error)
            return None

    def _warn_if_old(self, given: Keyring) -> None:
        if 0 < given.revision < self.ring.revision:
            words = "%s has revision %d and is not used, because the node has %d: delete its revision line to use it"
            logger.warning(words, self._file, given.revision, self.ring.revision)

    @property
    def since(self) -> str:
        """Fingerprint of the operator's ring."""
        return self._since

    def read_again(self) -> Keyring:
        """The ring of the operator's file. Blocks. Raises KeyringError."""
        return keyfile.read(self._file)

    def apply(self, given: Keyring) -> bool:
        """Apply the ring of the operator's file, if the file has changed; whether it has."""
        if rotation.fingerprint(given) == self._since:
            return False
        ring = rotation.at_start(given, self.ring, self._since)
        self._since = rotation.fingerprint(given)
        self._warn_if_old(given)
        if ring != self.ring or not self.is_saved:
            self.take(ring)
            self.is_saved = not ring.revision  # a restart begins with the file
        return True

    def follow(self, documents: Iterable[Document]) -> None:
        """Take the signed ring among documents that are new here."""
        for document in documents:
            ring = rotation.ring_of(document.order) if document.name == RING else None
            found = None if ring is None else rotation.followed(self.ring, ring)
            if found is not None:
                self.take(found)

    def catch_up(self, documents: Iterable[Document]) -> None:
        """Take the signed ring among documents from the disk: only a newer one, or it would undo the operator's file
        at each start."""
        self.follow(each for each in documents if each.version > self.ring.revision)

    def is_another(self, text: str) -> bool:
        """Whether the ring of a neighbour of an older release is not this one. Raises KeyringError."""
        theirs = parse(text)
        return (theirs.revision, rotation.fingerprint(theirs)) != (
            self.ring.revision,
            rotation.fingerprint(self.ring),
        )

    def take(self, ring: Keyring) -> None:
        """Make `ring` the current one and notify all subscribers."""
        self.ring = ring
        self.is_saved = False
        logger.info("key ring of revision %d: %s", ring.revision, rotation.fingerprint(ring))
        for tell in self.taken:
            tell(ring)
        self._changed.set()

    async def save_forever(self) -> None:
        """Save each new ring in a thread."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self.save()

    async def save(self) -> None:
        """Save the ring if it is not saved. Cancellable while the disk does not answer."""
        if self._path and not self.is_saved and self.ring.revision:
            kept = Kept(self.ring, self._since)
            if await trio.to_thread.run_sync(self._save, kept, abandon_on_cancel=True):
                self.is_saved = kept.ring == self.ring  # it may have been replaced during the write

    def _save(self, kept: Kept) -> bool:
        try:
            with WRITING:
                keyfile.write_kept(self._path, kept)
        except OSError as error:
            logger.error("%s: %s; new keys are lost when this daemon ends", self._path, error.strerror)
            return False
        return True
