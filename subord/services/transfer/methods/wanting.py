"""The suspend, resume and terminate methods: they tell the agent what is wanted of a job.

Inputs are the environment of the method, and the number of the job's process. Grid Engine runs the terminate method
every two seconds until the process has ended, so that method waits for that end for a while.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from subord.services.transfer.jobs import Wanted
from subord.services.transfer.local import DONE, Want
from subord.services.transfer.methods.asking import AgentError, ask, complain, refusal
from subord.services.transfer.methods.which import job_in

WANTED: Final = {"suspend": Wanted.SUSPENDED, "resume": Wanted.RUN, "terminate": Wanted.DELETED}
ANSWER_S_MAX: Final = 20.0
TRIES: Final = 3
TRY_S: Final = 2.0
END_S_MAX: Final = 30.0
LOOK_S: Final = 0.5


def want(path: str, method: str, words: Sequence[str]) -> int:
    """`words`: the number of the process of the job, or nothing."""
    try:
        job, task = job_in(os.environ)
    except ValueError as error:
        complain(method, f"{error}: it can only be a method of a queue")
        return 1
    request = Want(job=job, task=task, wanted=WANTED[method])
    for left in reversed(range(TRIES)):
        try:
            answer, connection = ask(path, request, ANSWER_S_MAX)
        except AgentError as error:
            if not left:
                complain(method, f"{error}; the agent learns it from the batch system when it is back")
                return 1
            time.sleep(TRY_S)
            continue
        connection.close()
        if answer.word != DONE:
            complain(method, refusal(answer))
            return 1
        break
    if method == "terminate" and words and words[0].isdigit():
        _await_end(int(words[0]))
    return 0


def _await_end(pid: int) -> None:
    deadline = time.monotonic() + END_S_MAX
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(LOOK_S)
