"""What an operator would otherwise install, in the same lab, on the same machine, by turns.

Intuition: a comparison of cars on one road and one day. Each is driven as its maker delivers it; all are timed with
the same watch: until everybody is on board, at rest, when one falls out, when the driver falls out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from netlab.common.results import Record
from netlab.errors import LabError
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run
from netlab.experiments.figures import spread_text
from netlab.lab import Lab
from netlab.peers import etcd, serf
from netlab.peers.etcd import Etcd
from netlab.peers.programs import Visitors, version_of
from netlab.peers.serf import Serf
from netlab.peers.subord import Ours
from netlab.peers.systems import Led, Rival
from netlab.processes.launch import Progress

CONVERGED_S_MAX = 180.0
KNOWN_S_MAX = 60.0
REFEREE_NICE = -10
LOOK_S = 0.05  # so late may be what others have said
FANOUT = 8
_ETCD = (etcd.PROGRAM, etcd.CLIENT)
PROGRAMS = {"subord": (), "serf": (serf.PROGRAM,), "etcd-3": _ETCD, "etcd-5": _ETCD}
SYSTEMS = tuple(PROGRAMS)
NODES_MIN = {"subord": 4, "serf": 4, "etcd-3": 6, "etcd-5": 8}  # two victims, and somebody who may notice
INSTALL = "Debian: apt-get install serf etcd-server etcd-client"
NOT_COMPARED = (
    "ClusterShell is not compared: its tree carries commands over ssh and knows nothing of who lives;"
    " subord carries no commands yet."
)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """Systems take turns, so that what happens on the machine meanwhile happens to all of them."""

    systems: tuple[str, ...] = SYSTEMS
    settle_s: float = 12.0  # before the measurement at rest
    rest_s: float = 15.0

    def missing(self) -> list[str]:
        """Sentences about systems that are not installed here, and are left out."""
        return [
            f"{name} is left out: {program} is not installed here ({INSTALL})."
            for name in self.systems
            for program in PROGRAMS[name]
            if shutil.which(program) is None
        ]

    def check(self) -> None:
        """Raises LabError for sizes that are too small."""
        for name in self.systems:
            if min(self.nodes) < NODES_MIN[name]:
                raise LabError(
                    f"{name} is compared with {NODES_MIN[name]} nodes or more: correct --nodes or --systems."
                    " Nothing was done."
                )

    def runs(self, progress: Progress) -> Iterator[Run]:
        self.check()
        present = [name for name in self.systems if all(shutil.which(program) for program in PROGRAMS[name])]
        for nodes in self.nodes:
            for number in range(self.repeat):
                for name in present:
                    yield Run(
                        f"{nodes} nodes, {name}, run {number + 1} of {self.repeat}",
                        {"nodes": nodes, "system": name, "repeat": number},
                        partial(measure_one, self, name, nodes, progress),
                    )


def measure_one(plan: Plan, name: str, nodes: int, progress: Progress) -> Record:
    """One system in a lab of its own; everybody starts the real command. Raises LabError."""
    with (
        Lab(nodes, FANOUT, execute=True, rootless=plan.rootless, progress=progress) as lab,
        tempfile.TemporaryDirectory(prefix="peers-") as directory,
        _before_all_others(),
        _rival(name, lab, Path(directory)) as rival,
    ):
        progress(f"starting {name}", 0, 0)
        rival.start()
        found = {"settings": rival.settings, "meaning": rival.meaning, **_converge(rival)}
        try:
            if found["converged"]:
                time.sleep(plan.settle_s)
                progress("measuring at rest", 0, 0)
                found |= _rest(lab, rival, plan.rest_s)
                progress("killing, and pulling cables", 0, 0)
                found |= _deaths(lab, rival)
        except LabError as reason:  # what was found until then is worth keeping, but no figure
            found["fault"] = str(reason)
        return found


@contextmanager
def _before_all_others() -> Iterator[None]:
    """Who holds the watch must not wait for the runners: 200 busy agents kept us from starting the rest."""
    old = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # without rights outside of the lab: as everybody else
        os.setpriority(os.PRIO_PROCESS, 0, REFEREE_NICE)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, old)


@contextmanager
def _rival(name: str, lab: Lab, directory: Path) -> Iterator[Rival]:
    if name == "subord":
        yield Ours(lab)
        return
    with Visitors(lab, directory) as visitors:
        if name == "serf":
            yield Serf(lab, visitors, version_of(serf.PROGRAM, "version"))
        else:
            yield Etcd(lab, visitors, int(name.removeprefix("etcd-")), version_of(etcd.PROGRAM, "--version"))


def _converge(rival: Rival) -> Record:
    since: list[float] = []

    def converged() -> bool:
        at = rival.converged_at()
        since.extend(() if at is None else (at,))
        return at is not None

    _wait(converged, CONVERGED_S_MAX)
    (first, last), at = rival.started_at(), since[0] if since else None
    return {
        "converged": at is not None,
        "started_within_s": last - first,
        "converged_s": None if at is None else at - first,
        "converged_after_last_start_s": None if at is None else at - last,
    }


def _rest(lab: Lab, rival: Rival, seconds: float) -> Record:
    """Per node of each group: frames and bytes that it sent, share of a core, memory."""
    before, then = lab.ports(), rival.meters()
    time.sleep(seconds)
    after, now = lab.ports(), rival.meters()
    passed = after["mono"] - before["mono"]
    found: Record = {"rest_s": passed}
    for group, members in rival.groups().items():
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


def _deaths(lab: Lab, rival: Rival) -> Record:
    """An ordinary node, then the leader, if there is one; each killed, and each cut off."""
    killed, cut = rival.victims()
    found = _named("known_kill", _watch(rival, killed, lambda: rival.end(killed)))
    found |= _named("known_cut", _watch(rival, cut, lambda: lab.cut(cut)))
    rival.end(cut)  # or it would go on as a cluster of one
    if not isinstance(rival, Led):
        return found
    leader = rival.leader()
    found["leader_kill_s"] = _succession(rival, leader, lambda: rival.end(leader))
    rival.restore(leader)
    second = rival.leader()
    found["leader_cut_s"] = _succession(rival, second, lambda: lab.cut(second))
    return found


def _named(what: str, times: tuple[float | None, float | None]) -> Record:
    return {f"{what}_first_s": times[0], f"{what}_all_s": times[1]}


def _watch(rival: Rival, victim: int, act: Callable[[], None]) -> tuple[float | None, float | None]:
    """Seconds until the first and the last of those knew who must; None: not within KNOWN_S_MAX. Raises LabError."""
    if rival.knowers(victim):
        raise LabError(f"Node {victim} was given up before anything was done to it.")
    at = time.monotonic()
    act()
    must_know = rival.must_know(victim)
    _wait(lambda: must_know <= rival.knowers(victim).keys(), KNOWN_S_MAX)
    known = {who: since - at for who, since in rival.knowers(victim).items()}
    everybody = must_know <= known.keys()
    return min(known.values(), default=None), max(known[who] for who in must_know) if everybody else None


def _succession(rival: Led, leader: int, act: Callable[[], None]) -> float | None:
    at = time.monotonic()
    act()
    _wait(lambda: (rival.leader_since(leader) or 0.0) > at, KNOWN_S_MAX)
    since = rival.leader_since(leader)
    return None if since is None or since < at else since - at


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    """Until it holds, or the time is over."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(LOOK_S)


