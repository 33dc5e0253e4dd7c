"""Questions for archives on the link, beside the messages of exchange.py: away asks home for the files of a job, home
asks away for its results.

A message of the exchange is a map, and a question an array, so each end knows one from the other. Inputs and outputs
are bytes. Invariant: a question and its answer are bounded, and an answer has at most CHUNKS_MAX chunks.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX, NAME_BYTES
from subord.core.decoding import UNREADABLE
from subord.services.transfer.exchange import ExchangeError
from subord.services.transfer.jobs import REASON_MAX, Key

CHUNKS_MAX: Final = 16
"""4 MiB: half of a message."""
_FIXARRAY: Final = range(0x90, 0xA0)
_Name = Annotated[bytes, msgspec.Meta(max_length=NAME_BYTES)]
_Reason = Annotated[str, msgspec.Meta(max_length=REASON_MAX)]


class Kind(StrEnum):
    FILES = "files"
    """What a job brings along; its home has it."""
    RESULTS = "results"


class Want(msgspec.Struct, frozen=True, array_like=True, tag="want"):
    """`name`: of the blob; b"": it is not known, and its list of chunks is wanted. Otherwise `count` chunks from
    `first` on."""

    key: Key
    kind: Kind
    name: _Name = b""
    first: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)] = 0
    count: Annotated[int, msgspec.Meta(ge=0, le=CHUNKS_MAX)] = 0


class Took(msgspec.Struct, frozen=True, array_like=True, tag="took"):
    """Home has done with the results of a job. `is_kept`: they are not in its working directory, so the other side
    keeps them for a while."""

    key: Key
    is_kept: bool


class Word(StrEnum):
    HERE = "here"
    WAIT = "wait"
    """It is being packed: ask again."""
    NONE = "none"
    """There is none, and never will be. A reason follows."""


class Part(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """`content`: the list of chunks, or chunks. `remark`: a sentence about all of it. `directory`: where the results
    are at the other side. `is_nothing`: there is nothing to be fetched."""

    word: Word
    content: Annotated[bytes, msgspec.Meta(max_length=CHUNKS_MAX * CHUNK_BYTES_MAX)] = b""
    remark: _Reason = ""
    directory: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    is_nothing: bool = False


_question: Final = msgspec.msgpack.Decoder(Want | Took)
_part: Final = msgspec.msgpack.Decoder(Part)


def is_question(body: bytes) -> bool:
    """And no message of the exchange."""
    return bool(body) and body[0] in _FIXARRAY


def encode(what: Want | Took | Part) -> bytes:
    return msgspec.msgpack.encode(what)


def decode_question(body: bytes) -> Want | Took:
    """Raises ExchangeError."""
    try:
        found: Want | Took = _question.decode(body)
    except UNREADABLE as error:
        raise ExchangeError(f"the other cluster has sent a question that cannot be read: {error}") from None
    return found


def decode_part(body: bytes) -> Part:
    """Raises ExchangeError."""
    try:
        return _part.decode(body)
    except UNREADABLE as error:
        raise ExchangeError(f"the other cluster has sent an answer that cannot be read: {error}") from None
