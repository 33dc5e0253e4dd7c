"""`subord transfer jobs`: the jobs that cross, in both directions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.services.asking import asked_root, shown_coverage
from subord.services.following import wrapped
from subord.services.transfer.commands.layout import heading, is_in_force

HEAD: Final = ("way", "job", "user", "state", "there", "seen as", "since")


def run(arguments: argparse.Namespace) -> int:
    """Prints a table, and the coverage. Raises CommandError."""
    found = asked_root(arguments, "transfer/jobs", _query(arguments))
    found["jobs"] = [each for each in found["jobs"] if _is_wanted(each, arguments)]
    names = names_for(arguments, found)
    if not is_in_force(found["plan"]):
        return shown_coverage(arguments, found, [heading(found["plan"], names)])
    if arguments.job is None:
        return shown_coverage(arguments, found, lines_of(found))
    code = shown_coverage(arguments, found, about(found, arguments.job))
    return code if found["jobs"] else exit_codes.NOT_REACHED


def _query(arguments: argparse.Namespace) -> Mapping[str, str]:
    if arguments.job is not None:
        return {"job": arguments.job[0]}
    return {"over": "1"} if arguments.ended else {}


def _is_wanted(job: Document, arguments: argparse.Namespace) -> bool:
    is_of_user = arguments.user is None or job["user"] == arguments.user
    task = None if arguments.job is None else arguments.job[1]
    return is_of_user and arguments.way in (None, job["way"]) and task in (None, job["task"])


def lines_of(found: Document) -> Iterator[str]:
    """What is printed of a TransferDocument with jobs."""
    jobs = found["jobs"]
    if not jobs and not found["left_out"]:
        yield "no job crosses now"
        return
    head, *lines = columns([HEAD, *map(_cells, jobs)])
    yield head
    for line, each in zip(lines, jobs, strict=True):
        yield line
        if each["reason"]:
            yield from wrapped(each["reason"])
    if found["left_out"]:
        yield f"{count(found['left_out'], 'job')} more had no room in the answer"


def about(found: Document, wanted: tuple[str, int | None]) -> Iterator[str]:
    """All that is known of one job, or of its tasks."""
    if not found["jobs"]:
        job, task = wanted
        name = job if task is None else f"{job}.{task}"
        yield f"job {name} does not cross, and is none of the last ones that have: qstat -j {name}, qacct -j {name}"
    for each in found["jobs"]:
        yield from _one(each)
    if found["left_out"]:
        yield f"{count(found['left_out'], 'job')} more had no room in the answer"


def _one(job: Document) -> Iterator[str]:
    _, name, user, state, there, seen, since = _cells(job)
    yield f"job {name} of {user} {job['way']}: {state}{', over' if job['over'] else ''}"
    if job["way"] == "leaves":
        yield f"  in the other cluster: {there}"
    else:
        yield f"  in this cluster: {there}"
    yield f"  seen as: {seen}"
    yield f"  in the transfer queue since: {since}"
    if job["host"]:
        yield f"  ran on: {job['host']}"
    if used := ", ".join(_used(job)):
        yield f"  used: {used}"
    if job["reason"]:
        yield from wrapped(job["reason"])


def _used(job: Document) -> Iterator[str]:
    if job["cpu_s"] is not None:
        yield f"{job['cpu_s']:.1f} s of processor time"
    if job["wall_s"] is not None:
        yield f"{job['wall_s']:.1f} s from start to end"
    if job["memory_bytes"] is not None:
        yield f"at most {job['memory_bytes'] >> 20} MiB of memory"


def _cells(job: Document) -> tuple[str, ...]:
    wanted = "" if job["wanted"] == "run" else f", to be {job['wanted']}"
    return (
        job["way"],
        f"{job['job']}.{job['task']}" if job["task"] else job["job"],
        job["user"] or "-",
        f"{job['state']}{wanted}",
        job["id"] or "-",
        job["end"] or job["being"] or "-",
        "-" if job["since_s"] is None else age(job["since_s"]),
    )
