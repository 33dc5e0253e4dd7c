"""The journal of the agent: the tags that it has begun, with their outcomes, one file each.

Inputs are tags, the digests of their orders, and outcomes; outputs are what is known of a tag. The file is written
and synchronised before the agent acts, with room for the outcome, so a disk that is full refuses the order and not
its outcome. The outcome is synchronised after the answer. A file without outcome is of an order that was begun and
cut off. Files are kept until KEEP_MS after the end of the order; `dropped` then holds the latest such end, and
nothing that ends before it is begun again, whatever the clock says. Invariant: `begin` succeeds at most once for a
tag.

All functions block; the agent calls them in threads.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import BAD_MODE, CLOCK_BACK, NO_JOURNAL
from subord.core.carriage.engine.frames import Tag
from subord.core.carriage.engine.interface import Outcome

HEAD: Final = b"subord 1 tag\n"
DIGEST_BYTES: Final = 32
CHECK_BYTES: Final = 16
ENTRY_BYTES_MAX: Final = bounds.RESULT_BYTES_MAX + 512
KEEP_MS: Final = int(bounds.TAG_KEEP_S * 1000)
ENTRIES_MAX: Final = bounds.TAGS_MAX
BYTES_MAX: Final = 128 << 20
DROPPED: Final = "dropped"
FILE_MODE: Final = 0o600
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH

_outcome = msgspec.msgpack.Decoder(Outcome)
_encode = msgspec.msgpack.Encoder().encode


class JournalError(Exception):
    """The order is not begun. `cause`: for the issuer; the message is for the log."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class Found(NamedTuple):
    """What is known of a tag. `digest` empty: the file is damaged, so the order is not known. `outcome` None: the
    agent ended after it had begun."""

    digest: bytes
    outcome: Outcome | None


class _Entry(NamedTuple):
    name: str
    expires_ms: int
    size: int


