"""The starter method: hands a job to the agent, and ends as the job has ended elsewhere.

Inputs are the words with which the batch system would start the job, and its environment. The process becomes a shell
that waits for the last line of the agent: it ends with the same status, or by the same signal, or with 99, so that
the batch system queues the job again. Invariants: after a request that the agent may have taken, the method never
gives up by itself, because the job may run elsewhere; when the agent has gone, it asks again, and the agent knows the
job.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from subord.services.transfer.local import (
    ACCEPTED,
    AGAIN,
    ERROR,
    EXIT,
    SENT,
    SIGNAL,
    STATUS_AGAIN,
    STATUS_ERROR,
    Start,
)
from subord.services.transfer.methods.asked import STATE, State, state_in
from subord.services.transfer.methods.asking import AgentError, ask, complain, refusal
from subord.services.transfer.methods.of_slurm import is_of_slurm
from subord.services.transfer.methods.of_slurm import request_of as request_of_slurm
from subord.services.transfer.methods.scripts import script_in
from subord.services.transfer.methods.which import job_in

METHOD: Final = "start"
SCRIPTS: Final = "job_scripts"
"""Where execd has copies of the scripts of jobs."""
UNSENT_S_MAX: Final = 60.0
"""Without an agent, for so long; then the batch system starts the job again."""
TRY_S: Final = 2.0
ANSWER_S_MAX: Final = 120.0
PAUSE_FIRST, PAUSE_MAX = 2, 32
SLEEP: Final = "PATH=/usr/bin:/bin sleep"
WAIT: Final = f"""\
ulimit -c 0
attempt=$1 sent=$2 pause=$3 stays=$4
shift 4
while read -r word number <&3; do
  case $word in
  {SENT}) sent=1 ;;
  {EXIT}) exit "$number" ;;
  {AGAIN}) [ "$stays" = 1 ] && break; exit {STATUS_AGAIN} ;;
  {ERROR}) [ "$stays" = 1 ] && break; exit {STATUS_ERROR} ;;
  {SIGNAL}) kill -"$number" $$; exit $((128 + number)) ;;
  esac
done
exec 3<&-
{SLEEP} "$pause"
until [ -x "$1" ]; do {SLEEP} {PAUSE_FIRST}; done
{STATE}="$$ $attempt $sent $pause"
export {STATE}
trap 'exit {STATUS_ERROR}' 0
exec "$@"
"""
"""A shell that waits for days needs a twentieth of the memory of an interpreter. While the interpreter is replaced it
waits on. The PATH of the job is not its own."""


def start(path: str, words: Sequence[str]) -> int:
    """The exit status, if the process does not become the shell that waits."""
    state = state_in(os.environ.get(STATE, ""))
    is_slurm = is_of_slurm(words, os.environ)
    try:
        request = (request_of_slurm if is_slurm else request_of)(words, os.environ, state)
    except ValueError as error:
        complain(METHOD, f"{error}: it can only be the starter method of a queue")
        return STATUS_ERROR
    begin = time.monotonic()
    while True:
        try:
            answer, connection = ask(path, request, ANSWER_S_MAX)
        except AgentError as error:
            if error.was_sent or state is not None or is_slurm:
                _become_waiter(None, _later(state), stays=is_slurm)
            if time.monotonic() - begin > UNSENT_S_MAX:
                complain(METHOD, f"{error}; the job is queued again")
                return STATUS_AGAIN
            time.sleep(TRY_S)
            continue
        if answer.word == ACCEPTED:
            connection.settimeout(None)
            _become_waiter(connection, State(answer.number, request.was_sent, PAUSE_FIRST), stays=is_slurm)
        connection.close()
        if is_slurm and answer.word == EXIT:
            return answer.number
        if is_slurm:
            complain(METHOD, f"{refusal(answer)}; it asks again")
            _become_waiter(None, _later(state), stays=True)
        if answer.word == AGAIN:
            return STATUS_AGAIN
        complain(METHOD, refusal(answer))
        return STATUS_ERROR


def request_of(words: Sequence[str], environment: Mapping[str, str], state: State | None) -> Start:
    """Raises ValueError."""
    job, task = job_in(environment)
    text, obstacle = _script(words[0] if words else "", job)
    paths = [environment.get(name, "") for name in ("SGE_STDOUT_PATH", "SGE_STDERR_PATH")]
    if not all(map(_is_utf_8, paths)):
        paths, obstacle = ["", ""], "the path of its output is no text in UTF-8"
    slots = environment.get("NSLOTS", "1")
    return Start(
        job=job,
        task=task,
        queue=environment.get("QUEUE", ""),
        attempt=state.attempt if state else 0,
        was_sent=state is not None and state.was_sent,
        may_have_run=environment.get("RESTARTED", "0") != "0",
        script=text,
        output=paths[0],
        errors=paths[1],
        slots=int(slots) if slots.isdigit() else 1,
        obstacle=obstacle,
    )


def _is_utf_8(text: str) -> bool:
    """Python reads other bytes of the environment as halves of surrogate pairs."""
    return not any("\udc80" <= each <= "\udcff" for each in text)


def _script(first: str, job: str) -> tuple[str, str]:
    """The text of the script, and what is wrong with it."""
    path = Path(first)
    if path.parent.name != SCRIPTS or path.name != job:
        return "", ""
    return script_in(path)


def _later(state: State | None) -> State:
    return State(0, False, PAUSE_FIRST) if state is None else state._replace(pause=min(2 * state.pause, PAUSE_MAX))


def _become_waiter(connection: socket.socket | None, state: State, *, stays: bool) -> None:
    """Does not return. `stays`: the batch system ends it when the job is to go back, whatever the agent has said: its
    own end would be that of the job."""
    source = os.open(os.devnull, os.O_RDONLY) if connection is None else connection.detach()
    if source != 3:
        os.dup2(source, 3)
        os.close(source)
    os.set_inheritable(3, True)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) == signal.SIG_IGN:  # a shell could not end by it
            signal.signal(number, signal.SIG_DFL)
    known = [str(state.attempt), str(int(state.was_sent)), str(state.pause), str(int(stays))]
    words = [*known, sys.executable, *sys.orig_argv[1:]]
    os.execv("/bin/sh", ["sh", "-c", WAIT, "sh", *words])  # noqa: S606
