"""What the queue's node is asked for the page, and what it answers, in MessagePack.

Times are ages, so clocks that differ do no harm. Invariant: what cannot be read is None, never an error: a member may
send anything. The tag is a word, so it is of no other question of the service.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.machines.state import KINDS_MAX, NAME_CHARS_MAX, SERVERS_MAX, TEXT_CHARS_MAX
from subord.services.decoding import Reader, reader

SERVICE: Final = "machines"
WHYS_MAX: Final = 6
"""Different reasons of jobs."""
NOTES_MAX: Final = 6
PARTS_MAX: Final = KINDS_MAX + 2
"""Types of the plan, machines that are not ours, and further types."""

_Number = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]


class AskShown(msgspec.Struct, frozen=True, array_like=True, tag="shown"):
    """The last round, and how full the servers are."""


class SaidAmount(msgspec.Struct, frozen=True, array_like=True):
    """Memory in MiB."""

    cores: _Number = 0
    memory: _Number = 0


class SaidKind(msgspec.Struct, frozen=True, array_like=True):
    """Machines of one type on all servers, as a KindCount. `type` "": those that are not ours."""

    type: _Name
    on: _Number
    off: _Number
    open: _Number
    busy: _Number
    coming: _Number
    left_alone: _Number


class SaidPart(msgspec.Struct, frozen=True, array_like=True):
    """Machines of one type that are on at a server. `kind`: the number of the type in `kinds`, from 0; a larger one:
    further types."""

    kind: _Number
    on: _Number
    cores: _Number
    memory: _Number


class SaidServer(msgspec.Struct, frozen=True, array_like=True):
    """`used`: by all machines that count, also those that are coming and in no part. `is_over`: it is overbooked, by
    cores, memory, disk or slots. `fault`: why it is not reachable; "": it is. `age_s`: of its last answer; None: it
    has never answered, and nothing is known of it."""

    name: _Name
    have: SaidAmount
    used: SaidAmount
    is_over: bool
    is_drained: bool
    fault: _Text
    age_s: _Number | None
    parts: Annotated[tuple[SaidPart, ...], msgspec.Meta(max_length=PARTS_MAX)]


class SaidWhy(msgspec.Struct, frozen=True, array_like=True):
    """`jobs`: that get nothing now, or not all, for this reason."""

    why: _Text
    jobs: _Number


class SaidFigures(msgspec.Struct, frozen=True, array_like=True):
    """Of the last round, `age_s` ago, and of all servers."""

    age_s: _Number
    round: _Number
    waiting: _Number
    unmet: _Number
    running: _Number
    servers: _Number
    unreachable: _Number
    overbooked: _Number
    drained: _Number
    have: SaidAmount
    used: SaidAmount


class SaidShown(msgspec.Struct, frozen=True, array_like=True, tag="shown"):
    """`word`, `detail`: how the node takes part. `figures` None: no round has read the queues. `hindrance`: why
    nothing is decided; `fault`: why the batch system does not answer. `whys`: the most frequent ones first,
    `whys_left_out`: of the jobs. `servers`: those that need an operator first."""

    word: _Word
    detail: _Text
    version: _Number
    is_trial: bool
    figures: SaidFigures | None
    hindrance: _Text
    fault: _Text
    kinds: Annotated[tuple[SaidKind, ...], msgspec.Meta(max_length=KINDS_MAX + 1)]
    whys: Annotated[tuple[SaidWhy, ...], msgspec.Meta(max_length=WHYS_MAX)]
    whys_left_out: _Number
    notes: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=NOTES_MAX)]
    notes_left_out: _Number
    servers: Annotated[tuple[SaidServer, ...], msgspec.Meta(max_length=SERVERS_MAX)]
    servers_left_out: _Number


encode: Final = msgspec.msgpack.Encoder().encode
decode_ask: Reader[AskShown] = reader(AskShown)
decode_said: Reader[SaidShown] = reader(SaidShown)
