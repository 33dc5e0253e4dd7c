"""The table of waiting times of the text, with a real Grid Engine: how long a job waits if a machine is free, closed,
off, or has to be cloned.

There is a type of machines for each state, so that the states do not mix. After each job a machine is brought back
into its state by hand, as an operator may. A job writes down when it starts. From each wait is taken what the machine
takes itself: from when libvirt has it on until its execd runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

from netlab.common.results import Record
from netlab.elastic import host
from netlab.elastic.files import SHARED
from netlab.elastic.hosted import HOME, USER
from netlab.errors import LabError
from netlab.machines import hypervisor, journal
from netlab.machines.cluster import Kind, MachinesLab, Server

FREE, CLOSED, OFF, CLONED = (Kind(name) for name in ("free", "closed", "off", "cloned"))
STATES: Final = (FREE, CLOSED, OFF, CLONED)
"""In the order of the text."""
CORES: Final = (12, 12, 16, 16, 16, 16, 16, 16, 24, 24, 24, 24)
"""Of the servers of the text, 216 together."""
LASTS_S: Final = 1.0
WAIT_PERIODS_MAX: Final = 20
WAIT_S_MIN: Final = 120.0
REST_S_MAX: Final = 120.0


class Wait(NamedTuple):
    """Of one job. `own_s`: of it the machine took so much itself."""

    state: str
    wait_s: float
    own_s: float

    def periods(self, period_s: float) -> float:
        return (self.wait_s - self.own_s) / period_s


def servers() -> list[Server]:
    """One machine of each state that has one, on the first."""
    first = tuple(kind.machine(1) for kind in (FREE, CLOSED, OFF))
    return [Server(cores, 2000, () if place else first) for place, cores in enumerate(CORES)]


def guests(times: int) -> list[str]:
    """Each clone has a name of its own, because its host stays known for a while."""
    return [each.machine(1).name for each in (FREE, CLOSED, OFF)] + [
        CLONED.machine(number).name for number in range(1, times + 2)
    ]


def prepare(lab: MachinesLab) -> None:
    """Before the plan: two machines are on, and one of them is open."""
    for kind in (FREE, CLOSED):
        lab.turn_on(kind.machine(1).name)
    lab.open(kind=FREE, name=FREE.machine(1).name)
    lab.await_up(FREE.machine(1).name, CLOSED.machine(1).name)


def measure(lab: MachinesLab, times: int, period_s: float, seed: int) -> list[Wait]:
    """So many jobs for each state, at times that are drawn. Raises LabError."""
    drawn, found = Random(seed), list[Wait]()
    for number in range(times):
        for kind in STATES:
            time.sleep(drawn.uniform(0.0, period_s))
            lab.lab.progress(f"a job for a machine that is {kind.name}, {number + 1} of {times}")
            found.append(_one(lab, kind, max(WAIT_S_MIN, WAIT_PERIODS_MAX * period_s)))
            _restore(lab, kind)
    return found


def _one(lab: MachinesLab, kind: Kind, seconds: float) -> Wait:
    submitted = time.time()
    script = f"date +%s.%N >{HOME}/$JOB_ID.new; mv {HOME}/$JOB_ID.new {HOME}/$JOB_ID; exec sleep {LASTS_S:g}"
    job = lab.engine.submit(script, user=USER, queue=kind.name)
    told = lab.path / SHARED / Path(HOME).relative_to(host.SHARED) / job
    lab.await_that(told.exists, f"the job for a machine that is {kind.name} starts", seconds, lab.facts)
    started = float(told.read_text())
    lab.await_that(lambda: not lab.engine.lines(), "the job ends", REST_S_MAX, lab.facts)
    own = [_own_s(lab, each) for each in lab.watch.changes if each.is_on and each.at >= submitted]
    if len(own) != (kind in (OFF, CLONED)):
        raise LabError(f"{len(own)} machines were started for a job whose machine is {kind.name}. {lab.facts()}")
    return Wait(kind.name, started - submitted, sum(own))


def _own_s(lab: MachinesLab, change: journal.Change) -> float:
    """From when the machine was on until its execd ran."""
    booted = lab.lab.directory.node(lab.guests[change.machine]) / hypervisor.BOOTED
    return float(booted.read_text()) - change.at


def _restore(lab: MachinesLab, kind: Kind) -> None:
    """By hand, when the service has closed the machine after the job."""
    if kind is FREE:
        return
    names = [each.machine for each in lab.watch.changes if each.is_on and each.machine.startswith(f"{kind.name}-")]
    lab.await_that(lambda: lab.is_closed(names[-1]), f"{names[-1]} is closed", REST_S_MAX, lab.facts)
    if kind in (OFF, CLONED):
        lab.turn_off(names[-1], is_deleted=kind is CLONED)


# -- figures ---------------------------------------------------------------------------------------------------------


def of_waits(waits: list[Wait], period_s: float) -> Record:
    """By state: seconds and periods, as median, lowest and highest."""
    found: Record = {}
    for kind in STATES:
        own = [each for each in waits if each.state == kind.name]
        found[kind.name] = {
            "jobs": len(own),
            "wait_s": _spread([each.wait_s for each in own]),
            "own_s": _spread([each.own_s for each in own]),
            "periods": _spread([each.periods(period_s) for each in own]),
        }
    return found


def faults(record: Mapping[str, Record]) -> list[str]:
    """Where the order of the text does not hold."""
    medians = [(kind.name, record[kind.name]["wait_s"]["median"]) for kind in STATES]
    return [
        f"a machine that is {one} took {first:.1f} s, and one that is {other} {second:.1f} s"
        for (one, first), (other, second) in pairwise(medians)
        if first >= second
    ]


def _spread(values: list[float]) -> Record:
    return {
        "median": round(median(values), 2),
        "lowest": round(min(values), 2),
        "highest": round(max(values), 2),
    }
