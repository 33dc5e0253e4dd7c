"""`subord transfer jobs`: the jobs that cross, in both directions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.runtime.transfer.state import TRANSFERS
from subord.services.asking import asked_root, shown_coverage
from subord.services.following import wrapped
from subord.services.transfer.commands.layout import before, heading, is_in_force, unknown_host

SLURM: Final = "slurm"
UNKNOWN: Final = "-"
HEAD: Final = ("way", "job", "user", "state", "there", "seen as", "since")


def run(arguments: argparse.Namespace) -> int:
    """Prints a table, and the coverage. Raises CommandError."""
    found = asked_root(arguments, "transfer/jobs", _query(arguments))
    known = len(found["jobs"])
    found["jobs"] = [each for each in found["jobs"] if _is_wanted(each, arguments)]
    names = names_for(arguments, found)
    if not is_in_force(found["plan"]):
        return shown_coverage(arguments, found, [heading(found["plan"], names)])
    fault = tuple(fault_lines(found, names))
    jobs = lines_of(found, known) if arguments.job is None else about(found, arguments.job, known)
    code = shown_coverage(arguments, found, chain(fault, jobs if found["jobs"] or not fault else ()))
    is_missing = arguments.job is not None and not found["jobs"]
    return exit_codes.NOT_REACHED if fault or is_missing else code


def _query(arguments: argparse.Namespace) -> Mapping[str, str]:
    if arguments.job is not None:
        return {"job": arguments.job[0]}
    return {"over": "1"} if arguments.ended else {}


def _is_wanted(job: Document, arguments: argparse.Namespace) -> bool:
    is_of_user = arguments.user is None or job["user"] == arguments.user
    task = None if arguments.job is None else arguments.job[1]
    return is_of_user and arguments.way in (None, job["way"]) and task in (None, job["task"])


def fault_lines(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """Why the jobs that are told, or that there are none, may not be so now; none: they are so."""
    host = found["host"]
    if host is None:
        yield from wrapped(f"which jobs cross is not known: {unknown_host(found, names)}", "")
    elif host["state"] != TRANSFERS:
        yield from wrapped(before(host), "")


def lines_of(found: Document, known: int) -> Iterator[str]:
    """What is printed of a TransferDocument with jobs. `known`: before a choice of the user."""
    jobs = found["jobs"]
    if not jobs and not found["left_out"]:
        yield "no job of this choice crosses now" if known else "no job crosses now"
        return
    head, *lines = columns([HEAD, *map(_cells, jobs)])
    yield head
    for line, each in zip(lines, jobs, strict=True):
        yield line
        if each["reason"]:
            yield from wrapped(each["reason"])
    if found["left_out"]:
        yield f"{count(found['left_out'], 'job')} more had no room in the answer"


def about(found: Document, wanted: tuple[str, int | None], known: int) -> Iterator[str]:
    """All that is known of one job, or of its tasks. `known`: how many there are of all its tasks, users and ways."""
    if not found["jobs"]:
        yield from wrapped(_missing(found, wanted, known), "")
    for each in found["jobs"]:
        yield from _one(each)
    if found["left_out"] and (known or found["jobs"]):
        yield f"{count(found['left_out'], 'job')} more had no room in the answer"


def _missing(found: Document, wanted: tuple[str, int | None], known: int) -> str:
    job, task = wanted
    name = job if task is None else f"{job}.{task}"
    if known:
        return f"job {job} is known, but nothing of this task, user or way: `subord transfer jobs {job}` shows it"
    if found["left_out"]:
        more = count(found["left_out"], "job")
        return f"job {name} is none of the first jobs, which alone are known by their numbers; {more} more cross"
    return f"job {name} does not cross, and is none of the last ones that have: {_asking(found, job, task)}"


def _asking(found: Document, job: str, task: int | None) -> str:
    """What tells of a job in the batch system of the transfer host."""
    if found["host"]["batch"] == SLURM:
        name = job if task is None else f"{job}_{task}"
        return f"squeue -j {name}, sacct -j {name}"
    return f"qstat -j {job}, qacct -j {job}{'' if task is None else f' -t {task}'}"


def _one(job: Document) -> Iterator[str]:
    _, name, user, state, there, seen, since = _cells(job)
    yield f"job {name} of {user} {job['way']}: {state}{', over' if job['over'] else ''}"
    if job["way"] == "leaves":
        yield f"  in the other cluster: {there}"
    else:
        yield f"  in this cluster: {there}"
    yield f"  seen as: {seen}"
    yield f"  started in the transfer queue: {since}{'' if since == UNKNOWN else ' ago'}"
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
        yield f"at most {job['memory_bytes'] >> 20} MiB of virtual memory"


def _cells(job: Document) -> tuple[str, ...]:
    wanted = "" if job["wanted"] == "run" else f", to be {job['wanted']}"
    return (
        job["way"],
        f"{job['job']}.{job['task']}" if job["task"] else job["job"],
        job["user"] or UNKNOWN,
        f"{job['state']}{wanted}",
        job["id"] or UNKNOWN,
        job["end"] or job["being"] or UNKNOWN,
        UNKNOWN if job["since_s"] is None else age(job["since_s"]),
    )
