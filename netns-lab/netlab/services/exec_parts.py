"""What `evaluate exec` does to a lab in each of its parts, and what must not be in the record of the part.

Effects of a command on a node are in the files that it writes there, and in /proc; what the operator is told is in
what `subord exec` prints.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from netlab.common.results import Record
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments import figures
from netlab.experiments.start_up import REST_AFTER_S
from netlab.lab import Lab
from netlab.services import kills, processes, ready
from netlab.services.console import SUBORD, Command, Console

BEGUN_S_MAX = 120.0
LEFT_AFTER_S = 3.0
ENDED_S_MAX = 30.0
INTERRUPTED = 130
GROWTH_MIB_MAX = 64.0
REST_TIMES_MAX = 1.1
LINE = "0123456789abcdef" * 4
EXEC = (SUBORD, "exec", "-n", "-a")


# -- an interior node is killed --------------------------------------------------------------------------------------


def killed(lab: Lab, console: Console, times: int) -> Record:
    """`sleep 1; echo` on all nodes, by turns with all daemons alive and with one killed meanwhile."""

    def give(name: str, victim: int | None) -> Record:
        line = f"echo ran >> /srv/{name}; sleep 1; echo ended"
        command = console.begin(*EXEC, "--json", "--shell", line)
        begun = None
        if victim is not None:
            begun = _await_half(lab, name)
            lab.kill(victim)
        done = command.done(BEGUN_S_MAX)
        kills.recover(lab, victim)  # which also gives a late second run the time to be seen
        found = kills.answer(done)
        ran = _times(lab, name)
        return {
            "took_s": done.took_s,
            "code": done.code,
            "begun_before": begun,
            "missing": kills.missing(found),
            "wrong_times": {str(each): ran[each] for each in lab.positions if not _is_right(ran[each], each, victim)},
        }

    return kills.figures(kills.by_turns(lab, times, console.position, give))


def _await_half(lab: Lab, name: str) -> int:
    """Half of the nodes run it; how many do. Raises LabError."""
    count = 0

    def is_half() -> bool:
        nonlocal count
        count = sum(map(bool, _times(lab, name).values()))
        return count >= len(lab.positions) / 2

    if not wait_until(is_half, BEGUN_S_MAX, 0.02):
        raise LabError(f"{count} nodes run the command after {BEGUN_S_MAX:g} s.")
    return count


def _times(lab: Lab, name: str) -> dict[int, int]:
    """How often each node has run it."""
    files = {each: lab.directory.node(each) / "srv" / name for each in lab.positions}
    return {each: file.read_text().count("\n") if file.exists() else 0 for each, file in files.items()}


def _is_right(times: int, position: int, victim: int | None) -> bool:
    """Once; at most once where the daemon was killed."""
    return times <= 1 if position == victim else times == 1


def faults_of_killed(record: Record) -> list[str]:
    return kills.faults_of_turns(
        record, lambda turn: [f"node {each} ran it {count} times" for each, count in turn["wrong_times"].items()]
    )


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def interrupted(lab: Lab, console: Console, command_of: Callable[[Sequence[str]], Sequence[str]]) -> Record:
    """Ctrl-C when all nodes sleep. `command_of`: what runs these words on all nodes."""
    words = ("sleep", f"1000.{random.randrange(10**6):06}")  # found by the number in /proc
    command = console.begin(*command_of(words))
    nodes, count = len(lab.positions), 0

    def all_sleep() -> bool:
        nonlocal count
        count = len(processes.with_words(words))
        return count == nodes

    wait_until(all_sleep, BEGUN_S_MAX, 0.1)
    command.interrupt()
    at = time.monotonic()
    left, ended_s = count, None
    while (passed_s := time.monotonic() - at) < ENDED_S_MAX and ended_s is None:
        now = len(processes.with_words(words))
        ended_s = None if now else passed_s
        left = now if passed_s < LEFT_AFTER_S else left
        time.sleep(0.05)
    done = command.done(BEGUN_S_MAX + ENDED_S_MAX)
    processes.end(words)
    return {"ran": count, "left": left, "ended_s": ended_s, "code": done.code}


def faults_of_interrupted(record: Record) -> list[str]:
    bad = {
        f"{record['ran']} of {record['nodes']} nodes ran it": record["ran"] != record["nodes"],
        f"{record['left']} processes were left after {LEFT_AFTER_S:g} s": record["left"],
        f"exit code {record['code']}": record["code"] != INTERRUPTED,
    }
    return [words for words, holds in bad.items() if holds]


# -- much output -----------------------------------------------------------------------------------------------------


def output(lab: Lab, console: Console, octets: int) -> Record:
    """So many bytes from all nodes together; by how much each process grows beyond what it holds at rest."""
    size = octets // len(lab.positions)
    idle = _Peak(console.begin(*EXEC, "--json", "--", "true"))
    found = {"daemon": processes.daemons(lab), "agent": processes.agents(lab)}
    rest = {kind: {each: processes.begin_peak(pid) for each, pid in some.items()} for kind, some in found.items()}
    peak = _Peak(console.begin(*EXEC, "--json", "--shell", f"yes {LINE} | head -c {size}"))
    grown = {
        f"{kind}_mib": max(processes.peak_mib(pid) - rest[kind][each] for each, pid in some.items())
        for kind, some in found.items()
    }
    *nodes, _ = map(json.loads, peak.done.out.splitlines())
    return {
        "bytes_of_node": size,
        "took_s": peak.done.took_s,
        **grown,
        "client_mib": peak.mib - idle.mib,
        "ended": {kind: sum(not processes.peak_mib(pid) for pid in some.values()) for kind, some in found.items()},
        "agents": len(found["agent"]),
        "told": sum(is_told(node, size) for node in nodes),
        "missing": kills.missing(kills.answer(peak.done)),
    }


class _Peak:
    """Waits for a command, and looks at its memory meanwhile."""

    def __init__(self, command: Command) -> None:
        self.mib = 0.0
        self._pid = command.pid
        self.done = command.done(BEGUN_S_MAX, self._look)

    def _look(self) -> None:
        self.mib = max(self.mib, processes.peak_mib(self._pid))


def is_told(node: dict[str, Any], size: int) -> bool:
    """A line of JSON says of all bytes whether they are shown or cut, and something is cut."""
    cut: int = node["cut_bytes"]
    return 0 < cut == size - len(node["output"].encode())


def faults_of_output(record: Record) -> list[str]:
    grown = {what: record[f"{what.split()[1]}_mib"] for what in ("a daemon", "an agent", "the client")}
    bad = {
        **{f"{kind} grew by {mib:.0f} MiB": mib > GROWTH_MIB_MAX for kind, mib in grown.items()},
        **{f"{kind}s that ended: {count}": count for kind, count in record["ended"].items()},
        f"{record['agents']} agents of {record['nodes']} ran": record["agents"] != record["nodes"],
        f"{record['told']} of {record['nodes']} nodes said what was cut": record["told"] != record["nodes"],
        f"missing: {', '.join(record['missing'])}": record["missing"],
    }
    return [words for words, holds in bad.items() if holds]


# -- rest ------------------------------------------------------------------------------------------------------------


def rest(lab: Lab, console: Console, times: int, seconds: float) -> Record:
    """What a node costs at rest before the first command, and again after some."""
    lab.progress("measuring at rest")
    before = _at_rest(lab, seconds)
    ready.start_agents(lab, console)
    for _ in range(times):
        console.run(*EXEC, "--", "true")
    after = _at_rest(lab, seconds)
    return {
        f"{when}_{key}": found[f"rest_{key}"]
        for when, found in (("before", before), ("after", after))
        for key in COSTS
    }


COSTS = ("packets_per_s", "bytes_per_s", "cpu_percent", "s")


def _at_rest(lab: Lab, seconds: float) -> figures.Figures:
    """By then the last place was taken, and the last command has ended, long enough ago."""
    time.sleep(min(REST_AFTER_S, seconds))
    return figures.at_rest(lab, seconds)


def faults_of_rest(record: Record) -> list[str]:
    if not record["before_packets_per_s"]:
        return ["no packets before the first command: measured for too short a time"]
    times = record["after_packets_per_s"] / record["before_packets_per_s"]
    return [f"{times:.2f} times as many packets after commands"] if times > REST_TIMES_MAX else []
