"""The key ring of a running node: where it comes from, who is told of a new one, and that it outlives us.

Intuition: the caretaker's key cabinet. When a new bunch comes, everybody in the house who uses keys gets it at once,
and it is written down, so that tomorrow's caretaker does not open with yesterday's keys.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

import trio

from subord.sealing import keyfile, rotation
from subord.sealing.keyfile import Kept
from subord.sealing.keys import Keyring, KeyringError, parse

logger = logging.getLogger("subord")

WRITING = threading.Lock()  # a write that was given up may still be under way
FILE_NAME = "keyring"


class RunningKeyRing:
    """One per daemon that has a key. `taken` is told every new ring."""

    def __init__(self, file: str, directory: str) -> None:
        """`file` is the operator's; in `directory` ours outlives us, "" for nowhere. Raises KeyringError."""
        self._file = file
        self._path = os.path.join(directory, FILE_NAME) if directory else ""
        given = keyfile.read(file)
        self._since = rotation.fingerprint(given)
        kept = self._kept()
        self.ring: Keyring = rotation.at_start(given, *(kept or (None, "")))
        self._say_if_old(given)
        self.is_saved = self.ring == (given if kept is None else kept.ring)
        self.taken: list[Callable[[Keyring], None]] = []
        self._changed = trio.Event()
        if not self.is_saved:
            self._changed.set()

    def _kept(self) -> Kept | None:
        """Without it we begin with the operator's, and are told the newest by whoever has it."""
        try:
            return keyfile.read_kept(self._path) if self._path else None
        except KeyringError as error:
            logger.error("the keys that came by rotation cannot be used, going on with %s: %s", self._file, error)
            return None

    def _say_if_old(self, given: Keyring) -> None:
        if 0 < given.revision < self.ring.revision:
            words = "%s has revision %d and is not used, because we have %d: delete that line if the file shall win"
            logger.warning(words, self._file, given.revision, self.ring.revision)

    @property
    def since(self) -> str:
        """Fingerprint of the operator's ring."""
        return self._since

    def read_again(self) -> Keyring:
        """The operator's file (SIGHUP). It blocks. Raises KeyringError."""
        return keyfile.read(self._file)

    def obey(self, given: Keyring) -> bool:
        """The operator's file may have been changed by hand: then it is the newest. Was it?"""
        if rotation.fingerprint(given) == self._since:
            return False
        ring = rotation.at_start(given, self.ring, self._since)
        self._since = rotation.fingerprint(given)
        self._say_if_old(given)
        if ring != self.ring or not self.is_saved:
            self.take(ring)
        return True

    def offer(self, text: str) -> None:
        """A neighbour's ring; ours may be newer. Raises KeyringError."""
        theirs = parse(text)
        found = rotation.newer(self.ring, theirs)
        if found is not None:
            if found is not theirs:
                logger.warning("two key rings of revision %d became one: see `subord key list`", theirs.revision)
            self.take(found)

    def take(self, ring: Keyring) -> None:
        """From now on this one."""
        self.ring = ring
        self.is_saved = False
        logger.info("key ring of revision %d: %s", ring.revision, rotation.fingerprint(ring))
        for tell in self.taken:
            tell(ring)
        self._changed.set()

    async def save_forever(self) -> None:
        """Write down what is new, outside the event loop."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self.save()

    async def save(self) -> None:
        """What is not written down yet. A disk that does not answer keeps nobody from leaving."""
        if self._path and not self.is_saved and self.ring.revision:
            kept = Kept(self.ring, self._since)
            if await trio.to_thread.run_sync(self._save, kept, abandon_on_cancel=True):
                self.is_saved = kept.ring == self.ring  # perhaps it was replaced meanwhile

    def _save(self, kept: Kept) -> bool:
        try:
            with WRITING:
                keyfile.write_kept(self._path, kept)
        except OSError as error:
            logger.error("%s: %s; new keys are lost when this daemon ends", self._path, error.strerror)
            return False
        return True
