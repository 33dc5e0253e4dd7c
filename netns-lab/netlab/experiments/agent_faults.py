"""`evaluate agents`: orders with effects while the agents of some nodes cannot act, or while the order is wrong.

A lab has an agent on each node. Each turn does something to four nodes, the root and a leader among them, or to the
order (`everywhere`). Then an operator gives orders, which together are for all nodes, each at one node and again at
another one. Inputs are all answers, the files to which the service appends, and the event log. Exactly the nodes
concerned must be missing, with the word of the fault; no node may act more often than once, or move.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netlab.common.results import Record, replace_file
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.eventlog import changes as log_changes
from netlab.experiments.evaluate import Evaluation, Run
from netlab.experiments.signing import BUDGET_S, HOUR_MS, SERVICES, Body, Operator, text, times
from netlab.experiments.verdicts import faults_of_turns, of_measured, table_of_turns
from netlab.lab import QUIET_S, Lab
from subord.client.errors import CommandError
from subord.sim.scenario.selection import folded, listed

NODES_MIN = 7
STABLE_S_MAX = 120.0
READY_S_MAX = 120.0  # until each agent has been started once
ACTS_S_MAX = 30.0
HOUR_S = HOUR_MS / 1000


@dataclass(frozen=True)
class Turn:
    """`nodes`: those concerned; `name`: of the file; `tags`: by the targets of an order."""

    plan: Plan
    lab: Lab
    operator: Operator
    nodes: Sequence[int]
    name: str
    tags: Mapping[str, bytes]


Harm = Callable[[Turn], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """`cause`: of the nodes concerned; "": they answer, too. `harm`: what is done to them while the order is given.
    `given`: of Operator.order; `changes`: what is altered in the body after it was signed. `acted`: how often the
    nodes concerned act."""

    name: str
    cause: str
    harm: Harm = lambda _turn: nullcontext()
    given: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False
    acted: int = 0


# -- what is done to nodes ------------------------------------------------------------------------------------------


@contextmanager
def full_disk(turn: Turn) -> Iterator[None]:
    """A file system of four pages below the journal."""
    for each in turn.nodes:
        turn.lab.kill_agent(each)
        state = turn.lab.directory.node(each) / "agent"
        run(turn.lab, each, "mount", "-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs", str(state))
    yield
    for each in turn.nodes:
        turn.lab.kill_agent(each)
        run(turn.lab, each, "umount", str(turn.lab.directory.node(each) / "agent"))


def run(lab: Lab, position: int, *command: str) -> None:
    """Raises LabError."""
    done = lab.run(position, *command)
    if done.returncode:
        raise LabError(f"`{' '.join(command)}` failed: {done.stderr}")


@contextmanager
def killed_while_acting(turn: Turn) -> Iterator[None]:
    """The service waits on the nodes concerned, until their agents are killed."""
    lab, free = turn.lab, [each for each in turn.lab.positions if each not in turn.nodes]
    for each in free:
        (lab.directory.node(each) / "go").touch()

    def kill() -> None:
        """Each as soon as it acts."""
        left = set(turn.nodes)

        def are_killed() -> bool:
            acting = {each for each, count in times(lab, turn.name).items() if count} & left
            left.difference_update(acting)
            return all(map(lab.kill_agent, sorted(acting))) and not left

        if not wait_until(are_killed, ACTS_S_MAX, 0.02):
            raise LabError(f"{turn.name}: {len(left)} nodes did not act within {ACTS_S_MAX:g} s.")

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        yield
        killing.result()
    for each in free:
        (lab.directory.node(each) / "go").unlink()


def writable(of: Callable[[Lab], Path], mode: int = 0o666) -> Harm:
    """The nodes concerned have a copy of this file, which others can change."""

    @contextmanager
    def harm(turn: Turn) -> Iterator[None]:
        shared, before = of(turn.lab), {}
        for each in turn.nodes:
            config = turn.lab.directory.node(each) / "config.toml"
            copy = config.with_name(shared.name)
            copy.write_text(shared.read_text())
            copy.chmod(mode)
            before[config] = config.read_text()
            replace_file(config, before[config].replace(str(shared), str(copy)))
            turn.lab.kill_agent(each)
        yield
        for config, words in before.items():
            replace_file(config, words)
        for each in turn.nodes:
            turn.lab.kill_agent(each)

    return harm


@contextmanager
def writable_journal(turn: Turn) -> Iterator[None]:
    directories = [turn.lab.directory.node(each) / "agent" for each in turn.nodes]
    for each in directories:
        each.chmod(0o777)
    yield
    for each in directories:
        each.chmod(0o700)


def clocks(ahead_s: float) -> Harm:
    """Daemons and agents with a wrong clock."""

    @contextmanager
    def harm(turn: Turn) -> Iterator[None]:
        restart(turn, ahead_s)
        yield
        restart(turn, 0.0)

    return harm


def restart(turn: Turn, ahead_s: float) -> None:
    """The nodes concerned, with another clock; until the tree stands."""
    for each in turn.nodes:
        turn.lab.set_clock(each, ahead_s)
        turn.lab.kill_agent(each)
        turn.lab.kill(each)
    turn.lab.start_and_wait(*turn.nodes)
    turn.lab.wait_stable(STABLE_S_MAX, turn.plan.quiet_s)
    await_all(turn.lab)


@contextmanager
def other_order(turn: Turn) -> Iterator[None]:
    """Another order with the tag has been carried out."""
    for nodes, tag in turn.tags.items():
        turn.operator.give(turn.operator.order("first", nodes=nodes, tag=tag), turn.lab.positions[1])
    yield


@contextmanager
def no_agent(turn: Turn) -> Iterator[None]:
    """For good."""
    for each in turn.nodes:
        turn.lab.remove_agent(each)
    yield


FAULTS = (
    Fault("none", ""),
    Fault("journal on a full disk", "no journal", full_disk),
    Fault("agent killed while it acts", "outcome unknown", killed_while_acting, {"waits": True}, acted=1),
    Fault("others can write the policy", "bad mode", writable(lambda lab: lab.directory.policy)),
    Fault("others can write the operators file", "bad mode", writable(lambda lab: lab.directory.operators)),
    Fault("others can write the journal", "bad mode", writable_journal),
    Fault("clock an hour ahead", "order expired", clocks(HOUR_S)),
    Fault("clock an hour behind", "not yet valid", clocks(-HOUR_S)),
    Fault("unsigned", "unsigned", changes={"authority": ""}, everywhere=True),
    Fault("altered", "altered", changes={"payload": text(b'{"file": "altered", "fails": false}')}, everywhere=True),
    Fault("expired", "order expired", given={"shift_ms": -HOUR_MS}, everywhere=True),
    Fault("another order with the tag", "tag used", other_order, everywhere=True),
    Fault("no agent", "no agent", no_agent),  # the last: it stays so
)
NAMES = tuple(fault.name for fault in FAULTS)


# -- the experiment -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`at_once`: agents that check a signature at the same time: all of them share the processors of one machine."""

    fanout: int = 2
    at_once: int = 75
    quiet_s: float = QUIET_S
    faults: tuple[str, ...] = NAMES
    timing: str = "lan"

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "An evaluation of agents")
        yield from self.by_turns(measure_one, about={"fanout": self.fanout})


