"""`evaluate peers`: subord, Serf and etcd in the same lab, on the same machine, by turns.

Each system is used as it is delivered, with its real command. Measured are the time until it has converged, what it
costs at rest, and how long the death of a node, and of the leader, stays unknown.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean

from netlab.common.results import Record
from netlab.common.tables import Column, comparison, spread
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.lab import Lab
from netlab.peers import etcd, serf
from netlab.peers.etcd import Etcd
from netlab.peers.programs import NodePrograms, programs_on, version_of
from netlab.peers.serf import Serf
from netlab.peers.subord import Subord

CONVERGED_S_MAX = 180.0
KNOWN_S_MAX = 60.0
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
    " `evaluate exec` compares the commands."
)


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
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

    def runs(self) -> Iterator[Run]:
        for name in self.systems:
            if min(self.nodes) < NODES_MIN[name]:
                raise LabError(
                    f"{name} is compared with {NODES_MIN[name]} nodes or more: correct --nodes or --systems."
                    " Nothing was done."
                )
        present = [name for name in self.systems if all(shutil.which(program) for program in PROGRAMS[name])]
        yield from self.by_turns(measure_one, system=present)


def measure_one(plan: Plan, nodes: int, _number: int, system: str) -> Record:
    with plan.raised(nodes, FANOUT, execute=True) as lab, programs_on(lab) as programs:
        lab.progress(f"starting {system}")
        chosen = _system(system, lab, programs)
        chosen.start()
        found = {"settings": chosen.settings, "meaning": chosen.meaning, **_converge(chosen)}
        try:
            if found["converged"]:
                time.sleep(plan.settle_s)
                lab.progress("measuring at rest")
                found |= _rest(lab, chosen, plan.rest_s)
                lab.progress("killing, and pulling cables")
                found |= _deaths(lab, chosen)
        except LabError as reason:  # the figures until then are worth keeping
            found["fault"] = str(reason)
        return found


def _system(name: str, lab: Lab, programs: NodePrograms) -> System:
    if name == "subord":
        return Subord(lab)
    if name == "serf":
        return Serf(lab, programs, version_of(serf.PROGRAM, "version"))
    return Etcd(lab, programs, int(name.removeprefix("etcd-")), version_of(etcd.PROGRAM, "--version"))


def _converge(system: System) -> Record:
    at = wait_until(system.converged_at, CONVERGED_S_MAX, LOOK_S)
    first, last = system.started_at()
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
    sent = {
        lab.position(address): [(new - old) / passed for new, old in zip(after["sent"][address], some, strict=True)]
        for address, some in before["sent"].items()
    }
    of_node: dict[str, Callable[[int], float]] = {
        "packets_per_s": lambda position: sent[position][1],
        "bytes_per_s": lambda position: sent[position][0],
        "cpu_percent": lambda position: 100 * (now.cpu_s[position] - then.cpu_s[position]) / passed,
        "pss_mib": now.pss_mib.__getitem__,
        "resident_mib": now.resident_mib.__getitem__,
    }
    found: Record = {"rest_s": passed}
    for group, members in system.groups().items():
        found[f"{group}s"] = len(members)
        found |= {f"{group}_{name}": fmean(map(value, members)) for name, value in of_node.items()}
    return found


def _deaths(lab: Lab, system: System) -> Record:
    """An ordinary node, then the leader, if there is one; each killed, and each cut off."""
    some = system.victims()
    killed, cut = some[len(some) // 2], some[len(some) // 2 - 1]
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
    return wait_until(lambda: max(0.0, (system.leader_since(leader) or 0.0) - at), KNOWN_S_MAX, LOOK_S) or None


def is_whole(record: Record) -> bool:
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
    keys = (column.key, column.key.replace("node_", "client_"))
    known = [key for key in keys if any(key in record for record in records)]
    values = [record.get(known[0]) for record in records] if known else []
    never = values.count(None)
    return spread(values, column.digits) + (f", {never} never" if never else "")
