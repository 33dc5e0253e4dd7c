"""What a document `files/NAME` says: a set of files that the nodes it names keep in a directory of their own.

Input is the order of a document; output is the set, with the earlier versions from which it came. The files stand in
a blob whose name is a hash of everything, so the signature of the document covers paths, modes, contents and
commands. Invariant: what `read` accepts names a directory below the root of the file system, and at least one node.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Final

import msgspec

from subord.core.carriage.blobs.bounds import NAME_BYTES
from subord.core.carriage.documents import BODY_BYTES_MAX, FILES, NAME_CHARS_MAX, NEVER_MS
from subord.core.carriage.engine.ranges import POSITION_MAX, Ranges
from subord.core.carriage.orders import Order
from subord.core.decoding import UNREADABLE
from subord.core.view import Position

NAME_CHARS: Final = NAME_CHARS_MAX - len(FILES) - 1
SETS_MAX: Final = 16
"""Of a cluster; a node keeps two blobs of each in its cache."""
PAST_MAX: Final = 16
"""Earlier versions that a document lists."""
PATH_BYTES_MAX: Final = 1024
BY_CHARS_MAX: Final = 64
MARK_BYTES: Final = 8
WITHDRAWN: Final = b""
"""In the place of a blob: the nodes look after the files no more."""

_Position = Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
_Pair = tuple[_Position, _Position]
_Blob = Annotated[bytes, msgspec.Meta(max_length=NAME_BYTES)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_By = Annotated[str, msgspec.Meta(max_length=BY_CHARS_MAX)]


class Content(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The files of a version. `source`: a node that has the blob. `entries`: files, directories and links. `size`:
    bytes of their contents, without holes. `of`: the version whose files these are; 0: they were new."""

    blob: _Blob
    source: _Position
    entries: _Count
    size: _Count
    of: _Count = 0


class Past(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An earlier version, as the operator of the later one says. `by`: the operator of the version."""

    version: _Count
    at_ms: _Count
    by: _By
    content: Content


class Published(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`to`: the directory on the nodes. `nodes`: ranges of positions; None: all members, also those that join later.
    `replaces`: it may take the place of a directory with files that are of no set. `past`: the newest first."""

    to: Annotated[bytes, msgspec.Meta(min_length=2, max_length=PATH_BYTES_MAX)]
    nodes: Annotated[tuple[_Pair, ...], msgspec.Meta(min_length=1)] | None
    content: Content
    replaces: bool = False
    past: Annotated[tuple[Past, ...], msgspec.Meta(max_length=PAST_MAX)] = ()

    @property
    def is_withdrawn(self) -> bool:
        return self.content.blob == WITHDRAWN

    @property
    def targets(self) -> Ranges | None:
        return None if self.nodes is None else Ranges.of_pairs(self.nodes)

    def is_for(self, position: Position) -> bool:
        return self.nodes is None or any(first <= position <= last for first, last in self.nodes)

    @property
    def folder(self) -> bytes:
        """The directory in which `to` stands."""
        return self.to.rpartition(b"/")[0] or b"/"

    @property
    def last_name(self) -> bytes:
        """Of `to`."""
        return self.to.rpartition(b"/")[2]

    def overlaps(self, other: Published) -> bool:
        """Whether one directory is the other, or stands in it."""
        shorter, longer = sorted((self.to + b"/", other.to + b"/"), key=len)
        return longer.startswith(shorter)


_decoder = msgspec.msgpack.Decoder(Published)
_encode = msgspec.msgpack.Encoder().encode


def order_of(name: str, version: int, at_ms: int, said: Published) -> Order:
    """What an operator signs. The earliest versions give way when all of them do not fit."""
    past = said.past[:PAST_MAX]
    while len(_encode(_with(said, past))) > BODY_BYTES_MAX and past:
        past = past[:-1]
    return Order(f"{FILES}/{name}", version, at_ms, NEVER_MS, _encode(_with(said, past)))


def _with(said: Published, past: tuple[Past, ...]) -> Published:
    return msgspec.structs.replace(said, past=past)


def read(order: Order) -> Published | None:
    """None: it is another order, or cannot be read."""
    if order.name.partition("/")[0] != FILES:
        return None
    try:
        found = _decoder.decode(order.body)
    except UNREADABLE:
        return None
    blobs = (found.content.blob, *(each.content.blob for each in found.past))
    is_sound = all(len(each) in (0, NAME_BYTES) for each in blobs)
    is_ordered = all(first <= last for first, last in found.nodes or ())
    return found if is_sound and is_ordered and _is_directory(found.to) else None


def _is_directory(path: bytes) -> bool:
    """Absolute, in its shortest form, and not the root."""
    parts = path.split(b"/")
    return parts[0] == b"" and b"\0" not in path and not {b"", b".", b".."}.intersection(parts[1:])


def mark_of(order: Order) -> bytes:
    """Tells two orders apart that have one name and one version."""
    return blake2b(_encode(order), digest_size=MARK_BYTES).digest()
