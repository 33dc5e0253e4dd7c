"""How foreign jobs ended: the lines of the accounting file that have their marks (accounting(5)).

Inputs are marks, and the lines; outputs are ends. qacct would read as much for each single job. A job has a line for
each run: one after which it was queued again is no end. Grid Engine writes lines some seconds late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from subord.services.batch.faults import AnswerError
from subord.services.transfer.cells.interface import Ended, Sought
from subord.services.transfer.jobs import SIGNAL_MAX, STATUS_MAX, End, Usage

ROOT: Final = "/var/lib/gridengine"
"""Of Debian's packages."""
_QUEUE_AGAIN: Final = frozenset({24, 25})
"""It migrates, or is rescheduled."""
_AFTER_JOB: Final = 100
_SIGNALS: Final = 128
_FIELDS_MIN: Final = 45
_HOST, _OWNER, _NUMBER, _ACCOUNT = 1, 3, 5, 6
_SUBMITTED, _STARTED, _ENDED, _FAILED, _STATUS, _WALL = 8, 9, 10, 11, 12, 13
_USER, _SYSTEM, _RESIDENT = 14, 15, 16
_CPU: Final = 36
_PROCESS, _MEMORY = -4, -3
"""From the end: the requests before them may have colons."""
_WORDS: Final = {
    19: "before writing exit_status",
    21: "in recognizing job",
    28: "changing into working directory",
    29: "executing script",
    30: "rescheduling on application error",
    37: "qmaster enforced a limit",
    44: "execd enforced a limit",
}


def path_of(environment: Mapping[str, str]) -> str:
    """Of the accounting file of a cell."""
    return f"{environment.get('SGE_ROOT', ROOT)}/{environment.get('SGE_CELL', 'default')}/common/accounting"


def words_for(path: str, jobs: Iterable[Sought]) -> tuple[tuple[str, ...], bytes]:
    """The command that finds their lines, and what it is given. It ends with 1 if there are none."""
    marks = "".join(f":{mark}:\n" for mark in sorted({each.mark for each in jobs}))
    return ("grep", "--text", "-F", "-f", "/dev/stdin", path), marks.encode()


def ended_in(text: str, jobs: Iterable[Sought]) -> list[Ended]:
    """The last end of each job that was sought. A line that is not whole, as that of a qmaster that was killed, is no
    end; where none is whole, AnswerError is raised."""
    sought: dict[str, set[str]] = {}
    for each in jobs:
        sought.setdefault(each.mark, set()).add(each.id)
    found: dict[tuple[str, str], Ended] = {}
    damaged, whole = "", 0
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        try:
            ended = _ended(line)
        except (ValueError, OverflowError) as error:
            damaged = f"{line[:200]!r}: {error}"
            continue
        whole += 1
        if ended is not None and sought.get(ended.mark, set()) & {ended.id, ""}:
            found[ended.mark, ended.id] = ended
    if damaged and not whole:
        raise AnswerError(f"the line {damaged}")
    return list(found.values())


def _ended(line: str) -> Ended | None:
    """None: no end, or that of a process of a parallel job. Raises ValueError and OverflowError."""
    fields = line.split(":")
    if len(fields) < _FIELDS_MIN:
        raise ValueError(f"it has {len(fields)} fields")
    failed = int(fields[_FAILED])
    if fields[_PROCESS] != "NONE" or failed in _QUEUE_AGAIN or int(fields[_ENDED]) == 0:
        return None
    status = min(max(int(fields[_STATUS]), 0), STATUS_MAX)
    is_signal = failed == _AFTER_JOB and _SIGNALS < status <= _SIGNALS + SIGNAL_MAX
    end = End(
        status=status,
        signal=status - _SIGNALS if is_signal else 0,
        failed=_failed(fields, failed),
        usage=_usage(fields),
    )
    return Ended(fields[_ACCOUNT], fields[_NUMBER], end, int(fields[_STARTED]) > 0, fields[_OWNER])


def _failed(fields: list[str], failed: int) -> str:
    """Raises ValueError."""
    if failed not in (0, _AFTER_JOB):
        return f"failed {failed}: {_WORDS.get(failed, 'see accounting(5)')}"
    if not any(float(fields[each]) for each in (_USER, _SYSTEM, _RESIDENT, _CPU)):
        return "it was deleted by force, so how it ended is not known"  # its status is 0 then
    return ""


def _usage(fields: list[str]) -> Usage:
    """Raises ValueError, and OverflowError for infinity."""
    return Usage(
        host=fields[_HOST],
        submitted=float(fields[_SUBMITTED]) or None,
        started=float(fields[_STARTED]) or None,
        ended=float(fields[_ENDED]),
        wall_s=float(fields[_WALL]),
        cpu_s=float(fields[_CPU]),
        memory_bytes=int(float(fields[_MEMORY])),
    )
