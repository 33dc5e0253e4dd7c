"""`evaluate transfer`: two clusters that exchange jobs, beside the same two apart, and beside one merged cell.

Jobs come to the clusters unevenly (exchange.py): one has more than it can run, then the other one. Meanwhile daemons
are killed in all trees, roots and transfer hosts among them, and agents of transfer hosts, and come back.

- `apart`: two trees with a cell each, without transfer.
- `joined`: the same with transfer queues in both directions.
- `merged`: one tree and one cell with the hosts of both.

An observer reads the accounting, and a file of each job: each job must begin once, and end with its status.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.elastic import gridengine
from netlab.elastic.hosted import HEAD, check_hosts
from netlab.errors import LabError
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import of_measured
from netlab.processes.launch import Progress
from netlab.transfer import exchange
from netlab.transfer import pair as pairs
from netlab.transfer.exchange import Arrival, Lived
from netlab.transfer.loads import Load
from netlab.transfer.pair import Pair
from netlab.transfer.site import obstacle
from netlab.transfer.trees import QUEUE, TreeLab

CASES: Final = ("apart", "joined", "merged")
NODES_MIN: Final = 4
SLOTS: Final = 1
"""Of each host that runs jobs."""
QUEUES: Final = f"all.q,{QUEUE}"
OPEN_S_MAX: Final = 120.0
END_S_MAX: Final = 900.0
DEAD_S: Final = 3.0
AGENTS: Final = 0.2
"""Of all deaths, those of agents of transfer hosts."""
PERMIT_S: Final = 30
"""A job that has no permit by then waits again, and starts where there is place."""


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes`: of each of the two clusters. `job_s`: how long a job runs. `phase_s`: after which the other cluster is
    the busy one. `every_s`: a daemon or an agent of each of the two clusters is killed so often, on the average; of
    the merged one twice as often."""

    nodes: tuple[int, ...] = (50,)
    fanout: int = 8
    repeat: int = 1
    timing: str = "lab"
    seconds: float = 1800.0
    job_s: float = 60.0
    phase_s: float = 240.0
    every_s: float = 10.0
    cases: tuple[str, ...] = CASES

    def runs(self) -> Iterator[Run]:
        self.check_nodes(NODES_MIN, "A cluster with a root, a transfer host, and hosts for jobs")
        check_hosts(self.rootless, gridengine.missing())
        if reason := obstacle():
            raise LabError(f"There can be no hosts here: {reason}. Nothing was done.")
        shape = {"fanout": self.fanout, "timing": self.timing, "slots": SLOTS, "bucket_s": exchange.BUCKET_S}
        times = {"seconds": self.seconds, "job_s": self.job_s, "phase_s": self.phase_s, "every_s": self.every_s}
        return self.by_turns(measure_one, {**shape, **times}, case=self.cases)


def measure_one(plan: Plan, nodes: int, number: int, case: str) -> Record:
    hosts = nodes - HEAD
    arrivals = exchange.schedule(hosts * SLOTS, plan.job_s, plan.phase_s, plan.seconds, number)
    with raised(plan, hosts, case) as pair:
        load = Load(pair, case)
        with churned(pair.trees, plan.every_s * len(pair.trees) / 2, number) as killed:
            began_at, late_s = feed(load, arrivals, plan.job_s, plan.progress)
        with suppress(LabError):  # what has not ended is among the faults
            load.await_ended(END_S_MAX)
        return {
            "jobs": len(load.jobs),
            **exchange.of_jobs(lived(load), plan.job_s, began_at),
            "late_s": round(late_s, 1),
            "abroad": load.abroad(),
            "killed": killed,
            "faults": [*load.faults(), *(f"{job.tag} has not ended" for job in load.left())],
        }


