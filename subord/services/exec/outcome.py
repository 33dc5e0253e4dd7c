"""How a command ended on a node: the result of an order, and what it means for the exit code of `subord exec`.

Inputs are the end of a process and its output; output is a result of at most bounds.RESULT_BYTES_MAX bytes. Equal
ends with equal output are equal results, so they travel as one: nothing here names the node, a process or a time.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from subord.core.carriage.engine import bounds
from subord.services.decoding import Reader, reader

EXITED: Final = "exited"
KILLED: Final = "killed"
TIMED_OUT: Final = "timed out"
NOT_FOUND: Final = "not found"
NOT_EXECUTABLE: Final = "not executable"
NO_DIRECTORY: Final = "no directory"
NO_USER: Final = "no such user"
NOT_PERMITTED: Final = "user not permitted"
NOT_STARTED: Final = "not started"
OTHER_RELEASE: Final = "other release"
NOT_KEPT: Final = "not kept"
TRIAL: Final = "would run"
STOPPED: Final = "stopped"
NOT_RUNNING: Final = "not running"

CODES: Final = {
    TIMED_OUT: 124,
    NO_USER: 125,
    NOT_PERMITTED: 125,
    NOT_STARTED: 125,
    OTHER_RELEASE: 125,
    NOT_KEPT: 125,
    NO_DIRECTORY: 126,
    NOT_EXECUTABLE: 126,
    NOT_FOUND: 127,
    STOPPED: 143,
}
"""The exit codes of commands without one, as of timeout(1), env(1) and shells."""
NOT_KNOWN: Final = 125
"""The exit code of a word of a later release, so no further wave begins after it."""
SENTENCES: Final = {
    TIMED_OUT: "ended when its time was over (-t)",
    NOT_FOUND: "command not found",
    NOT_EXECUTABLE: "the command is not executable",
    NO_DIRECTORY: "there is no such directory",
    NO_USER: "there is no such user",
    NOT_PERMITTED: "the agent may not act as this user: see its unit in docs/exec.md",
    NOT_STARTED: "the command could not be started",
    OTHER_RELEASE: "the agent does not understand the order: it runs another release",
    NOT_KEPT: "the node keeps no such output, or not for this user",
    TRIAL: "would run it",
    STOPPED: "ended by an operator (--cancel)",
    NOT_RUNNING: "no such command runs, or not as this user",
}
SIGNALLED: Final = 128
DETAIL_CHARS_MAX: Final = 200
ERRORS_SHARE: Final = 4
"""Of the room for output, standard error gets a quarter at least."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """What a command wrote to one stream: its begin, its end, and how many bytes between them are cut."""

    head: bytes = b""
    tail: bytes = b""
    cut: _Count = 0

    @property
    def size(self) -> int:
        return len(self.head) + len(self.tail) + self.cut


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended"):
    """`how`: a word of this module. `number`: the exit code, or the signal. `is_kept`: the node keeps the whole
    output for a while."""

    how: str
    number: int = 0
    output: Part = Part()
    errors: Part = Part()
    is_kept: bool = False
    detail: Annotated[str, msgspec.Meta(max_length=DETAIL_CHARS_MAX)] = ""

    @property
    def code(self) -> int:
        """As a shell would tell it."""
        if self.how == KILLED:
            return SIGNALLED + self.number
        if self.how in (EXITED, TRIAL):
            return self.number
        return CODES.get(self.how, NOT_KNOWN)

    @property
    def cut(self) -> int:
        return self.output.cut + self.errors.cut


class Piece(msgspec.Struct, frozen=True, array_like=True, tag="piece"):
    """A piece of kept output. `size`: of the whole."""

    size: _Count
    data: bytes


class Command(msgspec.Struct, frozen=True, array_like=True):
    """A command that runs. `words`: the begin of it, for display."""

    tag: bytes
    principal: str
    user: str
    words: str


class Listing(msgspec.Struct, frozen=True, array_like=True, tag="listing"):
    """The commands that run, in the order of their tags."""

    commands: tuple[Command, ...]


Result = Ended | Piece | Listing

decode: Reader[Result] = reader(Result)
_encode = msgspec.msgpack.Encoder().encode


def encode(result: Result) -> bytes:
    """The result of the order."""
    data = _encode(result)
    assert len(data) <= bounds.RESULT_BYTES_MAX, f"a result of {len(data)} bytes"
    return data


class Held(NamedTuple):
    """What was held of a stream: its first bytes, its last bytes, and how many there were."""

    head: bytes
    tail: bytes
    size: int


def fitted(output: Held, errors: Held, bytes_max: int) -> tuple[Part, Part]:
    """Both streams in at most `bytes_max` bytes; `head` and `tail` of each hold so many, if there are."""
    share = min(errors.size, max(bytes_max // ERRORS_SHARE, bytes_max - output.size))
    return _part(output, bytes_max - share), _part(errors, share)


def _part(held: Held, bytes_max: int) -> Part:
    """The begin and the end of a stream in equal parts."""
    if held.size <= bytes_max:
        rest = held.size - len(held.head)
        return Part(held.head + (held.tail[-rest:] if rest > 0 else b""))
    half = bytes_max // 2
    rest = bytes_max - half
    tail = (held.head + held.tail)[-rest:] if rest else b""
    return Part(held.head[:half], tail, held.size - half - len(tail))


def signal_of(returncode: int) -> tuple[str, int]:
    """How a process ended, by its return code as `subprocess` tells it."""
    return (KILLED, -returncode) if returncode < 0 else (EXITED, returncode)
