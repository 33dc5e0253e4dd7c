"""`evaluate exec`: how fast `subord exec` reaches all nodes, beside others, and what it does under faults.

Each record is of one part (exec_parts.py) and one system (exec_systems.py), in a lab of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.errors import LabError
from netlab.experiments.evaluate import Run
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms
from netlab.services import exec_parts, kills, plans, ready
from netlab.services.console import Console
from netlab.services.exec_parts import EXEC
from netlab.services.exec_systems import PEERS, OverSsh, Subord, system_of

OF_SSH = ("clush", "pdsh")
PARTS = ("speed", "killed", "interrupted", "output", "rest")
OUTPUT_BYTES = 10**9
NODES_MAX = {"serf": 200}  # 300 agents do not converge on two cores


@dataclass(frozen=True, kw_only=True)
class Plan(plans.PartsPlan):
    """`output_bytes`: of all nodes together; `rest_s`: how long each rest is measured."""

    only: tuple[str, ...] = PARTS
    output_bytes: int = OUTPUT_BYTES
    rest_s: float = 30.0

    @property
    def programs(self) -> Mapping[str, Sequence[str]]:
        return PEERS if self.peers else {}

    def runs(self) -> Iterator[Run]:
        alone = self.systems[:1]
        over_ssh = [name for name in self.systems if name in (plans.SUBORD, *OF_SSH)]
        of_parts = {"speed": self.systems, "interrupted": over_ssh}
        yield from self.part_runs(measure_one, faults_of, {part: of_parts.get(part, alone) for part in PARTS})


def measure_one(plan: Plan, nodes: int, number: int, part: str, system: str) -> Record:
    if nodes > NODES_MAX.get(system, nodes):
        raise LabError(f"{system} is measured with {NODES_MAX[system]} nodes at most (docs/evaluation/peers.md).")
    log = f"{part}-{system}-{nodes}-{number}"
    with plan.turn(nodes, log, agents=system == plans.SUBORD) as (lab, programs):
        if part == "speed":
            return speed(plan, lab, system, programs)
        if system != plans.SUBORD:
            return interrupted_over_ssh(lab, system, programs)
        ready.raise_tree(lab)
        console = Console(lab, lab.positions[-2])
        if part == "rest":
            return exec_parts.rest(lab, console, plan.times, plan.rest_s)
        ready.start_agents(lab, console)
        lab.progress(part)
        return of_subord(plan, lab, console, part)


def of_subord(plan: Plan, lab: Lab, console: Console, part: str) -> Record:
    """One of the parts that begin with agents that run."""
    if part == "killed":
        return exec_parts.killed(lab, console, plan.times)
    if part == "output":
        return exec_parts.output(lab, console, plan.output_bytes)
    return exec_parts.interrupted(lab, console, lambda words: (*EXEC, "--", *words))


def speed(plan: Plan, lab: Lab, name: str, programs: NodePrograms) -> Record:
    """So many commands, one after the other."""
    system = system_of(name, lab, programs)
    lab.progress(f"starting {name}")
    system.start()
    lab.progress("giving commands")
    taken = [system.run() for _ in range(plan.times)]
    return {
        "settings": system.settings,
        "first_s": system.first_s if isinstance(system, Subord) else None,
        "took_s": [each.took_s for each in taken],
        "ended_least": min(each.ended for each in taken),
    }


def interrupted_over_ssh(lab: Lab, name: str, programs: NodePrograms) -> Record:
    """With as many connections at once as there are nodes, or some nodes would not begin."""
    system = OverSsh(lab, name, programs)
    system.start()

    def command_of(words: Sequence[str]) -> Sequence[str]:
        return system.ssh.execute(name, *words, fanout=len(lab.positions))

    return {"settings": system.settings, **exec_parts.interrupted(lab, system.ssh.console, command_of)}


def faults_of_speed(record: Record) -> list[str]:
    ended, nodes = record["ended_least"], record["nodes"]
    return [f"ended on {ended} of {nodes} nodes"] if ended != nodes else []


KNOWN = {
    "speed": plans.Part(
        faults_of_speed,
        (
            Column("took_s", "true, s", 2),
            Column("first_s", "first, s", 2),
            Column("ended_least", "ended on", 0),
        ),
    ),
    "killed": plans.Part(exec_parts.faults_of_killed, kills.COLUMNS),
    "interrupted": plans.Part(
        exec_parts.faults_of_interrupted,
        (
            Column("ran", "ran on", 0),
            Column("left", "left after 3 s", 0),
            Column("ended_s", "the last ended, s", 2),
        ),
    ),
    "output": plans.Part(
        exec_parts.faults_of_output,
        (
            Column("daemon_mib", "daemon, MiB more", 1),
            Column("agent_mib", "agent, MiB more", 1),
            Column("client_mib", "client, MiB more", 1),
            Column("told", "said what was cut", 0),
            Column("took_s", "s", 1),
        ),
    ),
    "rest": plans.Part(
        exec_parts.faults_of_rest,
        (
            Column("before_packets_per_s", "packets/s before", 2),
            Column("after_packets_per_s", "after", 2),
            Column("before_bytes_per_s", "B/s before", 0),
            Column("after_bytes_per_s", "after", 0),
            Column("before_cpu_percent", "CPU before, %", 3),
            Column("after_cpu_percent", "after", 3),
        ),
    ),
}
faults_of = partial(plans.faults_of, parts=KNOWN)
is_whole = partial(plans.is_whole, parts=KNOWN)
table = partial(plans.table, parts=KNOWN)
