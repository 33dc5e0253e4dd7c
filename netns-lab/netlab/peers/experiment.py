"""`evaluate peers`: subord, Serf and etcd in the same lab, on the same machine, by turns.

Each system is used as it is delivered, with its real command. Measured are the time until it has converged, what it
costs at rest, and how long the death of a node, and of the leader, stays unknown.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from netlab.common.results import Record
from netlab.common.tables import Column, comparison, spread
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run, is_measured
from netlab.lab import Lab
from netlab.peers import etcd, serf
from netlab.peers.etcd import Etcd
from netlab.peers.programs import NodePrograms, version_of
from netlab.peers.serf import Serf
from netlab.peers.subord import Subord
from netlab.processes.launch import Progress

CONVERGED_S_MAX = 180.0
KNOWN_S_MAX = 60.0
MEASURING_NICE = -10
LOOK_S = 0.05  # times of others are late by at most this
FANOUT = 8
_ETCD = (etcd.PROGRAM, etcd.CLIENT)
PROGRAMS = {"subord": (), "serf": (serf.PROGRAM,), "etcd-3": _ETCD, "etcd-5": _ETCD}
SYSTEMS = tuple(PROGRAMS)
Led = Subord | Etcd
System = Led | Serf
NODES_MIN = {"subord": 4, "serf": 4, "etcd-3": 6, "etcd-5": 8}  # two victims, and a node that may notice
INSTALL = "Debian: apt-get install serf etcd-server etcd-client"
NOT_COMPARED = (
    "ClusterShell is not compared: its tree carries commands over ssh and does not know which nodes live;"
    " subord carries no commands yet."
)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """`systems` take turns; `settle_s`: a pause before the measurement at rest."""

    systems: tuple[str, ...] = SYSTEMS
    settle_s: float = 12.0
    rest_s: float = 15.0

    def missing(self) -> list[str]:
        """Sentences about systems that are not installed here, and are left out."""
        return [
            f"{name} is left out: {program} is not installed here ({INSTALL})."
            for name in self.systems
            for program in PROGRAMS[name]
            if shutil.which(program) is None
        ]

    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError for sizes that are too small."""
        for name in self.systems:
            if min(self.nodes) < NODES_MIN[name]:
                raise LabError(
                    f"{name} is compared with {NODES_MIN[name]} nodes or more: correct --nodes or --systems."
                    " Nothing was done."
                )
        present = [name for name in self.systems if all(shutil.which(program) for program in PROGRAMS[name])]

        def measure(nodes: int, system: str, **_: int) -> Record:
            return measure_one(self, system, nodes, progress)

        yield from self.by_turns(measure, system=present)


def measure_one(plan: Plan, name: str, nodes: int, progress: Progress) -> Record:
    """One system in a lab of its own. Raises LabError."""
    with (
        Lab(nodes, FANOUT, execute=True, rootless=plan.rootless, progress=progress) as lab,
        tempfile.TemporaryDirectory(prefix="peers-") as directory,
        _high_priority(),
        _system(name, lab, Path(directory)) as system,
    ):
        progress(f"starting {name}", 0, 0)
        system.start()
        found = {"settings": system.settings, "meaning": system.meaning, **_converge(system)}
        try:
            if found["converged"]:
                time.sleep(plan.settle_s)
                progress("measuring at rest", 0, 0)
                found |= _rest(lab, system, plan.rest_s)
                progress("killing, and pulling cables", 0, 0)
                found |= _deaths(lab, system)
        except LabError as reason:  # the figures until then are worth keeping
            found["fault"] = str(reason)
        return found


@contextmanager
def _high_priority() -> Iterator[None]:
    """The measuring process must not wait for the measured: 200 busy agents kept it from starting the rest."""
    old = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # without rights outside of the lab: ordinary priority
        os.setpriority(os.PRIO_PROCESS, 0, MEASURING_NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, old)


@contextmanager
def _system(name: str, lab: Lab, directory: Path) -> Iterator[System]:
    if name == "subord":
        yield Subord(lab)
        return
    with NodePrograms(lab, directory) as programs:
        if name == "serf":
            yield Serf(lab, programs, version_of(serf.PROGRAM, "version"))
        else:
            yield Etcd(lab, programs, int(name.removeprefix("etcd-")), version_of(etcd.PROGRAM, "--version"))


