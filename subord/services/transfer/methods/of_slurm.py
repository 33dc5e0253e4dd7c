"""What the starter of a transfer partition of Slurm knows: the environment of the job, its script and its files.

Slurm starts the script of the job with a first line before it, which names the starter (TaskProlog, see
services/transfer/cells/slurm/settings.py). Inputs are the words of the starter and its environment; output is a
request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from subord.services.transfer.jobs import PATH_MAX, WORD_MAX, WORDS_MAX
from subord.services.transfer.local import Start
from subord.services.transfer.methods.asked import STATE, State
from subord.services.transfer.methods.scripts import script_in

SCRIPT: Final = "slurm_script"
"""How slurmd calls the script of each job."""
SAVED: Final = "SUBORD_JOB_"
"""Before the names of variables that the interpreter of the starter is not to have."""
BYTES_MAX: Final = 512 * 1024
"""Of arguments and environment: more has no room in the description of a job."""
_OF_SLURM: Final = ("SLURM", "SBATCH_", SAVED)
_OF_THE_HOST: Final = frozenset({"ENVIRONMENT", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", STATE})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)


def is_of_slurm(words: Sequence[str], environment: Mapping[str, str]) -> bool:
    return bool(words) and Path(words[0]).name == SCRIPT and "SLURM_JOB_ID" in environment


def request_of(words: Sequence[str], environment: Mapping[str, str], state: State | None) -> Start:
    """Raises ValueError."""
    task = environment.get("SLURM_ARRAY_TASK_ID", "")
    job = environment.get("SLURM_ARRAY_JOB_ID" if task else "SLURM_JOB_ID", "")
    if not job.isdigit():
        raise ValueError("there is no number of a job in the environment")
    text, obstacle = script_in(Path(words[0]), skips_line=True)
    output, errors = _path(1), _path(2)
    pairs, arguments = tuple(_variables(environment)), tuple(words[1:])
    obstacle = obstacle or _obstacle(task, pairs, arguments)
    if output is None or errors is None:
        obstacle = obstacle or "the files of its output are not such as another host may open"
    known = Start(
        job=job,
        task=int(task) if task.isdigit() else 0,
        queue=environment.get("SLURM_JOB_PARTITION", ""),
        attempt=state.attempt if state else 0,
        was_sent=state is not None and state.was_sent,
        may_have_run=environment.get("SLURM_RESTART_COUNT", "0") != "0",
        slots=_slots(environment),
        obstacle=obstacle,
    )
    if obstacle:
        return known
    return msgspec.structs.replace(
        known,
        script=text,
        output=output or "",
        errors="" if output == errors else errors or "",
        arguments=arguments,
        environment=pairs,
    )


def _obstacle(task: str, pairs: Sequence[tuple[str, str]], arguments: Sequence[str]) -> str:
    """Why it cannot be told of; "": it can."""
    if task == "0":
        return "it is task 0 of an array, which no other cluster can be told of"
    texts = [*arguments, *(each for pair in pairs for each in pair)]
    is_large = any(len(each) > WORD_MAX for each in texts) or sum(map(len, texts)) > BYTES_MAX
    if is_large or len(pairs) > WORDS_MAX or len(arguments) > WORDS_MAX:
        return "its arguments and its environment have no room in a message"
    return "" if all(map(_is_utf_8, texts)) else "its arguments or its environment are no text in UTF-8"


def _slots(environment: Mapping[str, str]) -> int:
    """Tasks: each may have several processors."""
    tasks = environment.get("SLURM_NTASKS", "1")
    return max(1, int(tasks)) if tasks.isdigit() else 1


def _is_utf_8(text: str) -> bool:
    """Python reads other bytes as halves of surrogate pairs."""
    return not any("\udc80" <= each <= "\udcff" for each in text)


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name.startswith(SAVED):
            yield name.removeprefix(SAVED), value
        elif _NAME.fullmatch(name) and not name.startswith(_OF_SLURM) and name not in _OF_THE_HOST:
            yield name, value


def _path(number: int) -> str | None:
    """Of an open file; None: it is none that another host may have."""
    try:
        path = os.readlink(f"/proc/self/fd/{number}")
        is_there = os.path.samestat(os.fstat(number), os.stat(path))
    except OSError:
        return None
    return path if is_there and path.startswith("/") and len(path) <= PATH_MAX and _is_utf_8(path) else None
