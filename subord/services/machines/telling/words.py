"""What a node is asked about machines, and what it says, on the wire.

Structs of runtime/machines/state.py travel as they are; a node leaves out what has no room. Times are seconds since
1970 by the clock of the node. Invariant: what is decoded is within its bounds, so it can be shown.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.runtime.machines.state import (
    ACTIONS_MAX,
    COUNT_MAX,
    JOBS_MAX,
    NAME_CHARS_MAX,
    TEXT_CHARS_MAX,
    Action,
    JobState,
    ServerState,
    State,
)
from subord.services.decoding import Reader, reader

SERVICE: Final = "machines"

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=COUNT_MAX)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]


# -- questions; one without a payload is for Told --------------------------------------------------------------------


class AskServer(msgspec.Struct, frozen=True, array_like=True, tag="server"):
    """What is on the server."""


class AskJob(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """Why a job waits."""

    job: _Name


# -- answers --------------------------------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    """How a node takes part. `word`, `detail`, `version`: as in a State. `batch`: of its configuration. `is_server`:
    its configuration names a libvirt. `managing`: only of the queue's node, without its jobs; `now`: its clock then,
    else 0, so that other nodes say the same."""

    word: _Word
    detail: _Text = ""
    version: _Version = 0
    batch: _Name = ""
    is_server: bool = False
    managing: State | None = None
    now: _Seconds = 0.0


class ToldServer(msgspec.Struct, frozen=True, array_like=True, tag="server"):
    """`server`: None: the node is none, or its agent has told nothing; `is_server` then says which."""

    word: _Word
    detail: _Text = ""
    version: _Version = 0
    is_server: bool = False
    server: ServerState | None = None
    now: _Seconds = 0.0


class Place(msgspec.Struct, frozen=True, array_like=True):
    """`number`: of the job among those that wait, from 1."""

    number: _Count
    job: JobState


class ToldJob(msgspec.Struct, frozen=True, array_like=True, tag="job"):
    """`at`: of the last round; 0: there was none. `places`: jobs with this number that wait; `actions`: for them.
    `waiting`: jobs that wait, `left_out`: of which this node knows no reasons. `is_managing`: it is the queue's
    node. `is_unread`: as in a State."""

    word: _Word
    detail: _Text = ""
    version: _Version = 0
    is_managing: bool = False
    now: _Seconds = 0.0
    at: _Seconds = 0.0
    hindrance: _Text = ""
    fault: _Text = ""
    waiting: _Count = 0
    left_out: _Count = 0
    places: Annotated[tuple[Place, ...], msgspec.Meta(max_length=JOBS_MAX)] = ()
    actions: Annotated[tuple[Action, ...], msgspec.Meta(max_length=ACTIONS_MAX)] = ()
    is_unread: bool = False


encode: Final = msgspec.msgpack.Encoder().encode
decode_ask: Reader[AskServer | AskJob] = reader(AskServer | AskJob)
decode_told: Reader[Told] = reader(Told)
decode_server: Reader[ToldServer] = reader(ToldServer)
decode_job: Reader[ToldJob] = reader(ToldJob)