def _converge(system: System) -> Record:
    since: list[float] = []

    def converged() -> bool:
        at = system.converged_at()
        since.extend(() if at is None else (at,))
        return at is not None

    wait_until(converged, CONVERGED_S_MAX, LOOK_S)
    (first, last), at = system.started_at(), since[0] if since else None
    return {
        "converged": at is not None,
        "started_within_s": last - first,
        "converged_s": None if at is None else at - first,
        "converged_after_last_start_s": None if at is None else at - last,
    }


def _rest(lab: Lab, system: System, seconds: float) -> Record:
    """Per node of each group: frames and bytes that it sent, share of a core, memory."""
    before, then = lab.ports(), system.costs()
    time.sleep(seconds)
    after, now = lab.ports(), system.costs()
    passed = after["mono"] - before["mono"]
    found: Record = {"rest_s": passed}
    for group, members in system.groups().items():
        some = list(members)
        sent = [
            [new - old for new, old in zip(after["sent"][address], before["sent"][address], strict=True)]
            for address in map(lab.address, some)
        ]
        found |= {
            f"{group}s": len(some),
            f"{group}_packets_per_s": sum(packets for _, packets in sent) / passed / len(some),
            f"{group}_bytes_per_s": sum(count for count, _ in sent) / passed / len(some),
            f"{group}_cpu_percent": 100 * sum(now.cpu_s[p] - then.cpu_s[p] for p in some) / passed / len(some),
            f"{group}_pss_mib": sum(now.pss_mib[p] for p in some) / len(some),
            f"{group}_resident_mib": sum(now.resident_mib[p] for p in some) / len(some),
        }
    return found


def _deaths(lab: Lab, system: System) -> Record:
    """An ordinary node, then the leader, if there is one; each killed, and each cut off."""
    killed, cut = system.victims()
    found = _noticed_s("known_kill", system, killed, lambda: system.end(killed))
    found |= _noticed_s("known_cut", system, cut, lambda: lab.cut(cut))
    system.end(cut)  # or it would go on as a cluster of one
    if isinstance(system, Serf):
        return found
    leader = system.leader()
    found["leader_kill_s"] = _succession(system, leader, lambda: system.end(leader))
    system.restore(leader)
    second = system.leader()
    found["leader_cut_s"] = _succession(system, second, lambda: lab.cut(second))
    return found


def _noticed_s(what: str, system: System, victim: int, act: Callable[[], None]) -> Record:
    """Seconds until the first and the last that must have noticed; None: not in time. Raises LabError."""
    if system.noticed(victim):
        raise LabError(f"Node {victim} was given up before anything was done to it.")
    at = time.monotonic()
    act()
    must = system.must_notice(victim)
    wait_until(lambda: must <= system.noticed(victim).keys(), KNOWN_S_MAX, LOOK_S)
    known = {node: since - at for node, since in system.noticed(victim).items()}
    last = max(known[node] for node in must) if must <= known.keys() else None
    return {f"{what}_first_s": min(known.values(), default=None), f"{what}_all_s": last}


def _succession(system: Led, leader: int, act: Callable[[], None]) -> float | None:
    at = time.monotonic()
    act()
    wait_until(lambda: (system.leader_since(leader) or 0.0) > at, KNOWN_S_MAX, LOOK_S)
    since = system.leader_since(leader)
    return None if since is None or since < at else since - at


def is_whole(record: Record) -> bool:
    """It converged in time."""
    return is_measured(record) and bool(record["converged"])


COLUMNS = (
    Column("converged_after_last_start_s", "converged, s", 2),
    Column("node_packets_per_s", "packets/s", 2),
    Column("node_bytes_per_s", "B/s", 0),
    Column("node_cpu_percent", "CPU, %", 3),
    Column("node_resident_mib", "resident, MiB", 1),
    Column("known_kill_all_s", "kill known, s", 2),
    Column("known_cut_all_s", "cut known, s", 2),
    Column("leader_kill_s", "leader, s", 2),
)


def table(records: list[Record]) -> str:
    """For people: medians and spread; of clients where a system has servers; `-`: never, or no such thing."""
    whole = comparison(records, ("nodes", "system"), COLUMNS, is_whole, counted="converged", show=_cell)
    return f"{whole}\n{NOT_COMPARED}"


def _cell(records: list[Record], column: Column) -> str:
    key = next(
        (key for key in (column.key, column.key.replace("node_", "client_")) if any(key in r for r in records)), ""
    )
    values = [record.get(key) for record in records]
    never = values.count(None) if key else 0
    return spread(values, column.digits) + (f", {never} never" if never else "")
