"""Programs that write records of jobs on all nodes, at an even pace, each record until a daemon has accepted it.

Inputs are the control sockets, and how many records there are; output is what the daemons answered. The records of a
request are all kept, or none. A request whose answer was lost may have been kept; its records are given again, as the
ledger demands of a writer that must lose none, and may then be stored twice (docs/protocol/ledger.md). Invariants:
each record has a number of its own, and is the same whenever it is given.

The writers are threads of a process of their own, so that the process which kills daemons has only one thread.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from netlab.common import helper
from netlab.common.json_lines import Lines, Message
from subord.client.daemon import BrokenOffError, SilentError, UnreachableError, change
from subord.client.errors import CommandError
from subord.client.exit_codes import TRY_AGAIN
from subord.services.account.record import JOB, Job, body_of

REQUEST_RECORDS = 50
RETRY_S = 0.5
ANSWER_S_MAX = 30.0
FIRST_S = 1.0
"""From the request to begin until the first record is due."""
ACCEPTED, UNREACHABLE, UNSURE = "accepted", "no daemon answered", "the answer was lost"
USERS, QUEUES = ("ann", "bob", "cid", "dot"), ("short", "long")
GONE = "The process with the writers ended by itself."


class Task(NamedTuple):
    """`sockets`: of the daemons, one writer for each; `per_s`: records a second of all writers together."""

    sockets: Sequence[str]
    records: int
    per_s: float
    request_records: int = REQUEST_RECORDS

    @property
    def writes_s(self) -> float:
        return self.records / self.per_s

    def requests_of(self, writer: int) -> range:
        """By their numbers: the writers take turns."""
        count = -(-self.records // self.request_records)
        return range(writer, count, len(self.sockets))

    def due_s(self, request: int) -> float:
        return request * self.request_records / self.per_s

    def numbers(self, request: int) -> range:
        """Of its records."""
        first = request * self.request_records
        return range(first, min(first + self.request_records, self.records))


def body(numbers: range, ended: float) -> bytes:
    """The request, as `subord account add` makes one. `ended`: when the jobs ended, in seconds since 1970."""
    records = [{"kind": JOB, "body": body_of(job(number, ended), ended).decode()} for number in numbers]
    return json.dumps(records, separators=(",", ":")).encode()


def job(number: int, ended: float) -> Job:
    """With an id that no other record has."""
    return Job(
        id=str(number),
        user=USERS[number % len(USERS)],
        queue=QUEUES[number % len(QUEUES)],
        cluster="lab",
        slots=1 + number % 8,
        started=ended - 60.0 - number % 600,
        ended=ended,
        status=int(number % 20 == 0),
        cpu_user_s=50.0 + number % 500,
    )


def give(socket: str, request: bytes) -> str:
    """What became of it: ACCEPTED, UNREACHABLE, UNSURE, or the sentence with which the daemon keeps none now. Raises
    CommandError when it never will."""
    try:
        change(socket, "/v1/records", ANSWER_S_MAX, body=request)
    except (BrokenOffError, SilentError):
        return UNSURE
    except UnreachableError:
        return UNREACHABLE
    except CommandError as error:
        if error.exit_code != TRY_AGAIN:
            raise
        return str(error)
    return ACCEPTED


@dataclass
class Writing:
    """What the writers have done so far."""

    task: Task
    accepted: int = 0
    last_at: float = 0.0
    """When a record was accepted last, on the clock of `time.monotonic`."""
    writers_left: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that were given again, by what was answered."""
    unsure: set[int] = field(default_factory=set)
    """Requests whose answer was lost."""
    failed: list[str] = field(default_factory=list)
    """Why a writer gave up."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, at: float) -> None:
        """The first record is due at this time."""
        self.writers_left = len(self.task.sockets)
        for writer in range(self.writers_left):
            threading.Thread(target=self._write, args=(writer, at), daemon=True).start()

    def _write(self, writer: int, began: float) -> None:
        try:
            for request in self.task.requests_of(writer):
                time.sleep(max(0.0, began + self.task.due_s(request) - time.monotonic()))
                self._insist(self.task.sockets[writer], request)
        except CommandError as error:
            with self.lock:
                self.failed.append(str(error))
        finally:
            with self.lock:
                self.writers_left -= 1

    def _insist(self, socket: str, request: int) -> None:
        """Give it until it is accepted. Raises CommandError."""
        numbers = self.task.numbers(request)
        text = body(numbers, round(time.time(), 3))
        while (answer := give(socket, text)) != ACCEPTED:
            with self.lock:
                self.refused[answer] += 1
                if answer == UNSURE:
                    self.unsure.add(request)
            time.sleep(RETRY_S)
        with self.lock:
            self.accepted += len(numbers)
            self.last_at = time.monotonic()

    def told(self) -> Message:
        with self.lock:
            return {
                "pid": os.getpid(),
                "accepted": self.accepted,
                "last_at": self.last_at,
                "left": self.writers_left,
                "refused": dict(self.refused),
                "unsure": sorted(self.unsure),
                "failed": self.failed,
            }


class Written(NamedTuple):
    """`unsure`: numbers of records whose answer was lost; `ended_at`: when the last record was accepted."""

    accepted: int
    is_over: bool
    ended_at: float
    refused: Mapping[str, int]
    unsure: frozenset[int]
    failed: Sequence[str]


class Writers:
    """All writers, until the end of a `with` block. The first record is due at `began`."""

    def __init__(self, task: Task) -> None:
        """Raises LabError."""
        self._task = task
        self._process = helper.fork("writers", lambda: _prepared(task), _serve)
        helper.await_ready(self._process, "The writers cannot be started: {}")
        self.began = time.monotonic() + FIRST_S
        self._pid: int = self._ask(begin_at=self.began)["pid"]

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
        os.waitpid(self._pid, 0)

    def look(self) -> Written:
        """Raises LabError when the process is gone."""
        found = self._ask()
        numbers = (number for request in found["unsure"] for number in self._task.numbers(request))
        return Written(
            accepted=found["accepted"],
            is_over=found["left"] == 0,
            ended_at=found["last_at"],
            refused=found["refused"],
            unsure=frozenset(numbers),
            failed=found["failed"],
        )

    def _ask(self, **request: Any) -> Message:
        return helper.ask(self._process, request, GONE)


def _prepared(task: Task) -> Writing:
    """The process that measures may have a higher priority; its writers have that of daemons."""
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
    return Writing(task)


def _serve(writing: Writing, starter: Lines) -> None:
    """In the process of the writers: until the other end is closed, which ends them, too."""
    for request in starter:
        if "begin_at" in request:
            writing.begin(request["begin_at"])
        starter.send(writing.told())
