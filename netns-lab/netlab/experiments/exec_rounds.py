"""`evaluate exec-rounds`: does each live node run a command once, whatever happens to an interior node meanwhile?

In each round a random node gives `subord exec -a` with a command that appends a line to a file, and somewhat before
or after, the daemon of a random interior node is killed, stopped, restarted, or cut off. Inputs are the file and what
the command prints. No node may have two lines; each node but the one that failed must have told, and have one; a node
that has told must have one. At the end the command is interrupted and terminated: no process may be left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netlab.common.marks import marked
from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import of_measured, verdict
from netlab.lab import Lab
from netlab.processes.enter import command_in

SUBORD = str(Path(sys.executable).with_name("subord"))
NODES_MIN = 7
STABLE_S_MAX = 180.0
QUIET_S = 1.0
READY_S_MAX = 180.0
TIME_S = 10.0
TOOK_S_MAX = 120.0
FAULTS = ("kill", "restart", "stop", "cut")
WHEN_S = (-1.0, -0.2, 0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
"""After the command was begun; it takes some 0.2 s until the order is given."""
RUN_S = (0, 0, 0.2, 1)
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LEFT_S = 3.0
SCRIPT = "trap '' TERM; (sleep 1000; true) & timeout 1000 sleep 1000 & sleep 1000; sleep 1000"
"""Processes in groups of their own, and such as ignore SIGTERM."""
OF_SCRIPT = 6
"""Processes of one node."""


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`rounds`: of each run; `seed`: what they draw."""

    fanout: int = 3
    rounds: int = 50
    seed: int = 1
    timing: str = "lan"

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "An evaluation of rounds")
        yield from self.by_turns(measure_one, about={"fanout": self.fanout})


def measure_one(plan: Plan, nodes: int, number: int) -> Record:
    with plan.raised(nodes, plan.fanout, log=f"rounds-{nodes}-{number}", agents=True, timing=plan.timing) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        lab.start_all()
        begin(lab)
        chance = random.Random(f"{plan.seed}/{number}")
        turns = [turn_of(lab, chance, each) for each in range(1, plan.rounds + 1)]
        found = {"turns": turns, "ends": [end_of(lab, each) for each in SIGNALS]}
        return {**found, "faults": faults_of(found)}


def begin(lab: Lab) -> None:
    """Until the tree stands, and each node remembers all others: a root that has just come knows those of its own
    branch and those of its register, which the first root writes some seconds after the start. Raises LabError.
    """
    settle(lab)
    unsure = list(lab.positions)

    def is_known() -> bool:
        unsure[:] = [position for position in unsure if not remembers_all(lab, position)]
        return not unsure

    if not wait_until(is_known, READY_S_MAX, 0.5):
        raise LabError(f"{len(unsure)} nodes did not remember all others within {READY_S_MAX:g} s.")


def remembers_all(lab: Lab, position: int) -> bool:
    """Whether the register of this node has all nodes as living."""
    metrics = f"http://{lab.address(position)}:9717/metrics"
    code = f"import urllib.request as u; print(u.urlopen({metrics!r}).read().decode())"
    return f"subord_members_live {len(lab.positions)}.0" in lab.run(position, sys.executable, "-c", code).stdout


def settle(lab: Lab) -> None:
    """Until the tree stands, and each node has run a command. Raises LabError."""
    lab.wait_stable(STABLE_S_MAX, QUIET_S)
    at = lab.positions[-1]
    said = ""

    def is_ready() -> bool:
        nonlocal said
        with suppress(subprocess.TimeoutExpired):
            done = lab.run(at, SUBORD, "exec", "-a", "-n", "-q", "true")
            said = done.stderr.strip()
            return done.returncode == 0
        return False

    if not wait_until(is_ready, READY_S_MAX, 0.2):
        raise LabError(f"Not all nodes ran a command within {READY_S_MAX:g} s: {said}.")


# -- a round ------------------------------------------------------------------------------------------------------


