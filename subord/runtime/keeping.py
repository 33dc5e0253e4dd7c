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


class Keeping:
    """One per daemon that has a key. `taken` is told every new ring."""

    def __init__(self, file: str, directory: str) -> None:
        """`file` is the operator's; in `directory` ours outlives us, "" for nowhere. Raises KeyringError."""
        self._file = file
        self._path = os.path.join(directory, FILE_NAME) if directory else ""
        given = keyfile.read(file)
        self._since = rotation.fingerprint(given)
        kept = self._kept()
        self.ring: Keyring = rotation.at_start(given, *(kept or (None, "")))
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

    @property
    def since(self) -> str:
        """Fingerprint of the operator's ring."""
        return self._since

    def read_again(self) -> Keyring:
        """The operator's file (SIGHUP). It blocks. Raises KeyringError."""
        return keyfile.read(self._file)

    def obey(self, given: Keyring) -> None:
        """The operator's file may have been changed by hand: then it is the newest. Raises KeyringError."""
        if rotation.fingerprint(given) == self._since:
            return
        ring = rotation.at_start(given, self.ring, self._since)
        self._since = rotation.fingerprint(given)
        self.take(ring)

    def offer(self, text: str) -> None:
        """A neighbour's ring; ours may be newer. Raises KeyringError."""
        found = rotation.newer(self.ring, parse(text))
        if found is not None:
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
            await trio.to_thread.run_sync(self._save, Kept(self.ring, self._since), abandon_on_cancel=True)

    def _save(self, kept: Kept) -> None:
        try:
            with WRITING:
                keyfile.write_kept(self._path, kept)
        except OSError as error:
            logger.error("%s: %s; new keys are lost when this daemon ends", self._path, error.strerror)
            return
        self.is_saved = kept.ring == self.ring
