"""What an observer has seen of the machines of all servers, and what it finds wrong there. Pure.

Inputs are changes in the order in which each server told them, and what servers have; outputs are sentences.
Invariant: nothing that the service says of itself is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Change(NamedTuple):
    """A machine that came on or went off. `at`: by the clock of the machine. `memory`: MiB."""

    at: float
    server: str
    machine: str
    is_on: bool
    cores: int
    memory: int


class Have(NamedTuple):
    """Of a server, for machines."""

    cores: int
    memory: int
    slots: int


class Time(NamedTuple):
    """How long a machine was on; `until` None: it still is."""

    server: str
    machine: str
    since: float
    until: float | None


def faults(changes: Iterable[Change], have: Mapping[str, Have]) -> Iterator[str]:
    """At each instant: more on a server than it has, and a machine that is on twice."""
    on = defaultdict[str, dict[str, Change]](dict)
    for each in changes:
        here = on[each.server]
        if not each.is_on:
            here.pop(each.machine, None)
            continue
        for server, machines in on.items():
            if each.machine in machines:
                yield f"{each.machine} started on {each.server} while it was on at {server}"
        here[each.machine] = each
        if words := _excess(here.values(), have[each.server]):
            yield f"{each.server} was overbooked when {each.machine} started: {words}"


def _excess(machines: Iterable[Change], have: Have) -> str:
    there = list(machines)
    used = Have(sum(each.cores for each in there), sum(each.memory for each in there), len(there))
    return ", ".join(
        f"{taken} of {limit} {what}"
        for what, taken, limit in zip(Have._fields, used, have, strict=True)
        if taken > limit
    )


def times(changes: Iterable[Change]) -> list[Time]:
    """In the order of their begins."""
    found, on = list[Time](), dict[tuple[str, str], int]()
    for each in changes:
        key = each.server, each.machine
        if each.is_on:
            on[key] = len(found)
            found.append(Time(each.server, each.machine, each.at, None))
        elif key in on:
            number = on.pop(key)
            found[number] = found[number]._replace(until=each.at)
    return found


class Ran(NamedTuple):
    """A job. `kind`: of the machines of its queue. `rank`: in the order of the scheduler; times are None where they
    have not come. `machine`: where it ran."""

    job: str
    kind: str
    rank: int
    submitted: float
    started: float | None
    ended: float | None
    machine: str


def unused(on: Iterable[Time], jobs: Iterable[Ran]) -> list[Time]:
    """Machines that were started, and ran no job before they ended."""
    begun = defaultdict[str, list[float]](list)
    for job in jobs:
        if job.started is not None:
            begun[job.machine].append(job.started)
    return [
        each
        for each in on
        if not any(each.since <= at and (each.until is None or at <= each.until) for at in begun[each.machine])
    ]


def surplus(on: Sequence[Time], jobs: Sequence[Ran], kind_of: Callable[[str], str], slack_s: float) -> list[Time]:
    """Machines that were started for no job: at each instant of the last `slack_s`, in which that was decided, as
    many of their type were on without a job as jobs waited. For machines and jobs of one slot."""
    steps = defaultdict[str, list[tuple[float, int]]](list)
    """Kind -> how the number of waiting jobs less that of free machines changes."""
    for job in jobs:
        steps[job.kind].append((job.submitted, 1))
        if job.ended is not None:
            steps[job.kind].append((job.ended, -1))  # its start takes a job and a free machine, and changes nothing
    for each in on:
        kind = kind_of(each.machine)
        steps[kind].append((each.since, -1))
        if each.until is not None:
            steps[kind].append((each.until, 1))
    return [each for each in on if not _lacked(sorted(steps[kind_of(each.machine)]), each.since, slack_s)]


def _lacked(steps: Sequence[tuple[float, int]], at: float, slack_s: float) -> bool:
    """Whether more jobs waited than machines were free, at an instant of these seconds before."""
    lack = 0
    for when, change in steps:
        if when >= at:
            break
        if when > at - slack_s and lack > 0:
            return True
        lack += change
    return lack > 0


def overtaken_s(jobs: Iterable[Ran]) -> list[float]:
    """For each job that has started how long before it the first job of a lower rank started that had come later, or
    waited at the same time; 0: none did."""
    started = sorted((each for each in jobs if each.started is not None), key=lambda each: each.rank)
    found, earliest = list[float](), dict[int, float]()
    for number in range(len(started) - 1, -1, -1):
        each = started[number]
        assert each.started is not None
        after = [at for at in earliest.values() if each.submitted <= at < each.started]
        found.append(max((each.started - at for at in after), default=0.0))
        earliest[number] = each.started
    return found[::-1]
