"""Carries out the document of a set at this node: stages the files, checks them, and exchanges the directory at once.

Inputs are a document that was accepted, and the bundle that it names; outputs are the directory, the record of the
set, and a word if it cannot be done. Invariants: the directory of a set is at every moment the whole of one version;
the one before stays beside it, under a name that begins with STAGED; the command after a version runs once at most.
When a process ends on the way, the next one removes what was staged, or finishes the exchange (`recover`), as soon as
the file system is there.

All functions block.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from subord.services.files import commands, staging
from subord.services.files.delivery import LEFT_S_MAX, turn
from subord.services.files.manifest import DIRECTORY, LINK, Manifest, shown
from subord.services.files.outcome import (
    CHECK_FAILED,
    FAILED,
    MALFORMED,
    NOT_A_DIRECTORY,
    SPECIAL,
    SYMLINK,
    FilesError,
)
from subord.services.files.places import Target, kind_of, named, remove, status_of
from subord.services.files.plan import NOTHING, OTHER, Plan, plan, staged_name
from subord.services.files.records import ANY_PLACE
from subord.services.files.sets.comparing import differences
from subord.services.files.sets.exchange import exchange, rename_new
from subord.services.files.sets.record import ACTIVATING, AFTER, DUE, RESTING, STAGING, Placed, Record, Sets
from subord.services.files.sets.words import (
    AFTER_FAILED,
    AFTER_UNKNOWN,
    DETAIL_CHARS_MAX,
    MOUNTED,
    NO_EXCHANGE,
    OCCUPIED,
)
from subord.services.files.staging import Owner, Pause, owner_of
from subord.services.files.stream import Stream

logger = logging.getLogger("subord")
COMMAND_S_MAX: Final = 600.0
"""For the command before, and for the one after."""
Environment = Mapping[bytes, bytes]
NO_ENVIRONMENT: Final[Environment] = {}
ROOT: Final = Owner(0, 0)


class Keeping:
    """One set at one node."""

    def __init__(
        self,
        sets: Sets,
        name: str,
        tag: bytes,
        *,
        own: Owner = ROOT,
        environment: Environment = NO_ENVIRONMENT,
        pause: Pause = lambda: None,
    ) -> None:
        """`tag`: of the record. `own`: the owner of files without another. `pause`: raises if the work is to end
        before its time. The defaults are enough to undo and to finish."""
        self._sets = sets
        self._name = name
        self._tag = tag
        self._staged, self._old = staged_name(tag, 0), staged_name(tag, 1)
        self._own = own
        self._environment = environment
        self._pause = pause

    # -- a version ------------------------------------------------------------------------------------------------

    def carry_out(self, record: Record, stream: Callable[[], Stream]) -> Record:
        """Bring a version to its directory, unless it is there, and run the command after it. `record` is mended.
        `stream`: opens the bundle. Raises FilesError and OSError: nothing is changed; and what `pause` raises."""
        if not record.is_in_place:
            record = self._place(record, stream())
        return self._run_after(record) if record.phase == DUE else record

    def _place(self, record: Record, stream: Stream) -> Record:
        said, manifest = record.said, stream.manifest()
        first = manifest.entries[0]
        if (manifest.to, first.path, first.kind) != (said.folder, said.last_name, DIRECTORY):
            raise FilesError(MALFORMED, "the content is for another directory")
        if any(not each.path.startswith(first.path + b"/") for each in manifest.entries[1:]):
            raise FilesError(MALFORMED, "the content has files beside the directory")
        with named(said.folder), turn(self._pause), Target(said.folder) as target:
            if self._is_there(record, manifest, target):
                self._sets.put_next(self._name, manifest)
                self._sets.take_next(self._name)
                return self._put(record, phase=DUE, placed=_placed(record))
            return self._exchanged(record, manifest, target, stream)

    def _is_there(self, record: Record, manifest: Manifest, target: Target) -> bool:
        """Whether the directory is as wanted already. Raises FilesError: it must not be replaced."""
        said = record.said
        kind = kind_of(status_of(said.last_name, target.folder(b"")))
        if kind == NOTHING:
            return False
        if kind != DIRECTORY:
            how = {LINK: SYMLINK, OTHER: SPECIAL}.get(kind, NOT_A_DIRECTORY)
            raise FilesError(how, os.fsdecode(said.to))
        if next(differences(target, manifest.entries, self._own, self._pause), None) is None:
            return True
        is_free = record.placed is not None or said.replaces
        if not is_free and os.listdir(target.folder(said.last_name)):
            raise FilesError(OCCUPIED, os.fsdecode(said.to))
        return False

    def _exchanged(self, record: Record, manifest: Manifest, target: Target, stream: Stream) -> Record:
        planned = plan(manifest.entries, {}, self._tag)
        assert isinstance(planned, Plan), "nothing is in the way of what is new"
        record = self._put(record, phase=STAGING, place=target.place)
        try:
            owners = {each.path: owner_of(each, self._own) for each in manifest.entries}
            staging.stage(target, manifest.entries, planned, owners, stream, pause=self._pause)
            self._check(record, manifest, target)
            self._sets.put_next(self._name, manifest)
            status = status_of(self._staged, target.folder(b""))
            assert status is not None, "it is staged"
            record = self._put(record, phase=ACTIVATING, inode=(status.st_dev, status.st_ino))
            self._exchange(record, target)
        except BaseException:  # trio.Cancelled, too; raised again
            self._undo(record, target)
            raise
        return self._finish(record, target)

    def _check(self, record: Record, manifest: Manifest, target: Target) -> None:
        if manifest.check:
            places = {b"SUBORD_STAGED": target.full(self._staged), b"SUBORD_TARGET": record.said.to}
            failed = commands.failure(manifest.check, {**self._environment, **places}, self._limited())
            if failed:
                raise FilesError(CHECK_FAILED, failed)

    def _exchange(self, record: Record, target: Target) -> None:
        """The moment at which the version counts."""
        name, folder = record.said.last_name, target.folder(b"")
        try:
            if status_of(name, folder) is None:
                rename_new(self._staged, name, folder)
            else:
                exchange(self._staged, name, folder)
        except OSError as error:
            word = {
                errno.EINVAL: NO_EXCHANGE,
                errno.ENOSYS: NO_EXCHANGE,
                errno.EXDEV: NO_EXCHANGE,
                errno.EBUSY: MOUNTED,
            }
            if error.errno in word:
                raise FilesError(word[error.errno], os.fsdecode(record.said.to)) from None
            raise
        os.fsync(folder)

    def _finish(self, record: Record, target: Target) -> Record:
        """The exchange is done. All of it may have been done before."""
        folder, previous = target.folder(b""), record.placed
        if status_of(self._staged, folder) is not None:
            remove(self._old, folder)
            os.rename(self._staged, self._old, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        if previous is None and status_of(self._old, folder) is not None:
            previous = Placed(0, b"", b"", record.said.to)
        self._sets.take_next(self._name)
        return self._put(record, phase=DUE, inode=(0, 0), placed=_placed(record), previous=previous)

    def _run_after(self, record: Record) -> Record:
        manifest, placed = self._sets.manifest(self._name), record.placed
        assert placed is not None, "the command after a version runs when it is in place"
        if manifest is None or not manifest.after:
            return self._put(record, phase=RESTING)
        record = self._put(record, phase=AFTER)
        places = {b"SUBORD_TARGET": record.said.to}
        try:
            failed = commands.failure(manifest.after, {**self._environment, **places}, self._limited())
        except FilesError as error:
            failed = error.detail
        except OSError as error:
            failed = f"it has not run: {error}"
        after = AFTER_FAILED if failed else ""
        placed = msgspec.structs.replace(placed, after=after, detail=failed[:DETAIL_CHARS_MAX])
        return self._put(record, phase=RESTING, placed=placed)

    def _limited(self) -> Pause:
        """`pause`, and an end to commands that do not end."""
        until = time.monotonic() + COMMAND_S_MAX

        def pause() -> None:
            self._pause()
            if time.monotonic() > until:
                raise FilesError(CHECK_FAILED, f"it has not ended after {COMMAND_S_MAX:g} s")

        return pause

    # -- after a process that has ended ---------------------------------------------------------------------------

    def mended(self, record: Record) -> Record:
        """The record, after what an earlier change has left is undone or finished. Raises FilesError, OSError: it is
        left for later."""
        if record.phase in (RESTING, DUE):
            return record
        if record.phase == AFTER:
            assert record.placed is not None, "the command after a version runs when it is in place"
            placed = msgspec.structs.replace(record.placed, after=AFTER_UNKNOWN, detail="")
            return self._put(record, phase=RESTING, placed=placed)
        with Target(record.said.folder) as target:
            if self._is_exchanged(record, target):
                return self._finish(record, target)
            if not self._is_place(record, target) and (self._sets.age_s(self._name) or 0.0) <= LEFT_S_MAX:
                raise FilesError(
                    FAILED, f"{shown(target.to)} is another directory now; its file system may not be mounted"
                )
            remove(self._staged, target.folder(b""))
        return self._put(record, phase=RESTING, inode=(0, 0))

    def _undo(self, record: Record, target: Target) -> None:
        """Remove what is staged, as far as it can be. After an exchange it does nothing: what is in place counts."""
        if not self._is_exchanged(record, target):
            with suppress(OSError, FilesError):
                remove(self._staged, target.folder(b""))
                self._put(record, phase=RESTING, inode=(0, 0))

    @staticmethod
    def _is_exchanged(record: Record, target: Target) -> bool:
        """Whether what was staged is in the place of the set. It was staged on the device of the target, which may
        have another number after a restart of the machine."""
        status = status_of(record.said.last_name, target.folder(b""))
        staged = target.place[0], record.inode[1]
        return record.phase == ACTIVATING and status is not None and (status.st_dev, status.st_ino) == staged

    def _is_place(self, record: Record, target: Target) -> bool:
        """Whether the target is the directory above the set: not the one below a mount point that is empty now. What
        is staged tells it, too, and so does the number alone, because the device may have another one."""
        if record.place == ANY_PLACE or record.place[1] == target.place[1]:
            return True
        return status_of(self._staged, target.folder(b"")) is not None

    # -- the previous version -------------------------------------------------------------------------------------

    def remove_previous(self, record: Record) -> int | None:
        """Delete the directory of the previous version; the bytes that its files had, None: there is none. Its blob
        stays in use. Raises FilesError, OSError."""
        if record.previous is None:
            return None
        with Target(os.path.dirname(record.previous.to)) as target:
            if status_of(self._old, target.folder(b"")) is None:
                return None
            size = _size_of(target.full(self._old))
            remove(self._old, target.folder(b""))
        return size

    def _put(self, record: Record, **changes: object) -> Record:
        record = msgspec.structs.replace(record, **changes)
        self._sets.put(self._name, record)
        return record


def recover(sets: Sets) -> None:
    """Undo or finish what an earlier process of the agent has left of all sets."""
    for name, record in list(sets.all()):
        if record.phase in (RESTING, DUE):
            continue
        try:
            found = Keeping(sets, name, record.tag).mended(record)
            said = "is in place" if found.is_in_place else "is undone, and will be staged again"
        except (OSError, FilesError) as error:
            said = f"is left as it is: {error}"
        version = record.document.version
        logger.warning("version %d of the set %s, which an earlier process had begun, %s", version, name, said)


def _placed(record: Record) -> Placed:
    """What the document says, in place."""
    said = record.said
    return Placed(record.document.version, record.mark, said.content.blob, said.to)


def _size_of(path: bytes) -> int:
    """Bytes of all files below a directory; what cannot be read counts nothing."""
    size = 0
    for folder, _, files in os.walk(path):
        for each in files:
            with suppress(OSError):
                size += os.lstat(os.path.join(folder, each)).st_size
    return size
