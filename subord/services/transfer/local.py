"""What the methods of a transfer queue and the agent say to each other, over a Unix socket of this host.

A method sends one request, a line of JSON. The kernel tells the agent whose process it is (answering.py). The answers
are lines of a word and a number, which a shell can read, because the method of a job that waits is one: a job abroad
costs no interpreter. Invariants: a request has at most LINE_BYTES_MAX bytes, an answer ANSWER_BYTES_MAX; an attempt
that was told with ACCEPTED is on the disk of the agent.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from subord.services.transfer.jobs import SCRIPT_BYTES_MAX, Pairs, Path, Wanted, Words

LINE_BYTES_MAX: Final = 2 << 20
"""A script in JSON may be some times as long as it is."""
ANSWER_BYTES_MAX: Final = 4096
ACCEPTED: Final = "accepted"
"""Of a start, with the number of the attempt: the agent has the job on its disk. SENT, and its end, follow."""
SENT: Final = "sent"
"""The job may be in the other cluster from now on."""
DONE: Final = "done"
"""The agent has noted what is wanted of a job."""
EXIT, SIGNAL = "exit", "signal"
"""How the job has ended, with a number: its status, or the signal that ended it."""
AGAIN: Final = "again"
"""The batch system is to queue the job again: no other cluster takes it now, or ever."""
ERROR: Final = "error"
"""The job is to be in error until a person has looked at it: how it has ended is not known."""
ENDS: Final = (EXIT, SIGNAL, AGAIN, ERROR)
PENDING: Final = "pending"
"""Of a sensor, with the number that it reports."""
WRONG: Final = "wrong"
"""The request cannot be served. A sentence follows."""
STATUS_AGAIN: Final = 99
"""With which a method ends for AGAIN: Grid Engine queues a job again that ends so."""
STATUS_ERROR: Final = 100
"""And for ERROR, and for a WRONG start: Grid Engine does not start it again before a person has cleared it."""

_Job = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9]{1,20}\Z")]
_Task = Annotated[int, msgspec.Meta(ge=0, lt=10**12)]
_Short = Annotated[str, msgspec.Meta(max_length=256)]


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start", forbid_unknown_fields=True):
    """A job was started in the transfer queue.

    `queue`: where. `attempt`: 0: it is the first request of this start; otherwise what was told with ACCEPTED, by an
    agent or on a connection that has gone. `was_sent`: SENT was told, too. `may_have_run`: the batch system says that
    it has started the job before. `script`: its text, "": it is a program, which the batch system names. `output`,
    `errors`: with all variables replaced, as the batch system at home has opened them; equal: they are one file.
    `slots`: that it has got. `arguments`, `environment`: where the batch system does not tell them.
    `obstacle`: why the method cannot tell all, a sentence without a full stop; "": it can."""

    job: _Job
    task: _Task = 0
    queue: _Short = ""
    attempt: Annotated[int, msgspec.Meta(ge=0, lt=10**16)] = 0
    was_sent: bool = False
    may_have_run: bool = False
    script: Annotated[str, msgspec.Meta(max_length=SCRIPT_BYTES_MAX)] = ""
    output: Path = ""
    errors: Path = ""
    slots: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1
    arguments: Words = ()
    environment: Pairs = ()
    obstacle: Annotated[str, msgspec.Meta(max_length=300)] = ""


class Want(msgspec.Struct, frozen=True, kw_only=True, tag="want", forbid_unknown_fields=True):
    """The batch system wants the job so from now on."""

    job: _Job
    task: _Task = 0
    wanted: Wanted


class Sense(msgspec.Struct, frozen=True, kw_only=True, tag="sense", forbid_unknown_fields=True):
    """What the load sensor is to report."""


Request = Start | Want | Sense


class Answer(NamedTuple):
    """`number`: of ACCEPTED, EXIT, SIGNAL and PENDING. `reason`: of WRONG."""

    word: str
    number: int = 0
    reason: str = ""

    def line(self) -> bytes:
        rest = " ".join(self.reason.split()) if self.word == WRONG else str(self.number)
        return f"{self.word} {rest}".encode()[: ANSWER_BYTES_MAX - 1] + b"\n"


def line_of(request: Request) -> bytes:
    return msgspec.json.encode(request) + b"\n"


def request_in(line: bytes) -> Request:
    """Raises ValueError."""
    request: Request = msgspec.json.decode(line, type=Request)
    return request


def answer_in(line: bytes) -> Answer:
    """Raises ValueError."""
    word, _, rest = line.decode("utf-8", "replace").strip().partition(" ")
    if word == WRONG:
        return Answer(word, reason=rest)
    if word not in (ACCEPTED, SENT, DONE, PENDING, *ENDS):
        raise ValueError(f"{word[:40]!r} is no answer of an agent")
    return Answer(word, int(rest))
