"""`subord machines why`: what a job that waits gets, or why it gets nothing."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.text import age, count, printable
from subord.runtime.machines.state import NAME_CHARS_MAX
from subord.services.asking import asked_root, shown_coverage
from subord.services.following import wrapped
from subord.services.machines.commands.layout import UNSEEN, action_text, ago, heading, is_in_force, silent_line

JOB: Final = re.compile(r"[0-9][^\s]*")
ELSEWHERE: Final = (
    "it runs, has ended, was never submitted, or waits in another queue; `qstat -j {job}` of Grid Engine or "
    "`scontrol show job {job}` of Slurm tells which"
)


def run(arguments: argparse.Namespace) -> int:
    """Prints the reason, and the coverage; OK if the job waits. Raises CommandError."""
    job = arguments.job
    if not JOB.fullmatch(job) or len(job) > NAME_CHARS_MAX:
        what = f"the number of a job as the batch system shows it, such as 4711 or 17_3, not {printable(job[:64])!r}"
        text = f"JOB is {what}; no node was asked"
        raise CommandError(text, exit_codes.USAGE)
    found = asked_root(arguments, "machines/why", {"job": job})
    names = names_for(arguments, found)
    code = exit_codes.OK
    if is_in_force(found["plan"]) or arguments.json:
        code = shown_coverage(arguments, found, lines_of(found, names))
    else:
        print(printable(heading(found["plan"], names)))
    return code if found["jobs"] else exit_codes.NOT_REACHED


def lines_of(found: Document, names: Mapping[str, str]) -> Iterator[str]:
    """What is printed of a WhyDocument."""
    yield heading(found["plan"], names)
    if not is_in_force(found["plan"]):
        return
    if not found["known"]:
        yield silent_line(found["plan"], names)
        return
    if found["seen_s"] is None:
        yield from wrapped(found["hindrance"] or UNSEEN, "")
        return
    yield f"as of the round {ago(found['seen_s'])}, with {count(found['waiting'], 'waiting job')}:"
    if found["hindrance"]:
        yield from wrapped(f"nothing is decided now: {found['hindrance']}", "")
    if found["fault"]:
        yield from wrapped(f"the batch system does not answer: {found['fault']}", "")
    for each in found["jobs"]:
        yield from _job(each, found["waiting"])
    if not found["jobs"]:
        yield from wrapped(_absent(found), "")
    for each in found["actions"]:
        reason = f": {each['reason']}" if each["reason"] else ""
        yield from wrapped(f"{age(each['age_s'])} ago: {action_text(each, names)}: {each['result']}{reason}")


def _job(each: Document, waiting: int) -> Iterator[str]:
    kind = f", for machines of the type {each['type']}" if each["type"] else ""
    slots = count(each["slots"], "slot")
    tasks = f"{count(each['tasks'], 'task')} of {slots}" if each["tasks"] > 1 else slots
    place = f"number {each['place']} of {waiting}, " if kind else ""
    yield f"job {each['job']}: {place}{tasks}, in the queue {each['queue']}{kind}"
    yield from wrapped(each["why"] or "no reason was reported")


def _absent(found: Document) -> str:
    if found["left_out"]:
        text = f"the reasons of {count(found['left_out'], 'job')} that come later had no room"
        return f"job {found['job']} is not among the first that wait; {text}"
    if not found["queues_read"]:
        return f"whether job {found['job']} waits is not known: the queues were not read yet"
    return f"no job {found['job']} waits in the queues of the plan: {ELSEWHERE.format(job=found['job'])}"
