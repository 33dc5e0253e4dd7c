"""`qstat -u '*' -f -r -xml`: all jobs that have not ended.

Input is its text, in UTC, and the jobs that wait for a time (`qstat -s ha`); output are records. A parallel job is
named once for each queue instance where it has slots, so its records are put together.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Container, Iterator
from typing import Final
from xml.etree.ElementTree import Element

from subord.services.batch.arrays import Expansion, ranges_of
from subord.services.batch.faults import AnswerError
from subord.services.batch.gridengine.xml import elements, text_in
from subord.services.batch.records import Job, JobState, Place

WORDS: Final = ("qstat", "-u", "*", "-f", "-r", "-xml")
WAITING_WORDS: Final = ("qstat", "-u", "*", "-s", "ha", "-xml")
"""qstat writes `qw` for a job that was submitted with `-a TIME`, too."""
_LETTERS: Final = frozenset("acdehorqstuwzAEPRSTW")
_TIME: Final = "%Y-%m-%dT%H:%M:%S"


def ids_in(text: str) -> frozenset[str]:
    """Of the jobs of an answer. Raises AnswerError."""
    return frozenset(text_in(each, "JB_job_number") for each in elements(text, "job_list"))


def waiting(jobs: list[Job], ids: Container[str]) -> list[Job]:
    """With those held that wait for a time."""
    return [
        job._replace(state=JobState.HELD) if job.state == JobState.QUEUED and job.id in ids else job for job in jobs
    ]


def jobs_in(text: str, expansion: Expansion | None = None) -> list[Job]:
    """Raises AnswerError."""
    expansion = expansion or Expansion()
    started: dict[tuple[str, int | None], Job] = {}
    pending: list[Job] = []
    for instance, element in _listed(text):
        try:
            for job in _records(element, instance, expansion):
                if job.occupies:
                    before = started.get((job.id, job.task))
                    started[job.id, job.task] = job if before is None else _joined(before, job)
                else:
                    pending.append(job)
        except ValueError as error:
            raise AnswerError(f"job {text_in(element, 'JB_job_number')!r}: {error}") from None
    return [*started.values(), *pending]


def _listed(text: str) -> Iterator[tuple[str, Element]]:
    """Each job, and the queue instance where it has slots, or "" before it has started."""
    instance = ""
    for element in elements(text, "name", "job_list", "Queue-List"):
        if element.tag == "job_list":
            yield instance, element
        else:  # a list of jobs follows the name of its instance
            instance = (element.text or "").strip() if element.tag == "name" else ""


def _records(element: Element, instance: str, expansion: Expansion) -> Iterator[Job]:
    """Raises ValueError."""
    job = _job(element, instance)
    tasks = text_in(element, "tasks")
    return expansion.jobs(job, ranges_of(tasks)) if tasks else iter((job,))


def _job(element: Element, instance: str) -> Job:
    """Raises ValueError."""
    word, number = text_in(element, "state"), text_in(element, "JB_job_number")
    if not number.isdigit():
        raise ValueError("no job number")
    queue, _, host = instance.partition("@")
    slots = int(text_in(element, "slots"))
    return Job(
        id=number,
        task=None,
        owner=text_in(element, "JB_owner"),
        name=text_in(element, "full_job_name") or text_in(element, "JB_name"),
        state=state_of(word),
        word=word,
        slots=slots,
        submitted=_seconds(text_in(element, "JB_submission_time")),
        started=_seconds(text_in(element, "JAT_start_time")),
        queue=queue,
        queues=tuple((each.text or "").strip() for each in element.findall("hard_req_queue")),
        places=(Place(host, slots),) if host else (),
        requests=tuple(_requests(element)),
    )


def _requests(element: Element) -> Iterator[tuple[str, str]]:
    """Resources, and parallel environments as `pe NAME`."""
    for each in element.findall("hard_request"):
        yield each.get("name", ""), (each.text or "").strip()
    for each in element.findall("requested_pe"):
        yield f"pe {each.get('name', '')}", (each.text or "").strip()


def _joined(before: Job, after: Job) -> Job:
    """Two queue instances of one job. Two of them may be on one host."""
    slots: dict[str, int] = {}
    for place in (*before.places, *after.places):
        slots[place.host] = slots.get(place.host, 0) + place.slots
    places = tuple(Place(host, number) for host, number in slots.items())
    return before._replace(slots=before.slots + after.slots, places=places)


def state_of(word: str) -> JobState:
    """The meaning of the letters of qstat. Those of one that waits are for example `qw`, `hqw`, `Eqw` and `Rq`, of
    one that has started `r`, `t`, `Rr`, `s`, `dr`."""
    letters = set(word)
    if not letters or not letters <= _LETTERS:
        return JobState.OTHER
    if "q" in letters:
        return JobState.ERROR if "E" in letters else JobState.HELD if "h" in letters else JobState.QUEUED
    if "d" in letters:
        return JobState.ENDING
    if letters & set("sST"):
        return JobState.SUSPENDED
    if "E" in letters:
        return JobState.ERROR
    return JobState.RUNNING if letters & set("rt") else JobState.OTHER


def _seconds(text: str) -> float | None:
    """Raises ValueError."""
    return float(calendar.timegm(time.strptime(text, _TIME))) if text else None
