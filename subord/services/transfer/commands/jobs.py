"""`subord transfer jobs`: the jobs that cross, in both directions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from subord.client.daemon import Document
from subord.client.naming import names_for
from subord.client.text import age, columns, count
from subord.services.asking import asked_root, shown_coverage
from subord.services.following import wrapped
from subord.services.transfer.commands.layout import heading, is_in_force

HEAD: Final = ("way", "job", "user", "state", "there", "seen as", "since")


def run(arguments: argparse.Namespace) -> int:
    """Prints a table, and the coverage. Raises CommandError."""
    found = asked_root(arguments, "transfer/jobs")
    found["jobs"] = [each for each in found["jobs"] if _is_wanted(each, arguments)]
    names = names_for(arguments, found)
    lines = [heading(found["plan"], names)] if not is_in_force(found["plan"]) else list(lines_of(found))
    return shown_coverage(arguments, found, lines)


def _is_wanted(job: Document, arguments: argparse.Namespace) -> bool:
    is_of_user = arguments.user is None or job["user"] == arguments.user
    return is_of_user and arguments.way in (None, job["way"])


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
