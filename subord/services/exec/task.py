"""What an operator signs: the payload of an order, which says what a node does.

Inputs are the words of a command line; output is a payload of at most bounds.PAYLOAD_BYTES_MAX bytes. Invariant: an
agent does nothing for a payload that it does not understand in full, so a field of a later release is never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine import bounds
from subord.services.decoding import Reader, reader

WORDS_MAX: Final = 4_096
PATH_BYTES_MAX: Final = 4_096
OUTPUT_BYTES_MAX: Final = 31_000
"""Of one node in a result; the rest of bounds.RESULT_BYTES_MAX is for what else it says, and a receipt."""
OUTPUT_BYTES_MIN: Final = 256
OUTPUT_BYTES_ALL: Final = 900_000
"""Of all nodes in an answer: somewhat less than bounds.ANSWER_BYTES_MAX, beyond which results are left out."""
RESULT_HEAD_BYTES: Final = 64
PIECE_BYTES_MAX: Final = 31_000

_Words = Annotated[tuple[bytes, ...], msgspec.Meta(min_length=1, max_length=WORDS_MAX)]
_Pairs = Annotated[tuple[tuple[bytes, bytes], ...], msgspec.Meta(max_length=WORDS_MAX)]
_Path = Annotated[bytes, msgspec.Meta(max_length=PATH_BYTES_MAX)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=bounds.LEFT_MS_MAX)]
_OutputBytes = Annotated[int, msgspec.Meta(ge=0, le=OUTPUT_BYTES_MAX)]
_Tag = Annotated[bytes, msgspec.Meta(min_length=bounds.TAG_BYTES, max_length=bounds.TAG_BYTES)]


class Run(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="run"):
    """Run `words`. `environment`: beside the usual one. `directory` empty: the home of the user. `output_bytes`: of
    both outputs in the result. `keeps_all`: the node also keeps output that fits. `is_trial`: say what would be run,
    and run nothing."""

    words: _Words
    environment: _Pairs = ()
    directory: _Path = b""
    time_ms: _Milliseconds = 3_600_000
    stdin: bytes = b""
    output_bytes: _OutputBytes = OUTPUT_BYTES_MAX
    keeps_all: bool = False
    is_trial: bool = False


class Fetch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="fetch"):
    """Tell output that the node has kept of an earlier order, from `offset` on. `stream`: 1 or 2."""

    of: _Tag
    stream: Annotated[int, msgspec.Meta(ge=1, le=2)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0


class Stop(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="stop"):
    """End the command of an earlier order that still runs. Root may end that of any user, another user its own."""

    of: _Tag


class List(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="list"):
    """Tell the commands that run: to root all, to another user its own."""


Task = Run | Fetch | Stop | List

decode: Reader[Task] = reader(Task)
_encode = msgspec.msgpack.Encoder().encode


class TooLargeError(ValueError):
    """The payload is larger than an order carries, or than a node reads; one clause."""


def encode(task: Task) -> bytes:
    """Raises TooLargeError."""
    for what, found, most in _limits(task) if isinstance(task, Run) else ():
        if found > most:
            raise TooLargeError(f"the order has {found} {what}, of at most {most}")
    payload = _encode(task)
    if len(payload) > bounds.PAYLOAD_BYTES_MAX:
        stdin = len(task.stdin) if isinstance(task, Run) else 0
        raise TooLargeError(
            f"the order has {len(payload)} bytes, of at most {bounds.PAYLOAD_BYTES_MAX}, with {stdin} bytes of "
            "standard input"
        )
    return payload


def _limits(run: Run) -> Iterable[tuple[str, int, int]]:
    """What a node does not read beyond, by name: how many there are, and the limit."""
    return (
        ("words", len(run.words), WORDS_MAX),
        ("variables", len(run.environment), WORDS_MAX),
        ("bytes of a directory", len(run.directory), PATH_BYTES_MAX),
    )


def output_bytes_for(nodes: int) -> int:
    """The output of one node in a result, so that the different results of so many nodes fit one answer."""
    share = OUTPUT_BYTES_ALL // max(1, nodes) - RESULT_HEAD_BYTES
    return max(OUTPUT_BYTES_MIN, min(OUTPUT_BYTES_MAX, share))


def keeps_all(nodes: int) -> bool:
    """Whether results of so many nodes may be left out for their number, so that nodes keep all output."""
    return nodes > bounds.GROUPS_MAX
