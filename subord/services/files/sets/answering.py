"""What the agent answers about sets: how they are, which paths differ, and what it has deleted.

Inputs are what an operator asks for, the records, and the files in place; outputs are results. Invariant: nothing is
changed but by `collect`, and that deletes nothing that a set names.

All functions block.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from subord.services.files.outcome import FilesError, word_for
from subord.services.files.places import Target
from subord.services.files.sets import words
from subord.services.files.sets.comparing import differences
from subord.services.files.sets.keeping import Keeping
from subord.services.files.sets.record import Placed, Record, Sets
from subord.services.files.sets.words import Collected, Difference, Differing, Seen
from subord.services.files.staging import Owner, Pause
from subord.services.files.task import Wanted


def progress(sets: Sets, wanted: Wanted) -> Seen:
    """How far a version is, without a look at its files."""
    record, failure, name = sets.get(wanted.name), sets.failure(wanted.name), wanted.name
    placed = None if record is None or record.is_released else record.placed
    version = 0 if placed is None else placed.version
    if failure is not None and failure.mark == wanted.mark:
        return Seen(name, words.FAILED, version, failure.cause, failure.detail)
    if record is None or record.mark != wanted.mark:
        state = words.MISSING if record is None or not _is_newer(record, wanted) else words.OVERTAKEN
        return Seen(name, state, version)
    if placed is None or not record.is_in_place or record.phase:
        return Seen(name, words.STAGED, version)
    if placed.after:
        return Seen(name, words.FAILED, version, placed.after, placed.detail)
    return Seen(name, words.CURRENT, version)


def look(sets: Sets, wanted: Wanted, own: Owner, pause: Pause) -> Seen:
    """How a set is, after a comparison of all its files. What `pause` raises is raised."""
    return compare(sets, wanted, own, pause).seen


def compare(sets: Sets, wanted: Wanted, own: Owner, pause: Pause) -> Differing:
    """The paths that differ from the version that is in place. What `pause` raises is raised."""
    seen = progress(sets, wanted)
    record = sets.get(wanted.name)
    if not seen.version or record is None or record.placed is None:
        return Differing(seen)
    try:
        paths, size, total = list[Difference](), 0, 0
        for each in _differing(sets, wanted.name, record.placed, own, pause):
            total, size = total + 1, size + len(each.path)
            if len(paths) < words.PATHS_MAX and size <= words.PATHS_BYTES_MAX:
                paths.append(each)
    except FilesError as error:
        return Differing(Seen(wanted.name, words.FAILED, seen.version, error.how, error.detail))
    except OSError as error:
        return Differing(Seen(wanted.name, words.FAILED, seen.version, word_for(error), str(error.strerror)))
    state = words.DRIFTED if total and seen.state == words.CURRENT else seen.state
    seen = Seen(wanted.name, state, seen.version, seen.cause, seen.detail, total)
    return Differing(seen, tuple(paths), total - len(paths))


def _differing(sets: Sets, name: str, placed: Placed, own: Owner, pause: Pause) -> list[Difference]:
    manifest = sets.manifest(name)
    if manifest is None:
        raise FilesError(words.FAILED, "the agent has lost the list of the files: publish again")
    with Target(os.path.dirname(placed.to)) as target:
        return list(differences(target, manifest.entries, own, pause))


def _is_newer(record: Record, wanted: Wanted) -> bool:
    held = record.document
    return (held.version, held.at_ms) >= (wanted.version, wanted.at_ms)


def collect(sets: Sets, *, takes_previous: bool, prune: Callable[[], tuple[int, int]]) -> Collected:
    """Delete what no set needs. `prune`: has the daemon drop chunks that nothing uses; their number and bytes.
    `takes_previous`: also the previous versions of sets."""
    directories = size = 0
    why = list[str]()
    for name, record in list(sets.all()):
        if not (record.is_released or takes_previous) or record.phase:
            continue
        try:
            removed = Keeping(sets, name, record.tag).remove_previous(record)
            if removed is not None:
                directories, size = directories + 1, size + removed
            if record.is_released:
                sets.forget_manifest(name)
        except (FilesError, OSError) as error:
            why.append(f"{name}: {error}")
    try:
        chunks, blob_bytes = prune()
    except FilesError as error:
        chunks, blob_bytes = 0, 0
        why.append(str(error))
    return Collected(directories, size, chunks, blob_bytes, "; ".join(why)[: words.DETAIL_CHARS_MAX])