def is_whole(record: Record) -> bool:
    """Everybody knew of everybody in time."""
    return record["fault"] is None and bool(record["converged"])


COLUMNS = (
    ("converged_after_last_start_s", "converged, s", 2),
    ("node_packets_per_s", "packets/s", 2),
    ("node_bytes_per_s", "B/s", 0),
    ("node_cpu_percent", "CPU, %", 3),
    ("node_resident_mib", "resident, MiB", 1),
    ("known_kill_all_s", "kill known, s", 2),
    ("known_cut_all_s", "cut known, s", 2),
    ("leader_kill_s", "leader, s", 2),
)


def table(records: list[Record]) -> str:
    """For people: medians and spread; of clients where a system has servers; `-`: never, or no such thing."""
    titles = ("converged runs", *(title for _, title, _ in COLUMNS))
    lines = ["nodes  system  " + "  ".join(f"{title:>20}" for title in titles)]
    for nodes in dict.fromkeys(record["nodes"] for record in records):
        for name in dict.fromkeys(record["system"] for record in records):
            some = [each for each in records if (each["nodes"], each["system"]) == (nodes, name)]
            good = [each for each in some if is_whole(each)]
            cells = [f"{len(good)} of {len(some)}", *(_cell(good, key, digits) for key, _, digits in COLUMNS)]
            lines.append(f"{nodes:5}  {name:6}  " + "  ".join(f"{cell:>20}" for cell in cells))
    return "\n".join([*lines, NOT_COMPARED])


def _cell(records: list[Record], key: str, digits: int) -> str:
    values = [each.get(key, each.get(key.replace("node_", "client_"))) for each in records]
    known = [value for value in values if value is not None]
    if not any(key in each or key.replace("node_", "client_") in each for each in records):
        return "-"
    never = len(values) - len(known)
    return spread_text(known, digits) + (f", {never} never" if never else "")
