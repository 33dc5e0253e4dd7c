"""How many foreign jobs a cell has had at once, from the report of its qmaster. Pure.

Inputs are lines of the report, which the qmaster writes in the order in which it changes jobs; outputs are the most
at any moment between two lines. Nothing is sampled, so no moment is missed. Invariant: a job counts from its
submission until the scheduler has deleted it, which is when qstat does not show it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

MARK: Final = "sb."
"""The account of a job of another cluster begins so."""
_EVENT, _JOB, _BY, _ACCOUNT, _FIELDS = 3, 4, 8, 18, 20


class Most(NamedTuple):
    """`present`: foreign jobs in any state. `waiting`: those that have not been sent to a host. `all`: that have
    come."""

    present: int = 0
    waiting: int = 0
    all: int = 0


def most_of(lines: Iterable[str]) -> Most:
    """Of lines of sge_reporting(5), with jobs of one task each."""
    waiting, present, known = set[str](), set[str](), set[str]()
    most = Most()
    for line in lines:
        words = line.split(":", _FIELDS - 1)
        if len(words) < _FIELDS or words[1] != "job_log" or not words[_ACCOUNT].startswith(MARK):
            continue
        event, job = words[_EVENT], words[_JOB]
        if event == "pending":
            present.add(job)
            known.add(job)
            waiting.add(job)
        elif event == "sent":
            waiting.discard(job)
        elif event == "deleted" and (words[_BY] == "scheduler" or job in waiting):
            present.discard(job)
            waiting.discard(job)
        most = Most(max(most.present, len(present)), max(most.waiting, len(waiting)), len(known))
    return most
