"""What an operator signs: what the agent is to do with files, as the payload of an order.

A push names a bundle by its hash, so the signature covers all that the bundle has: paths, modes, owners, contents and
commands. Of sets (sets/) orders only ask: what a set is, a document says. Invariant: an agent does nothing for a
payload that it does not understand in full.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from subord.core.carriage.blobs.bounds import NAME_BYTES
from subord.core.carriage.engine.bounds import LEFT_MS_MAX
from subord.core.carriage.engine.ranges import POSITION_MAX
from subord.core.carriage.published import MARK_BYTES, NAME_CHARS, SETS_MAX
from subord.services.decoding import Reader, reader

_Blob = Annotated[bytes, msgspec.Meta(min_length=NAME_BYTES, max_length=NAME_BYTES)]
_Mark = Annotated[bytes, msgspec.Meta(min_length=MARK_BYTES, max_length=MARK_BYTES)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]


class Wanted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A version of a set, as the node of the operator has it. `mark`: of the order of its document."""

    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARS, pattern=r"^[0-9a-z]+\Z")]
    version: _Count
    at_ms: _Count
    mark: _Mark


class Push(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="push"):
    """Bring the files of a bundle. `source`: a node that has it. `is_trial`: say what would change."""

    blob: _Blob
    source: Annotated[int, msgspec.Meta(ge=1, le=POSITION_MAX)]
    is_trial: bool = False


class Look(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="look"):
    """Say how these sets are, after a comparison of all their files."""

    sets: Annotated[tuple[Wanted, ...], msgspec.Meta(min_length=1, max_length=SETS_MAX)]


class Await(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="await"):
    """Say what came of a version, as soon as it is in place or has failed, at the latest after `wait_ms`."""

    set: Wanted
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=LEFT_MS_MAX)]


class Compare(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="compare"):
    """Say which paths of a set differ."""

    set: Wanted


class Collect(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="collect"):
    """Delete what no set needs. `takes_previous`: also the previous versions of sets."""

    takes_previous: bool = False


Task = Push | Look | Await | Compare | Collect
decode: Reader[Task] = reader(Task)
_encode = msgspec.msgpack.Encoder().encode


def encode(task: Task) -> bytes:
    """The payload of an order."""
    return _encode(task)
