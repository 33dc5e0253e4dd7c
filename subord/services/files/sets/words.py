"""What an agent tells of sets: to its daemon, and to operators as the results of orders.

Inputs are words and counts; outputs are results. Equal states of many nodes are equal results, so they travel as one:
nothing here names the node or a time. Invariant: a result has at most bounds.RESULT_BYTES_MAX bytes.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.published import MARK_BYTES, NAME_CHARS, SETS_MAX
from subord.services.decoding import Reader, reader

CURRENT: Final = "current"
STAGED: Final = "staged"
DRIFTED: Final = "drifted"
FAILED: Final = "failed"
MISSING: Final = "missing"
OVERTAKEN: Final = "overtaken"
RELEASED: Final = "released"
STATES: Final = (CURRENT, STAGED, DRIFTED, FAILED, MISSING, OVERTAKEN)
"""The states of a set at a node, the best one first."""

AFTER_FAILED: Final = "after failed"
AFTER_UNKNOWN: Final = "after unknown"
REFUSED: Final = "refused"
OCCUPIED: Final = "occupied"
TAKEN: Final = "taken"
MOVED: Final = "other directory"
TOO_MANY: Final = "too many sets"
NO_EXCHANGE: Final = "no exchange"
MOUNTED: Final = "mount point"
NOT_TOLD: Final = "not told"
SENTENCES: Final = {
    AFTER_FAILED: "the files are in place, but the command after them failed",
    AFTER_UNKNOWN: "the files are in place; the agent ended while the command after them ran, and it runs once",
    REFUSED: "the agent refuses the document",
    OCCUPIED: "the directory has files of no set: publish with --replace, and they are kept as the previous version",
    TAKEN: "the directory is that of another set, or overlaps it",
    MOVED: "the set has another directory on the node: withdraw it, and publish it under another name",
    TOO_MANY: f"the agent looks after {SETS_MAX} sets, and takes no more: withdraw one",
    NO_EXCHANGE: "the file system cannot exchange two directories: choose a directory on another one",
    MOUNTED: "the directory is a mount point, and cannot be exchanged: choose one below it",
    NOT_TOLD: "the node has answered something else",
}
"""Causes and details beside those of outcome.py."""

DETAIL_CHARS_MAX: Final = 300
PATHS_MAX: Final = 400
PATHS_BYTES_MAX: Final = 20_000

_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS)]
_Mark = Annotated[bytes, msgspec.Meta(max_length=MARK_BYTES)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_Detail = Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)]


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A set at a node. `state`: of STATES. `cause`: why it is no better; a word. `version`: that is in place; 0:
    none. `differing`: paths that are not as published."""

    name: _Name
    state: str
    version: _Count = 0
    cause: str = ""
    detail: _Detail = ""
    differing: _Count = 0


class Looked(msgspec.Struct, frozen=True, array_like=True, tag="looked"):
    """What was asked for, at a node."""

    sets: Annotated[tuple[Seen, ...], msgspec.Meta(max_length=SETS_MAX)]

    @property
    def how(self) -> str:
        """The worst of the states."""
        known = [STATES.index(each.state) for each in self.sets if each.state in STATES]
        return STATES[max(known)] if known else CURRENT


class Difference(msgspec.Struct, frozen=True, array_like=True):
    """A path below the directory of a set, and how it differs."""

    path: bytes
    how: str


class Differing(msgspec.Struct, frozen=True, array_like=True, tag="differing"):
    """The paths of a set that differ at a node. `left_out`: further ones."""

    seen: Seen
    paths: Annotated[tuple[Difference, ...], msgspec.Meta(max_length=PATHS_MAX)] = ()
    left_out: _Count = 0

    @property
    def how(self) -> str:
        return self.seen.state


class Collected(msgspec.Struct, frozen=True, array_like=True, tag="collected"):
    """What a node has deleted: previous versions in their directories, and chunks of the cache of blobs. `detail`:
    why it is not all."""

    directories: _Count
    files_bytes: _Count
    chunks: _Count
    blob_bytes: _Count
    detail: _Detail = ""

    @property
    def how(self) -> str:
        return FAILED if self.detail else "collected"


class Followed(msgspec.Struct, frozen=True, array_like=True):
    """What the agent tells the daemon of a document. `state`: of STATES, or RELEASED. `holds`: blobs to be kept."""

    state: str
    cause: str = ""
    holds: tuple[bytes, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to try again."""
        return self.state in (CURRENT, RELEASED, OVERTAKEN)


decode_followed: Reader[Followed] = reader(Followed)
_encode = msgspec.msgpack.Encoder().encode


def encode_followed(followed: Followed) -> bytes:
    return _encode(followed)