@contextmanager
def raised(plan: Plan, hosts: int, case: str) -> Iterator[Pair]:
    """Clusters that are ready for jobs. Raises LabError."""
    options: dict[str, Any] = {"fanout": plan.fanout, "timing": plan.timing, "slots": SLOTS}
    if case == "merged":
        with TreeLab("merged", runs=2 * hosts, progress=plan.progress, **options) as tree:
            yield Pair((tree,))
        return
    limit = hosts * SLOTS
    with pairs.running(runs=hosts, transfer_slots=limit, **options) as pair:
        if case == "joined":
            pair.publish(slots_max=limit, permit_s=PERMIT_S, idle_pending_max=max(1, limit // 10))
            for each in pair.trees:
                each.await_that(each.is_open, "the transfer queue is open", OPEN_S_MAX, each.facts)
        yield pair


def feed(load: Load, arrivals: Sequence[Arrival], job_s: float, progress: Progress) -> tuple[float, float]:
    """Submits each job at its time, or as soon after it as the batch system takes it; when that began, by the clock
    of the machine, and how late a job was at most, s."""
    began_at, began, late_s = time.time(), time.monotonic(), 0.0
    trees = load.pair.trees
    queue = QUEUES if len(trees) > 1 else gridengine.QUEUE
    for number, each in enumerate(arrivals):
        time.sleep(max(0.0, began + each.at_s - time.monotonic()))
        late_s = max(late_s, time.monotonic() - began - each.at_s)
        load.submit(trees[each.side % len(trees)], each.status, job_s, queue=queue)
        progress("jobs submitted", number + 1, len(arrivals))
    return began_at, late_s


def lived(load: Load) -> list[Lived]:
    """Of the jobs of the load, as the cells where they were submitted have them."""
    found = []
    for tree in load.pair.trees:
        own = {each.id for each in load.jobs if each.tree is tree}
        found += [Lived(run.submitted_at, run.ended_at) for run in load.runs(tree) if run.job in own and run.is_end]
    return found


# -- deaths ----------------------------------------------------------------------------------------------------------


@contextmanager
def churned(trees: Sequence[TreeLab], every_s: float, seed: int) -> Iterator[dict[str, int]]:
    """In each tree a daemon, or the agent of the transfer host, is killed now and then, and comes back. How many of
    each were, when the block has ended. Raises LabError: one did not come back."""
    over, killed = threading.Event(), Counter[str]()
    with ThreadPoolExecutor(len(trees)) as at_once:
        under_way = [
            at_once.submit(_churn, each, every_s, random.Random(f"{seed} {number}"), over)
            for number, each in enumerate(trees)
        ]
        found: dict[str, int] = {}
        try:
            yield found
        finally:
            over.set()
        for each in under_way:
            killed += each.result()
        found.update(killed)


def _churn(tree: TreeLab, every_s: float, chance: random.Random, over: threading.Event) -> Counter[str]:
    killed = Counter[str]()
    while not over.wait(chance.expovariate(1 / every_s)):
        if chance.random() < AGENTS:
            with suppress(LabError):  # it is being started again
                tree.kill_agent()
                killed["agents of transfer hosts"] += 1
            continue
        position = chance.choice(tree.lab.positions)
        tree.lab.kill(position)
        time.sleep(DEAD_S)
        tree.lab.start(position)
        killed["daemons"] += 1
    return killed


# -- for people ------------------------------------------------------------------------------------------------------


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    found: list[str] = record["faults"]
    return found


def is_whole(record: Record) -> bool:
    return not faults_of(record)


SHOWN: Final = ("jobs", "abroad", "per_min", "extra_s", "extra_s_high", "last_s")


def table(records: list[Record]) -> str:
    """A line for each run."""
    rows = [["case", "nodes", "run", *SHOWN]]
    for each in records:
        told = [str(each[name]) for name in SHOWN] if is_measured(each) else [each["fault"]]
        rows.append([each["case"], str(each["nodes"]), str(each["repeat"] + 1), *told])
    wrong = [f"{each['case']}: {words}" for each in records for words in faults_of(each)]
    return "\n".join([aligned([row for row in rows if len(row) == len(rows[0])]), *wrong])
