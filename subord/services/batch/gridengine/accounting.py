"""`qacct -j -b TIME`: the jobs that have ended.

Input is its text, in UTC; output are records in the order of their ends. qacct writes an entry for each run of a job:
a run after which the job was queued again is left out, and those of the processes of a parallel job count as one.
"""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator
from typing import Final

from subord.services.batch.faults import AnswerError
from subord.services.batch.records import Finished

LONGEST_S: Final = 86_400.0
"""qacct selects by the start, so it is asked for jobs that have started so long before."""
_LINE: Final = re.compile(r"^=+[ \t]*$", re.MULTILINE)
_FIELD: Final = re.compile(r"^(\w+)[ \t]+(.*?)[ \t]*$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\d+")
_NEEDED: Final = ("jobnumber", "taskid", "qsub_time", "end_time", "slots", "failed", "exit_status")
_AGAIN: Final = frozenset({24, 25})
"""It migrates, or is rescheduled."""
_SIGNALS: Final = 128


def words_for(since: float) -> tuple[str, ...]:
    """qacct takes no seconds."""
    begin = time.strftime("%Y%m%d%H%M", time.gmtime(max(0.0, since - LONGEST_S)))
    return ("qacct", "-j", "-b", begin)


def finished_in(text: str) -> list[Finished]:
    """The begin may be missing: what stands before the first line of signs is left out. Raises AnswerError."""
    found: dict[tuple[str, int | None], Finished] = {}
    for part in _LINE.split(text)[1:]:
        fields = dict(_FIELD.findall(part))
        if "jobnumber" not in fields:  # the sums at the end
            continue
        try:
            for each in _finished(fields):
                before = found.get((each.id, each.task))
                if before is None or each.ended >= before.ended:
                    found[each.id, each.task] = each
        except (ValueError, KeyError) as error:
            raise AnswerError(f"job {fields['jobnumber']!r}: {error}") from None
    return sorted(found.values(), key=lambda each: each.ended)


def _finished(fields: dict[str, str]) -> Iterator[Finished]:
    """None for a run that was not the last one. Raises ValueError, KeyError."""
    if missing := [each for each in _NEEDED if each not in fields]:
        raise ValueError(f"no {missing[0]}")
    ended = _seconds(fields["end_time"])
    if ended is None or _first_number(fields["failed"]) in _AGAIN:
        return
    submitted = _seconds(fields["qsub_time"])
    status = _first_number(fields["exit_status"])
    yield Finished(
        id=fields["jobnumber"],
        task=None if fields["taskid"] == "undefined" else int(fields["taskid"]),
        owner=fields.get("owner", ""),
        queue=fields.get("qname", ""),
        host=fields.get("hostname", ""),
        slots=int(fields["slots"]),
        submitted=ended if submitted is None else submitted,
        started=_seconds(fields.get("start_time", "")),
        ended=ended,
        status=status,
        signal=status - _SIGNALS if status > _SIGNALS else 0,
    )


def _first_number(text: str) -> int:
    """`100 : assumedly after job`, `137                  (Killed)`. Raises ValueError."""
    found = _NUMBER.match(text)
    if found is None:
        raise ValueError(f"{text!r} does not begin with a number")
    return int(found[0])


def _seconds(text: str) -> float | None:
    """None: it never was. Raises ValueError."""
    if not text or text.startswith("-") or text == "undefined":
        return None
    return float(calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y")))
