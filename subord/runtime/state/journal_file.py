"""The journal of the cluster on disk (core/members/journal.py).

In: the journal as it grows. Out: a file to which new events are appended, some seconds of them at once, in a thread;
it is written anew when it has twice the journal's bytes. A file of another network, or one that cannot be read, is
ignored and replaced: the neighbours send what they have. Bounded: FILE_BYTES_MAX.
"""

from __future__ import annotations

import logging
import struct
import threading
from pathlib import Path
from typing import Final

import msgspec
import trio

from subord.core.carriage.exchange import digest_of
from subord.core.members.journal import BYTES_MAX, EVENTS_MAX, ITEM_BYTES_MAX, Item, Journal
from subord.runtime.state.whole import for_the_owner, write_whole

logger = logging.getLogger("subord")

FILE_NAME: Final = "events.bin"
FILE_BYTES_MAX: Final = 2 * (BYTES_MAX + 2 * EVENTS_MAX)
WRITING = threading.Lock()  # an abandoned write may still be running
_LENGTH: Final = struct.Struct(">H")


class JournalFile:
    """The file in `directory`; "": nothing is saved."""

    def __init__(self, directory: str, network: str, size: int) -> None:
        """`size`: the highest position of the network."""
        self._path = Path(directory) / FILE_NAME if directory else None
        self._head = b"subord events 1\n" + digest_of(network.encode())
        self._is_whole = False  # a new event may be appended
        self._bytes = 0
        self._saved = 0  # events that arrived, and are on the disk
        self._warned = False
        self.journal = Journal(size)
        if self._path is not None:
            self._load(self._path, size)

    def _load(self, path: Path, size: int) -> None:
        try:
            with path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            logger.warning("%s is not usable and is ignored: %s", path, error.strerror)
            return
        if not content.startswith(self._head):
            return
        items, end = _items(content, len(self._head))
        try:
            now_ms = (1 << 63) - 1  # a date that no clock reaches yet was judged when it came
            self.journal = Journal(size, Journal(size).decode(msgspec.msgpack.encode(items), now_ms))
        except (msgspec.MsgspecError, ValueError) as error:
            logger.warning("%s is not usable and is ignored: %s", path, error)
            return
        self._is_whole, self._bytes = end == len(content), end

    async def save(self) -> None:
        """Save what came since the last time, in a thread."""
        journal = self.journal
        new = journal.arrived - self._saved
        if self._path is None or not new:
            return
        is_appended = self._is_whole and new <= len(journal.arrivals)
        items = list(journal.arrivals)[-new:] if is_appended else list(journal.items())
        content = b"".join(_LENGTH.pack(len(each)) + each for each in items)
        if is_appended and self._bytes + len(content) > FILE_BYTES_MAX:
            is_appended = False
            content = b"".join(_LENGTH.pack(len(each)) + each for each in journal.items())
        arrived, self._is_whole = journal.arrived, False  # a write that is broken off leaves a part of a record
        write, path = self._write, self._path
        if await trio.to_thread.run_sync(write, path, content, is_appended, abandon_on_cancel=True):
            self._saved, self._is_whole = arrived, True
            self._bytes = len(content) + (self._bytes if is_appended else len(self._head))

    def _write(self, path: Path, content: bytes, is_appended: bool) -> bool:
        """Blocks."""
        try:
            with WRITING:
                if is_appended:
                    with open(path, "ab", opener=for_the_owner) as file:
                        file.write(content)
                    return True
                write_whole(path, self._head + content, ".fresh")
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning("cannot save the events: %s: %s; continuing without", path, error.strerror)
            return False
        return True


def _items(content: bytes, at: int) -> tuple[list[Item], int]:
    """The records from `at` on, and the end of the last whole one."""
    items = []
    while at + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        end = at + _LENGTH.size + length
        if not 0 < length <= ITEM_BYTES_MAX or end > len(content):
            break
        items.append(content[at + _LENGTH.size : end])
        at = end
    return items, at