class Journal:
    """The journal in one directory. Calls must not overlap."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._entries: dict[Tag, _Entry] | None = None  # None: not read yet
        self._bytes = 0
        self._dropped_ms = 0
        self._locked = -1

    def close(self) -> None:
        """Let another process have the directory."""
        if self._locked >= 0:
            os.close(self._locked)
            self._locked = -1

    def __len__(self) -> int:
        return len(self._entries or ())

    # -- reading ------------------------------------------------------------------------------------------

    def find(self, tag: Tag) -> Found | None:
        """What is known of a tag. Raises JournalError."""
        entry = self._read_entries().get(tag)
        if entry is None:
            return None
        try:
            with open(self._path(entry.name), "rb") as file:
                return _read(file.read(ENTRY_BYTES_MAX + 1))
        except OSError as error:
            raise self._failed(error) from None

    def _read_entries(self) -> dict[Tag, _Entry]:
        """The names of all files, read once. Raises JournalError."""
        if self._entries is None:
            try:
                self._check()
                self._lock()
                entries = dict(filter(None, (_entry_of(each) for each in os.scandir(self.directory))))
                self._dropped_ms = _number_in(self._path(DROPPED))
            except OSError as error:
                raise self._failed(error) from None
            self._entries = entries
            self._bytes = sum(each.size for each in entries.values())
        return self._entries

    # -- writing ------------------------------------------------------------------------------------------

    def begin(self, tag: Tag, digest: bytes, expires_ms: int, now_ms: int) -> None:
        """Write that the agent acts on a tag. Raises JournalError: it must not act."""
        entries = self._read_entries()
        try:
            self._check()
            self._expire(now_ms)
            if expires_ms <= self._dropped_ms:
                raise JournalError(CLOCK_BACK, "an order ends before others whose tags were dropped; set the clock")
            if len(entries) >= ENTRIES_MAX or self._bytes + ENTRY_BYTES_MAX > BYTES_MAX:
                raise JournalError(NO_JOURNAL, f"the journal is full: it holds {len(entries)} orders")
            entry = _Entry(f"{tag.hex()}-{expires_ms}", expires_ms, len(HEAD + digest))
            _write_new(self._path(entry.name), HEAD + digest)
            self._sync_or_drop(entry)
        except OSError as error:
            raise self._failed(error) from None
        entries[tag] = entry
        self._bytes += entry.size

    def end(self, tag: Tag, outcome: Outcome) -> None:
        """Write the outcome of a tag that has begun: it outlasts this process, and after `sync` a power failure.
        Raises OSError: after a restart it is unknown."""
        entries = self._read_entries()
        entry = entries[tag]
        text = _encode(outcome)
        record = len(text).to_bytes(4, "big") + text + _check_of(text)
        begin = len(HEAD) + DIGEST_BYTES
        descriptor = os.open(self._path(entry.name), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.pwrite(descriptor, record, begin)
            os.ftruncate(descriptor, begin + len(record))  # gives the rest of the room back
        finally:
            os.close(descriptor)
        entries[tag] = entry._replace(size=begin + len(record))
        self._bytes += len(record)

    def sync(self, tag: Tag) -> None:
        """Synchronise the outcome of a tag with the disk; may overlap with other calls. Raises OSError."""
        entry = self._read_entries().get(tag)
        if entry is not None:
            descriptor = os.open(self._path(entry.name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _expire(self, now_ms: int) -> None:
        """Drop tags that are kept no longer. Raises OSError."""
        entries = self._read_entries()
        over = [tag for tag, each in entries.items() if each.expires_ms + KEEP_MS <= now_ms]
        if not over:
            return
        self._dropped_ms = max(self._dropped_ms, *(entries[tag].expires_ms for tag in over))
        for tag in over:  # makes room on a full disk; the name still counts
            with suppress(FileNotFoundError):
                os.truncate(self._path(entries[tag].name), 0)
        fresh = self._path(f"{DROPPED}.new")
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        _write_new(fresh, str(self._dropped_ms).encode(), room=0)
        os.replace(fresh, self._path(DROPPED))
        self._sync()
        for tag in over:
            entry = entries.pop(tag)
            self._bytes -= entry.size
            with suppress(FileNotFoundError):
                os.unlink(self._path(entry.name))

    def check(self) -> None:
        """Raises JournalError: the directory cannot be used."""
        try:
            self._check()
        except OSError as error:
            raise self._failed(error) from None

    def _check(self) -> None:
        """Refuse a directory that others could write to. Raises JournalError, OSError."""
        status = os.stat(self.directory)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if status.st_uid != os.geteuid() or status.st_mode & WRITABLE_BY_OTHERS:
            what = f"user {status.st_uid} owns it, mode {stat.S_IMODE(status.st_mode):04o}"
            remedy = "" if status.st_uid == os.geteuid() else f"chown {os.geteuid()}, and "
            raise JournalError(BAD_MODE, f"the journal {self.directory} does not count: {what}; {remedy}chmod 700")

    def _sync_or_drop(self, entry: _Entry) -> None:
        """Raises OSError: the order is not begun, and may be given again."""
        try:
            self._sync()
        except OSError:
            os.unlink(self._path(entry.name))
            raise

    def _lock(self) -> None:
        """Keep other agents out of the directory until this process ends. Raises JournalError, OSError."""
        if self._locked < 0:
            self._locked = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(NO_JOURNAL, f"another agent uses the journal {self.directory}") from None

    def _sync(self) -> None:
        directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _failed(self, error: OSError) -> JournalError:
        return JournalError(NO_JOURNAL, f"the journal {self.directory} cannot be used: {error.strerror or error}")


def _write_new(path: str, content: bytes, room: int = ENTRY_BYTES_MAX) -> None:
    """A new file, synchronised, with room for ROOM bytes; on an error there is none. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        if room:
            os.posix_fallocate(descriptor, 0, room)
        os.pwrite(descriptor, content, 0)
        os.fsync(descriptor)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def _read(data: bytes) -> Found:
    """What a file says. One that is damaged, or whose head was not written before a power failure, is of an order
    whose outcome is unknown."""
    begin = len(HEAD) + DIGEST_BYTES
    digest = data[len(HEAD) : begin]
    if not data.startswith(HEAD) or len(digest) < DIGEST_BYTES or not any(digest):
        return Found(b"", None)
    size = int.from_bytes(data[begin : begin + 4], "big")
    text = data[begin + 4 : begin + 4 + size]
    check = data[begin + 4 + size : begin + 4 + size + CHECK_BYTES]
    if not size or check != _check_of(text):
        return Found(digest, None)
    return Found(digest, _outcome.decode(text))


def _check_of(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()[:CHECK_BYTES]


def _entry_of(file: os.DirEntry[str]) -> tuple[Tag, _Entry] | None:
    """None: the file is no entry."""
    tag, _, expires = file.name.partition("-")
    try:
        return bytes.fromhex(tag), _Entry(file.name, int(expires), file.stat(follow_symlinks=False).st_size)
    except ValueError:
        return None


def _number_in(path: str) -> int:
    """0: there is no file."""
    try:
        with open(path, "rb") as file:
            return int(file.read(32))
    except FileNotFoundError:
        return 0
    except ValueError:
        raise OSError(errno.EINVAL, f"{path} is damaged") from None
