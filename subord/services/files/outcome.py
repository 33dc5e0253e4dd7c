"""What came of a push at a node: the result of an order.

Inputs are what was done, or one word that says why nothing was; output is a result. Equal outcomes are equal results,
so they travel as one: nothing here names the node or a time. Invariant: a word other than CHANGED, UNCHANGED, TRIAL,
AFTER_FAILED and PART means that no file of the target was changed.
"""

from __future__ import annotations

import errno
from typing import Annotated, Final

import msgspec

from subord.services.decoding import Reader, reader

CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
TRIAL: Final = "would change"
AFTER_FAILED: Final = "after failed"
PART: Final = "part done"
CHECK_FAILED: Final = "check failed"
NO_CONTENT: Final = "no content"
CACHE_FULL: Final = "cache full"
MISMATCH: Final = "hash mismatch"
MALFORMED: Final = "malformed"
NO_DIRECTORY: Final = "no directory"
NOT_A_DIRECTORY: Final = "not a directory"
IS_A_DIRECTORY: Final = "is a directory"
SPECIAL: Final = "special file"
SYMLINK: Final = "symlink in the path"
DISK_FULL: Final = "disk full"
READ_ONLY: Final = "read-only"
NOT_PERMITTED: Final = "not permitted"
NO_USER: Final = "no such user"
NOT_ROOT: Final = "only as root"
FAILED: Final = "failed"
OTHER_RELEASE: Final = "other release"

DONE: Final = frozenset((CHANGED, UNCHANGED, TRIAL))
SENTENCES: Final = {
    AFTER_FAILED: "the files are in place, but the command after it failed",
    PART: "only a part of the files is in place: give the order again",
    CHECK_FAILED: "the check before it failed",
    NO_CONTENT: "the content did not come",
    CACHE_FULL: "the cache of blobs on the node has no room for the content",
    MISMATCH: "the content is not what the list says",
    MALFORMED: "the list of files is malformed",
    NO_DIRECTORY: "there is no such directory",
    NOT_A_DIRECTORY: "it is not a directory",
    IS_A_DIRECTORY: "a directory is there, and a file or link is wanted",
    SPECIAL: "a device, pipe or socket is there",
    SYMLINK: "a symlink is in the path of the target: name the real path",
    DISK_FULL: "no room on the disk",
    READ_ONLY: "the file system is read-only",
    NOT_PERMITTED: "the agent may not write there: see its unit in docs/files.md",
    NO_USER: "there is no such user or group",
    NOT_ROOT: "files are written as root only",
    FAILED: "it failed",
    OTHER_RELEASE: "the agent does not understand the order: it runs another release",
}
DETAIL_CHARS_MAX: Final = 400
_WORDS: Final = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: NOT_PERMITTED,
    errno.EPERM: NOT_PERMITTED,
    errno.ENOENT: NO_DIRECTORY,
    errno.ENOTDIR: NOT_A_DIRECTORY,
    errno.EISDIR: IS_A_DIRECTORY,
}

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]


class Pushed(msgspec.Struct, frozen=True, array_like=True, tag="pushed"):
    """`how`: a word of this module. `made`: files, directories and links that were not there; `replaced`, `adjusted`
    (directories with another mode or owner), `unchanged`."""

    how: str
    made: _Count = 0
    replaced: _Count = 0
    adjusted: _Count = 0
    unchanged: _Count = 0
    detail: Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)] = ""

    @property
    def is_done(self) -> bool:
        return self.how in DONE


class FilesError(Exception):
    """Why nothing is changed: a word of this module, and a detail."""

    def __init__(self, how: str, detail: str = "") -> None:
        super().__init__(f"{how}: {detail}" if detail else how)
        self.how = how
        self.detail = detail


def word_for(error: OSError) -> str:
    """The word of an error of the system."""
    return _WORDS.get(error.errno or 0, FAILED)


def refused(how: str, detail: str = "") -> Pushed:
    """Nothing is changed."""
    return Pushed(how, detail=detail[:DETAIL_CHARS_MAX])


decode: Reader[Pushed] = reader(Pushed)