def measure_one(plan: Plan, nodes: int, number: int) -> Record:
    options = {"agents": True, "services": str(SERVICES), "timing": plan.timing}
    with plan.raised(nodes, plan.fanout, log=f"agents-{nodes}-{number}", **options) as lab:
        lab.touch_memory()
        lab.progress("starting daemons, waiting for a stable tree")
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        start_agents(lab, plan)
        found = {"turns": [turn_of(lab, plan, fault) for fault in FAULTS if fault.name in plan.faults]}
        return {**found, "faults": faults_of(found)}


def start_agents(lab: Lab, plan: Plan) -> None:
    """Each agent has acted once. Raises LabError."""
    lab.progress("starting agents")
    await_all(lab)
    operator = Operator(lab)
    for nodes in parts(lab, plan):
        body = operator.order("begin", nodes=nodes)
        if not wait_until(lambda body=body: not operator.give(body, lab.positions[1])["missing"], READY_S_MAX, 0.1):
            raise LabError(f"Not all agents answered within {READY_S_MAX:g} s.")


def parts(lab: Lab, plan: Plan) -> list[str]:
    """The targets of each order."""
    number = -(-len(lab.positions) // plan.at_once)
    size = -(-len(lab.positions) // number)
    return [folded(lab.positions[first : first + size]) for first in range(0, len(lab.positions), size)]


def await_all(lab: Lab) -> None:
    """Until the root is answered by all nodes: their edges are open. Raises LabError."""
    root, missing = lab.positions[0], ""

    def is_answered() -> bool:
        nonlocal missing
        found = lab.document(root, f"/v1/ping?budget={BUDGET_S:g}")
        missing = ", ".join(f"{each['count']} {each['cause']}" for each in found["missing"])
        return bool(found["told"] == len(lab.positions))

    if not wait_until(is_answered, READY_S_MAX, 0.2):
        raise LabError(f"Not all nodes answered within {READY_S_MAX:g} s: {missing} in the end.")


def turn_of(lab: Lab, plan: Plan, fault: Fault) -> Record:
    """One fault: the answers at the last node but one, and at the second; how often each node acted; which moved."""
    lab.progress(fault.name)
    positions, operator = lab.positions, Operator(lab)
    some = positions[0], positions[2], positions[len(positions) // 2], positions[-1]
    concerned = positions if fault.everywhere else some
    tags = {each: os.urandom(16) for each in parts(lab, plan)}
    turn = Turn(plan, lab, operator, concerned, fault.name.replace(" ", "-"), tags)
    with fault.harm(turn):
        since = log_changes.baseline(lab.look())
        answers = [answer for nodes in turn.tags for answer in given_twice(turn, fault, nodes)]
        moved = log_changes.moves(lab.look(), since)
    wanted = dict.fromkeys(positions, 1) | (dict.fromkeys(concerned, fault.acted) if fault.cause else {})
    acted = times(lab, turn.name)
    return {
        "harm": fault.name,
        "concerned": folded(concerned),
        "answers": answers,
        "wrong_times": {str(each): acted[each] for each in positions if acted[each] != wanted[each]},
        "moved": moved,
    }


def given_twice(turn: Turn, fault: Fault, nodes: str) -> Iterator[Record]:
    """One order, at two nodes."""
    body = turn.operator.order(turn.name, nodes=nodes, tag=turn.tags[nodes], **fault.given)
    for at in (turn.lab.positions[-2], turn.lab.positions[1]):
        yield {"nodes": nodes, "at": at, **given(turn, {**body, **fault.changes}, at)}


def given(turn: Turn, body: Body, at: int) -> Record:
    """One answer: positions of missing nodes by cause. Raises LabError."""
    began = time.monotonic()
    try:
        found = turn.operator.give(body, at)
    except CommandError as reason:
        raise LabError(f"{turn.name} at node {at}: {reason}.") from None
    took_s = round(time.monotonic() - began, 3)
    missing = {each["cause"]: folded(map(turn.lab.position, each["addresses"])) for each in found["missing"]}
    return {"took_s": took_s, "told": found["told"], "missing": missing}


# -- what came of it ------------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    return faults_of_turns(record, "harm", faults_of_turn)


def faults_of_turn(turn: Record) -> list[str]:
    cause = next(fault.cause for fault in FAULTS if fault.name == turn["harm"])
    found = []
    for answer in turn["answers"]:
        targets, missing = set(listed(answer["nodes"])), answer["missing"]
        concerned = targets & set(listed(turn["concerned"])) if cause else set()
        wanted = {cause: folded(concerned)} if concerned else {}
        if missing != wanted or answer["told"] != len(targets) - len(concerned):
            found.append(f"the answer at {answer['at']}: {answer['told']} of {len(targets)} told, missing: {missing}")
    found += [f"{position} acted {count} times" for position, count in turn["wrong_times"].items()]
    return found + [f"{address} moved" for address in turn["moved"]]


def is_whole(record: Record) -> bool:
    return not faults_of(record)


def table(records: list[Record]) -> str:
    """For people: what each fault was answered with, and what went wrong."""
    head = ["fault", "missing", "answered after, s", "the same order again, s"]
    return table_of_turns(records, faults_of, title=_title, head=head, row=_row, left=2)


def _title(record: Record) -> str:
    return f"{record['nodes']} nodes, run {record['repeat'] + 1}"


def _row(turn: Record) -> list[str]:
    first, again = turn["answers"][::2], turn["answers"][1::2]
    missing = sum((causes_in(answer) for answer in first), Counter[str]())
    words = ", ".join(f"{number} {cause}" for cause, number in missing.items()) or "none"
    return [turn["harm"], words, *(f"{max(each['took_s'] for each in some):.2f}" for some in (first, again))]


def causes_in(answer: Record) -> Counter[str]:
    return Counter({cause: len(listed(nodes)) for cause, nodes in answer["missing"].items()})
