"""Brings the files of a bundle to their places on this node: all are staged and checked first, then renamed.

Inputs are a bundle, the account that acts, and the environment of commands; output is an outcome. Invariants: before
all files are staged, whole and checked, nothing is visible; each file is replaced by one rename, so a reader sees the
old or the new one. When a process ends on the way, the next one undoes what was staged, or finishes what had begun to
be visible (`recover`), and the command after it runs once at most.

All functions block.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import msgspec

from subord.services.files import commands, staging
from subord.services.files.manifest import DIRECTORY, STAGED, Manifest, shown
from subord.services.files.outcome import (
    AFTER_FAILED,
    CHANGED,
    CHECK_FAILED,
    DETAIL_CHARS_MAX,
    FAILED,
    IS_A_DIRECTORY,
    NO_DIRECTORY,
    NOT_A_DIRECTORY,
    PART,
    SPECIAL,
    TRIAL,
    UNCHANGED,
    FilesError,
    Pushed,
    refused,
)
from subord.services.files.places import Target, named, remove, status_of
from subord.services.files.plan import OTHER, Conflict, Plan, differing, plan
from subord.services.files.records import ACTIVATING, AFTER, ANY_PLACE, STAGING, Adjusted, Record, Records
from subord.services.files.staging import Owner, Pause
from subord.services.files.stream import Stream

logger = logging.getLogger("subord")
LOCK_S: Final = 0.1
RECOVER_S: Final = 60.0
"""For the command after a push that an earlier process had begun."""
LEFT_S_MAX: Final = 7 * 86400.0
LEFT_MAX: Final = 64
"""For so long, and so many, records are kept of pushes that can be neither undone nor finished. The record of a push
that is under way counts, too."""
_lock = threading.Lock()
"""One push at a time changes files."""


class Delivery:
    """One push at one node."""

    def __init__(
        self, records: Records, tag: bytes, own: Owner, environment: Mapping[bytes, bytes], pause: Pause
    ) -> None:
        """`own`: the owner of files without another."""
        self._records = records
        self._tag = tag
        self._own = own
        self._environment = environment
        self._pause = pause

    def run(self, stream: Stream, *, is_trial: bool = False) -> Pushed:
        """What came of it."""
        try:
            manifest = stream.manifest()
            with named(manifest.to), turn(self._pause), Target(manifest.to) as target:
                return self._run(manifest, target, stream, is_trial=is_trial)
        except FilesError as error:
            return refused(error.how, error.detail)

    def _run(self, manifest: Manifest, target: Target, stream: Stream, *, is_trial: bool) -> Pushed:
        owners = {each.path: staging.owner_of(each, self._own) for each in manifest.entries}
        found = {each.path: staging.found(target, each, owners[each.path], self._pause) for each in manifest.entries}
        planned = plan(manifest.entries, found, self._tag)
        if isinstance(planned, Conflict):
            raise FilesError(_conflict(planned), shown(target.full(planned.path)))
        if is_trial or planned.is_empty:
            how = UNCHANGED if planned.is_empty else TRIAL
            return _pushed(how, planned, differing(planned))
        record = self._record(manifest, planned, owners, target)
        self._records.write(self._tag, record)
        try:
            _bound(self._records, self._tag)
            staging.stage(target, manifest.entries, planned, owners, stream, pause=self._pause)
            self._check(manifest, planned, target)
            record = _in(record, ACTIVATING)
            self._records.write(self._tag, record)
        except BaseException:  # trio.Cancelled, too; raised again
            _give_up(record, target, self._records, self._tag)
            raise
        detail = activate(record, target, self._records, self._tag)
        if detail:
            raise FilesError(PART, detail)
        failed = after(record, self._records, self._tag, self._pause)
        return _pushed(AFTER_FAILED if failed else CHANGED, planned, failed)

    def _record(self, manifest: Manifest, planned: Plan, owners: Mapping[bytes, Owner], target: Target) -> Record:
        adjusted = tuple(Adjusted(each.path, each.mode, *owners[each.path]) for each in planned.adjusted)
        steps = tuple((each.folder, each.staged, each.final) for each in planned.steps)
        shell = tuple(self._environment.items())
        return Record(STAGING, manifest.to, steps, adjusted, manifest.after, shell, target.place)

    def _check(self, manifest: Manifest, planned: Plan, target: Target) -> None:
        if not manifest.check:
            return
        places = {}
        if planned.steps:
            folder, staged, final = planned.steps[0]
            below = folder + b"/" if folder else b""
            places = {
                b"SUBORD_STAGED": target.full(below + staged),
                b"SUBORD_TARGET": target.full(below + final),
            }
        failed = commands.failure(manifest.check, {**self._environment, **places}, self._pause)
        if failed:
            raise FilesError(CHECK_FAILED, failed)


def activate(record: Record, target: Target, records: Records, tag: bytes, *, is_resumed: bool = False) -> str:
    """Rename what is staged; "" or why it is not done in full. `is_resumed`: some of it may be done. Raises OSError
    and FilesError: nothing is visible."""
    count = 0
    try:
        for folder, staged, final in record.steps:
            place = target.folder(folder)
            if not is_resumed or not _is_renamed(staged, final, place):
                os.rename(staged, final, src_dir_fd=place, dst_dir_fd=place)
            count += 1
        for each in record.adjusted:
            staging.finish(target, each.path, each.mode, Owner(each.uid, each.gid))
            count += 1
        for folder in dict.fromkeys(each[0] for each in record.steps):
            os.fsync(target.folder(folder))
    except (OSError, FilesError) as error:
        _give_up(record, target, records, tag)
        if not count:
            raise
        return f"{count} of {len(record.steps) + len(record.adjusted)}: {error}"[:DETAIL_CHARS_MAX]
    return ""


def _is_renamed(staged: bytes, final: bytes, place: int) -> bool:
    """Whether the step was done before. Raises FilesError: nothing has either name."""
    if status_of(staged, place) is not None:
        return False
    if status_of(final, place) is None:
        raise FilesError(FAILED, f"{shown(final)} is neither staged nor in place")
    return True


def after(record: Record, records: Records, tag: bytes, pause: Pause) -> str:
    """Run the command that follows; "" or why it failed. Raises what `pause` raises."""
    failed = ""
    try:
        if record.after:
            _note_after(record, records, tag)
            failed = commands.failure(record.after, dict(record.environment), pause)
    except OSError as error:
        failed = f"it has not run: {error}"
    finally:
        with suppress(OSError):
            records.drop(tag)
    return failed


def _note_after(record: Record, records: Records, tag: bytes) -> None:
    """From here on no other process runs the command after a push. Raises OSError."""
    try:
        records.write(tag, _in(record, AFTER))
    except OSError:  # no room for a record; to be without one needs none
        records.drop(tag)


def recover(directory: str) -> None:
    """Undo or finish what an earlier process of the agent has left. Call it before other pushes. What cannot be
    undone or finished now stays for a later start, but neither for ever nor without number."""
    records, left = Records(directory), 0
    for tag, record in sorted(records.left(), key=lambda each: records.age_s(each[0]) or 0.0):  # the oldest give way
        try:
            said = _recovered(records, tag, record)
        except (FilesError, OSError) as error:
            said = f"is not finished: {error}"
        with suppress(OSError):
            age_s = records.age_s(tag)
            if age_s is not None:
                left += 1
                said += "; " + _kept(records, tag, record, is_too_much=age_s > LEFT_S_MAX or left > LEFT_MAX)
        logger.warning("the push %s, which an earlier process had begun, %s", tag.hex(), said)


def _bound(records: Records, own: bytes) -> None:
    """Give up records beyond LEFT_MAX: first those with nothing left to do, then the oldest. `own`: of the push that
    is under way. It has the turn, so all others have ended."""
    try:
        if records.count() <= LEFT_MAX:
            return
        others = [
            (record.state != AFTER, -(records.age_s(tag) or 0.0), tag, record.to)
            for tag, record in records.left()
            if tag != own
        ]
        for is_unfinished, _, tag, to in sorted(others)[: max(0, len(others) + 1 - LEFT_MAX)]:
            records.drop(tag)
            said = _given_up(to) if is_unfinished else "it was done"
            logger.warning("the push %s is one of more than %d that are left; %s", tag.hex(), LEFT_MAX, said)
    except OSError as error:  # the next push tries it again
        logger.error("the records of pushes cannot be bounded: %s", error)


def _kept(records: Records, tag: bytes, record: Record, *, is_too_much: bool) -> str:
    """What becomes of a record that is not done with. Raises OSError."""
    if not is_too_much:
        return "it is left for a later start of the agent"
    records.drop(tag)
    return _given_up(record.to)


def _given_up(to: bytes) -> str:
    return f"it is given up: delete what is left in {shown(to)} under names that begin with {shown(STAGED)}"


def _recovered(records: Records, tag: bytes, record: Record) -> str:
    """What was done. Raises FilesError, OSError: nothing, and the record stays if there is something to do."""
    if record.state == AFTER:
        records.drop(tag)
        return "was done, but perhaps the command after it"
    with Target(record.to) as target:
        if not _is_place(record, target):
            raise FilesError(
                FAILED, f"{shown(record.to)} is another directory now; its file system may not be mounted"
            )
        if record.state == STAGING:
            return "is undone" if _give_up(record, target, records, tag) else "cannot be undone now"
        detail = activate(record, target, records, tag, is_resumed=True)
    if detail:
        return f"is done in part: {detail}"
    failed = after(record, records, tag, _limit(RECOVER_S))
    return f"is done; the command after it failed: {failed}" if failed else "is done"


def _is_place(record: Record, target: Target) -> bool:
    """Whether the target is the directory of the push: not the one below a mount point that is empty now. What is
    staged tells it, too, because a device may have another number after a restart of the machine."""
    if record.place in (ANY_PLACE, target.place):
        return True
    with suppress(FilesError):
        return any(status_of(staged, target.folder(folder)) is not None for folder, staged, _ in record.steps)
    return False


def _limit(seconds: float) -> Pause:
    until = time.monotonic() + seconds

    def pause() -> None:
        if time.monotonic() > until:
            raise FilesError(AFTER_FAILED, f"it has not ended after {seconds:g} s")

    return pause


def _give_up(record: Record, target: Target, records: Records, tag: bytes) -> bool:
    """Remove what is staged; False: not all can be, and the record stays, so that a later process removes it."""
    is_removed = True
    for folder, staged, _ in record.steps:
        try:
            remove(staged, target.folder(folder))
        except FilesError as error:
            is_removed = is_removed and error.how == NO_DIRECTORY  # what was in it is gone, too
        except OSError:
            is_removed = False
    with suppress(OSError):
        if is_removed:
            records.drop(tag)
        elif record.state != STAGING:  # the time of the record is that of the push
            records.write(tag, _in(record, STAGING))
    return is_removed


def _in(record: Record, state: str) -> Record:
    return msgspec.structs.replace(record, state=state)


def _pushed(how: str, planned: Plan, detail: str = "") -> Pushed:
    made = len(planned.made) - len(planned.replaced)
    return Pushed(
        how, made, len(planned.replaced), len(planned.adjusted), planned.unchanged, detail[:DETAIL_CHARS_MAX]
    )


def _conflict(found: Conflict) -> str:
    if found.found == OTHER:
        return SPECIAL
    return NOT_A_DIRECTORY if found.wanted == DIRECTORY else IS_A_DIRECTORY


@contextmanager
def turn(pause: Pause) -> Iterator[None]:
    """Only one push or set at a time changes files."""
    while not _lock.acquire(timeout=LOCK_S):
        pause()
    try:
        yield
    finally:
        _lock.release()
