"""The two messages that clusters exchange: from home, and the answer from away; all jobs in one of each.

Both are bounded; what does not fit goes with the next one. `number` grows with each message of a `life`, and `life`
with each start of the process, so an older message that arrives late is known as such. Times are never sent, only how
long something holds or how old it is. Inputs and outputs are bytes; ExchangeError says what is wrong with those of
the other side.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec

from subord.core.decoding import UNREADABLE
from subord.services.transfer.cells.interface import Being
from subord.services.transfer.jobs import REASON_MAX, ClusterName, End, Key, Spec, Wanted
from subord.services.transfer.permits import PERMITS_MAX

ENTRIES_MAX: Final = 1000
"""Jobs that one message says something of."""
SPECS_BYTES_MAX: Final = 4 << 20
"""Of what the jobs of one message need."""
MESSAGE_BYTES_MAX: Final = 8 << 20
RELEASE: Final = 1
"""Of these messages. A side that hears of a higher one answers by its own."""

_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Keys = Annotated[tuple[Key, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
_Numbers = Annotated[tuple[_Number, ...], msgspec.Meta(max_length=PERMITS_MAX)]
_Reason = Annotated[str, msgspec.Meta(max_length=REASON_MAX)]


class ExchangeError(Exception):
    """The other side has sent what cannot be read."""


class Submit(msgspec.Struct, frozen=True, array_like=True):
    """A job that comes. It is sent once; whether it has arrived is asked by Care. `permit`: of the life that the
    message is for."""

    key: Key
    permit: _Number
    wanted: Wanted
    spec: Spec


class Care(msgspec.Struct, frozen=True, array_like=True):
    """A job that home has, or may have, at the other side, and what it wants of it. `life`: of the other side when
    the job was sent for the first time; 0: it is not known. `is_abroad`: the other side has said that it has it.
    `was_stopped`: home has wanted it suspended before."""

    key: Key
    wanted: Wanted
    life: _Number
    is_abroad: bool
    was_stopped: bool = False


class Stage(StrEnum):
    """What the away side knows of a job."""

    TAKEN = "taken"
    """It is going to be submitted."""
    HERE = "here"
    """It was submitted, and has a number in the batch system."""
    SOUGHT = "sought"
    """It may be here: it is looked for in the batch system."""
    ABSENT = "absent"
    """It is not here, and may be sent."""
    ENDED = "ended"
    GONE = "gone"
    """It has not run here, and never will."""
    UNKNOWN = "unknown"
    """It was here, and may have run; how it ended is not known. It is not run again."""

    @property
    def is_final(self) -> bool:
        return self in (Stage.ENDED, Stage.GONE, Stage.UNKNOWN)


class State(msgspec.Struct, frozen=True, array_like=True):
    """Of a job at the away side. `id`: of its batch system, "": none yet. `being`: as it was seen last."""

    key: Key
    stage: Stage
    wanted: Wanted
    id: Annotated[str, msgspec.Meta(max_length=64)] = ""
    being: Being | None = None
    reason: _Reason = ""
    end: End | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """From home. `to`: the other cluster; `to_life`: of its process, 0: not known. `heard`: the number of the last
    change of that life that this side has on its disk. `permits`: how many it wants. `holds`: those that it has and
    has not used. `forgets`: jobs whose end is told at home. `written`: see Answer; of the other side, as it was heard
    last."""

    release: int = RELEASE
    cluster: ClusterName
    to: ClusterName
    life: _Number
    number: _Number
    to_life: _Number = 0
    heard: _Number = 0
    written: _Number = 0
    permits: _Number = 0
    holds: _Numbers = ()
    submits: Annotated[tuple[Submit, ...], msgspec.Meta(max_length=ENTRIES_MAX)] = ()
    cares: Annotated[tuple[Care, ...], msgspec.Meta(max_length=ENTRIES_MAX)] = ()
    forgets: _Keys = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """From away, to the message of this `home_life` and `number`. `written`: how often this side has written its
    records, so that a copy of them that was restored is known. `states`: those that changed, up to the change
    `changed`; `is_more`: there are others. `forgotten`: of those to be forgotten. `pending`: jobs that wait in this
    cell, `pending_age_s` ago; None: not known. `offer`: for how many more there is room. `files_bytes_max`: what a
    job may bring along; 0: nothing, also if the release is an earlier one. `refused`: why the message
    was not heeded, "": it was."""

    release: int = RELEASE
    cluster: ClusterName
    life: _Number
    home_life: _Number
    number: _Number
    written: _Number = 0
    offer: _Number = 0
    pending: _Number | None = None
    pending_age_s: float = 0.0
    files_bytes_max: _Number = 0
    grants: _Numbers = ()
    lease_s: float = 0.0
    states: Annotated[tuple[State, ...], msgspec.Meta(max_length=2 * ENTRIES_MAX)] = ()
    changed: _Number = 0
    is_more: bool = False
    forgotten: _Keys = ()
    refused: _Reason = ""
    newest: _Number = 0
    """The latest life of home that is known."""


_message = msgspec.msgpack.Decoder(Message)
_answer = msgspec.msgpack.Decoder(Answer)


def encode(what: Message | Answer) -> bytes:
    return msgspec.msgpack.encode(what)


def decode_message(body: bytes) -> Message:
    """Raises ExchangeError."""
    _check_size(body)
    try:
        return _message.decode(body)
    except UNREADABLE as error:
        raise ExchangeError(f"the other cluster has sent a message that cannot be read: {error}") from None


def decode_answer(body: bytes) -> Answer:
    """Raises ExchangeError."""
    _check_size(body)
    try:
        return _answer.decode(body)
    except UNREADABLE as error:
        raise ExchangeError(f"the other cluster has sent an answer that cannot be read: {error}") from None


def _check_size(body: bytes) -> None:
    if len(body) > MESSAGE_BYTES_MAX:
        raise ExchangeError(f"the other cluster has sent {len(body)} of at most {MESSAGE_BYTES_MAX} bytes")
