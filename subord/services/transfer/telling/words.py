"""What a node says of transfer queues, on the wire.

Times are seconds since 1970 by the clock of the node. Invariant: what is decoded is within its bounds, so it can be
shown.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from subord.core.carriage.engine.causes import WORD_CHARS_MAX
from subord.runtime.transfer.state import JOBS_MAX, TEXT_CHARS_MAX, JobState, State
from subord.services.decoding import Reader, reader

SERVICE: Final = "transfer"
JOBS: Final = b"jobs"
"""The payload of a question for the jobs that cross now."""
OVER: Final = b"over"
"""For these, and those that have ended lately."""
JOB_FORM: Final = r"[A-Za-z0-9]{1,20}"
"""The number of a job in a batch system."""
_JOB: Final = re.compile(rf"job ({JOB_FORM})", re.ASCII)

_Version = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_Word = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class Told(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a node. `word`: of runtime/transfer/state.py. `version`: of the plan. `batch`: of its
    configuration. `now`, `host`: only of a transfer host: its clock, and its State, with jobs if they were asked
    for."""

    word: _Word
    detail: _Text = ""
    version: _Version = 0
    batch: _Text = ""
    now: float = 0.0
    host: State | None = None
    jobs: Annotated[tuple[JobState, ...], msgspec.Meta(max_length=JOBS_MAX)] = ()


encode: Final = msgspec.msgpack.Encoder().encode
decode_told: Reader[Told] = reader(Told)


def payload_for(job: str) -> bytes:
    """Of a question for one job, which may be over."""
    return f"job {job}".encode()


def job_in(payload: bytes) -> str:
    """The number of the job that it asks for; "": for none."""
    found = _JOB.fullmatch(payload.decode(errors="replace"))
    return "" if found is None else found[1]