def turn_of(lab: Lab, chance: random.Random, number: int) -> Record:
    """One round; the tree is whole before and after it."""
    fault, when_s, run_s = chance.choice(FAULTS), chance.choice(WHEN_S), chance.choice(RUN_S)
    failing = lab.position(chance.choice(sorted(lab.look().subordinates())))
    issuer = chance.choice([each for each in lab.positions if each != failing])
    lab.progress(f"round {number}: {fault} {failing}")
    file = lab.directory.path / f"round-{number}"
    if when_s < 0:
        fail(lab, fault, failing)
        time.sleep(-when_s)
    began = time.monotonic()
    script = f"echo $SUBORD_NODE >> {file}; sleep {run_s}"
    words = (SUBORD, "exec", "-a", "-n", "--json", "-t", f"{TIME_S:g}", "--shell", script)
    command = command_in(lab.options.name, str(issuer), words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if when_s >= 0:
            time.sleep(when_s)
            fail(lab, fault, failing)
        try:
            out, err = process.communicate(timeout=TOOK_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            raise LabError(f"Round {number}: the command took longer than {TOOK_S_MAX:g} s.") from None
    took_s = round(time.monotonic() - began, 3)
    mend(lab, fault, failing)
    settle(lab)
    told, missing = coverage(out)
    lines = Counter(file.read_text().split()) if file.exists() else Counter[str]()
    drawn = {"round": number, "fault": fault, "node": lab.address(failing), "issuer": lab.address(issuer)}
    found = {**drawn, "when_s": when_s, "run_s": run_s, "took_s": took_s, "told": len(told), "missing": missing}
    wrong = wrongs(lines, told, [lab.address(each) for each in lab.positions if each != failing])
    return {**found, "wrong": wrong or ([] if told else [err.strip()])}


def fail(lab: Lab, fault: str, position: int) -> None:
    match fault:
        case "stop":
            lab.kill(position, signal.SIGSTOP)
        case "cut":
            lab.cut(position)
        case _:
            lab.kill(position)
    if fault == "restart":
        lab.start(position)


def mend(lab: Lab, fault: str, position: int) -> None:
    match fault:
        case "stop":
            lab.kill(position, signal.SIGCONT)
        case "cut":
            lab.cut(position, connected=True)
        case "kill":
            lab.start(position)


def coverage(out: str) -> tuple[list[str], dict[str, list[str]]]:
    """What the command has printed: nodes that told, and missing ones by cause. Both empty: it ran nothing."""
    lines = [json.loads(line) for line in out.splitlines()]
    told = [each["node"] for each in lines if "node" in each]
    missing = {each["cause"]: each["addresses"] for each in (lines[-1]["missing"] if lines else ())}
    return told, missing


def wrongs(lines: Counter[str], told: list[str], spared: list[str]) -> list[str]:
    """What must not be. `spared`: the nodes that did not fail."""
    found = [f"{node} ran it {times} times" for node, times in lines.items() if times > 1]
    found += [f"{node} told, and did not run it" for node in told if not lines[node]]
    found += [f"{node} did not tell" for node in spared if node not in told]
    return found + [f"{node} told {times} times" for node, times in Counter(told).items() if times > 1]


# -- the end of the command ---------------------------------------------------------------------------------------


def end_of(lab: Lab, number: signal.Signals) -> Record:
    """A signal for the command, while processes run on all nodes: how many are left after LEFT_S."""
    lab.progress(f"{number.name} for the command")
    mark = f"{lab.options.name}-{number.name}"
    words = (SUBORD, "exec", "-a", "-n", "--env", f"MARK={mark}", "--shell", SCRIPT)
    command = command_in(lab.options.name, str(lab.positions[-2]), words)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a job in the background, and so of its processes
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        wanted = OF_SCRIPT * len(lab.positions)
        if not wait_until(lambda: len(marked(mark)) >= wanted, READY_S_MAX, 0.1):
            raise LabError(f"{len(marked(mark))} of {wanted} processes ran within {READY_S_MAX:g} s.")
        began = time.monotonic()
        os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(LEFT_S)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    ended = wait_until(lambda: not marked(mark), LEFT_S - (time.monotonic() - began), 0.05)
    took_s = round(time.monotonic() - began, 2)
    return {"signal": number.name, "ran": wanted, "left": 0 if ended else len(marked(mark)), "ended_s": took_s}


# -- what came of it ----------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    found = [f"{_named(turn)}: {words}" for turn in record["turns"] for words in turn["wrong"]]
    left = [each for each in record["ends"] if each["left"]]
    return found + [f"{each['signal']}: {each['left']} processes left after {LEFT_S:g} s" for each in left]


def _named(turn: Record) -> str:
    """With what the command said of nodes that did not tell."""
    causes = ", ".join(f"{cause} {' '.join(nodes)}" for cause, nodes in turn["missing"].items())
    missing = f", missing after {turn['took_s']:g} s: {causes}" if causes else ""
    return f"round {turn['round']} ({turn['fault']} {turn['node']} at {turn['when_s']:g} s{missing})"


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: what each kind of fault did, and what went wrong."""
    lines = []
    for record in records:
        if is_measured(record):
            lines.append(f"{record['nodes']} nodes, fan-out {record['fanout']}, {len(record['turns'])} rounds")
            head = ["fault", "rounds", "all others told", "the node told, too", "at most, s"]
            lines.append(aligned([head, *(_row(record, fault) for fault in FAULTS)], left=1))
            ends = (
                f"{each['signal']}: {each['ran']} processes ended in {each['ended_s']} s" for each in record["ends"]
            )
            lines += ends
        lines.append(verdict(faults_of(record)))
    return "\n".join(lines)


def _row(record: Record, fault: str) -> list[str]:
    turns: list[dict[str, Any]] = [turn for turn in record["turns"] if turn["fault"] == fault]
    others = [turn for turn in turns if not turn["wrong"]]
    too = [turn for turn in turns if turn["told"] == record["nodes"]]
    return [
        fault,
        *(str(len(each)) for each in (turns, others, too)),
        f"{max((t['took_s'] for t in turns), default=0)}",
    ]
