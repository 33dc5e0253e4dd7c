"""What `evaluate metrics` does to a lab with Ganglia: the same rest, age and death as of subord, and that of its
collector, where it has one. What it does is told, and not judged.
"""

from __future__ import annotations

import time

from netlab.common.results import Record
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments.figures import Reading
from netlab.lab import Lab
from netlab.peers.ganglia import AGED, POLL_S, PROGRAMS, UNICAST, Ganglia, Summary
from netlab.peers.page_reader import PageReader
from netlab.peers.programs import NodePrograms, version_of
from netlab.services import ssh
from netlab.services.metrics_parts import costs

CONVERGED_S_MAX = 300.0
LOOK_S = 0.5
AGE_LOOK_S = 5.0  # a page of all hosts has megabytes
DEATH_S_MAX = 180.0
COLLECTOR_S = 60.0


def measure(lab: Lab, programs: NodePrograms, way: str, *, rest_s: float, ages_s: float) -> Record:
    """Raises LabError when gmetad does not see all hosts in time."""
    where = {name: ssh.where(name) or name for name in PROGRAMS}
    kind = "one collector" if way == UNICAST else "multicast"
    with PageReader(lab, lab.positions[-1]) as reader:
        ganglia = Ganglia(lab, programs, reader, way)
        began = time.monotonic()
        ganglia.start(where)
        lab.progress("waiting until gmetad sees all hosts")
        await_all(ganglia, programs, len(lab.positions))
        found: Record = {"settings": f"{version_of(where['gmond'], '--version')}, {kind}, gmetad every {POLL_S} s"}
        found["first_whole_s"] = time.monotonic() - began
        lab.progress("measuring at rest")
        found |= at_rest(lab, programs, ganglia, rest_s)
        found |= ages(ganglia, ages_s)
        lab.progress("killing a gmond")
        return found | death(lab, ganglia) | (collector_death(lab, ganglia) if way == UNICAST else {})


def await_all(ganglia: Ganglia, programs: NodePrograms, nodes: int) -> None:
    """Raises LabError."""
    last: Summary | None = None

    def sees_all() -> bool:
        nonlocal last
        programs.live()
        last = ganglia.summary()
        return last is not None and (last.up, last.counted) == (nodes, nodes)

    if not wait_until(sees_all, CONVERGED_S_MAX, LOOK_S):
        said = "nothing" if last is None else f"{last.up} of {nodes} hosts up, {last.counted} in its sums"
        raise LabError(f"gmetad says {said} after {CONVERGED_S_MAX:g} s.")


def at_rest(lab: Lab, programs: NodePrograms, ganglia: Ganglia, seconds: float) -> Record:
    before = _read(lab, programs)
    time.sleep(seconds)
    return costs(before, _read(lab, programs), lab.address(ganglia.heart))


def _read(lab: Lab, programs: NodePrograms) -> Reading:
    cpu_s = {lab.address(position): spent for position, spent in programs.cpu_s().items()}
    return Reading(cpu_s=cpu_s, datagrams_sent={}, **lab.ports())


def ages(ganglia: Ganglia, seconds: float) -> Record:
    """The oldest load of all hosts, each time."""
    found: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found += [float(max(each))] if (each := ganglia.ages()) else []
        time.sleep(AGE_LOOK_S)
    return {"age_of": AGED, "age_s": found}


def death(lab: Lab, ganglia: Ganglia) -> Record:
    """Until the dead host is called down, and until it is in no sum any more; None: not in time."""
    nodes, victim = len(lab.positions), lab.positions[len(lab.positions) // 2]
    began = time.monotonic()
    known: dict[str, float] = {}
    ganglia.end(victim)

    def is_over() -> bool:
        found = ganglia.summary()
        at_s = time.monotonic() - began
        if found is not None and found.up <= nodes - 1:
            known.setdefault("down", at_s)
        if found is not None and found.counted <= nodes - 1:
            known.setdefault("counted", at_s)
        return len(known) == 2

    wait_until(is_over, DEATH_S_MAX, LOOK_S)
    down_s, counted_s = known.get("down"), known.get("counted")
    return {"death_whole_s": [down_s], "death_counted_over_s": [counted_s], "death_watched_s": DEATH_S_MAX}


def collector_death(lab: Lab, ganglia: Ganglia) -> Record:
    """What gmetad says a minute after its collector has died."""
    lab.progress("killing the collector")
    ganglia.end(ganglia.heart)
    time.sleep(COLLECTOR_S)
    found = ganglia.summary()
    said = {"up": None, "down": None, "counted": None} if found is None else found._asdict()
    return {f"collector_{key}": value for key, value in said.items()} | {"collector_s": COLLECTOR_S}
