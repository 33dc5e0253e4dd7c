"""`evaluate files`: how fast `subord files push` brings a file to all nodes, beside others, and the same while a node
dies that leads others.

Each record is of one part and one system, in a lab of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.experiments.evaluate import Run
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.services import kills, plans, pushes, ready, ssh
from netlab.services.console import Console
from subord import __version__

PEERS: dict[str, Sequence[str]] = {"clush": ("clush", "sshd"), "rsync": ("rsync", "sshd")}
PARTS = ("speed", "killed")
FILE_BYTES = 10**6


@dataclass(frozen=True, kw_only=True)
class Plan(plans.PartsPlan):
    """`file_bytes`: of the file that is pushed."""

    only: tuple[str, ...] = PARTS
    file_bytes: int = FILE_BYTES

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        return PEERS if self.peers else {}

    def runs(self) -> Iterator[Run]:
        of_parts = {"speed": self.systems, "killed": self.systems[:1]}
        yield from self.part_runs(measure_one, faults_of, of_parts)


def measure_one(plan: Plan, nodes: int, number: int, part: str, system: str) -> Record:
    log = f"{part}-{system}-{nodes}-{number}"
    with plan.turn(nodes, log, agents=system == plans.SUBORD) as (lab, programs):
        lab.progress(f"starting {system}")
        way = by_subord(lab) if system == plans.SUBORD else by_peer(lab, system, programs)
        lab.progress(part)
        measure = pushes.killed if part == "killed" else pushes.speed
        return measure(lab, way, programs.directory, plan.times, plan.file_bytes)


def by_subord(lab: Lab) -> pushes.Way:
    """Agents run. Raises LabError."""
    console = Console(lab, lab.positions[-2])
    ready.raise_tree(lab)
    ready.start_agents(lab, console)
    settings = f"subord {__version__}: subord files push -a --to /srv, fan-out {lab.options.fanout}"
    return pushes.Way(settings, console, pushes.push, lambda position: lab.directory.node(position) / "srv")


def by_peer(lab: Lab, name: str, programs: NodePrograms) -> pushes.Way:
    """Its servers run. Raises LabError."""
    servers = ssh.Ssh(lab, programs)
    servers.start()
    settings = f"{ssh.version(name)}: {ssh.SETTINGS}"
    return pushes.Way(settings, servers.console, lambda file: servers.copy(name, file), servers.srv)


KNOWN = {
    "speed": plans.Part(
        pushes.faults_of_speed,
        (
            Column("took_s", "push, s", 2),
            Column("whole_least", "have the file", 0),
            Column("sent_most_times", "sent by one node, times the file", 2),
        ),
    ),
    "killed": plans.Part(pushes.faults_of_killed, kills.COLUMNS),
}
faults_of = partial(plans.faults_of, parts=KNOWN)
is_whole = partial(plans.is_whole, parts=KNOWN)
table = partial(plans.table, parts=KNOWN)
