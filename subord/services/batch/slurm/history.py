"""`sacct`: the jobs that have ended, where slurmdbd keeps accounts.

Input is its text; output are records in the order of their ends. The names of jobs, which users choose, are not asked
for.
"""

from __future__ import annotations

import re
import time
from typing import Final

from subord.services.batch.faults import AnswerError
from subord.services.batch.records import Finished
from subord.services.batch.slurm.queue import ENDED

FIELDS: Final = ("JobID", "User", "Partition", "NodeList", "AllocCPUS", "Submit", "Start", "End", "ExitCode")
_FIRST: Final = re.compile(r"([^,\[]*)(?:\[(\d+))?")
_STATES: Final = ",".join(ENDED)


def words_for(since: float, now: float) -> tuple[str, ...]:
    """sacct takes no begin after its end."""
    begin = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(max(0.0, min(since, now - 1))))
    return (
        *("sacct", "--allusers", "--allocations", "--noheader", "--parsable2", f"--starttime={begin}"),
        *("--endtime=now", f"--state={_STATES}", f"--format={','.join(FIELDS)}"),
    )


def finished_in(text: str, *, is_cut: bool = False) -> list[Finished]:
    """With SLURM_TIME_FORMAT=%s. `is_cut`: the begin is missing, so the first line may not be whole. Raises
    AnswerError."""
    lines = text.splitlines()[1 if is_cut else 0 :]
    found = (_finished(line) for line in lines if line)
    return sorted((each for each in found if each is not None), key=lambda each: each.ended)


def _finished(line: str) -> Finished | None:
    """None: it has no end. Raises AnswerError."""
    try:
        number, owner, partition, nodes, slots, submit, start, end, exit_code = line.split("|")
        job, _, task = number.partition("_")
        if not end.isdigit():
            return None
        status, _, signal = exit_code.partition(":")
        has_run = start.isdigit() and nodes != "None assigned"
        return Finished(
            id=job,
            task=int(task) if task.isdigit() else None,
            owner=owner,
            queue=partition,
            host=first_of(nodes) if has_run else "",
            slots=int(slots) or 1,
            submitted=float(submit),
            started=float(start) if has_run else None,
            ended=float(end),
            status=128 + int(signal) if int(signal) else int(status),
            signal=int(signal),
        )
    except ValueError as error:
        raise AnswerError(f"{line[:200]!r}: {error}") from None


def first_of(nodes: str) -> str:
    """The first node of a list such as `h[1-2,7]`."""
    found = _FIRST.match(nodes)
    return "".join(filter(None, found.groups())) if found else nodes
