"""`evaluate elastic`: a real Grid Engine grows from its master to a whole cluster, and shrinks again.

Each node has a real execd on a host of its own; --nodes is the largest size of the cluster. A job for each node runs
until all nodes serve. For the manager RATE seconds pass in one, so what takes the batch system and the nodes some
seconds seems to take minutes to it: only times of the machine are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

from netlab.common.results import Record
from netlab.common.tables import Column, comparison
from netlab.elastic import gridengine, growing
from netlab.elastic.cluster import ElasticLab
from netlab.elastic.growing import Feed, Run, Sample
from netlab.elastic.hosted import HEAD, HOME, NAMES, ROOT, check_hosts
from netlab.experiments import figures
from netlab.experiments.evaluate import Evaluation, is_measured
from netlab.experiments.evaluate import Run as Measurement
from netlab.experiments.figures import Reading
from netlab.experiments.verdicts import of_measured, verdict
from netlab.services import plans
from subord.services.elastic.stages import Stage

RATE: Final = 120.0
ADDED_WAIT_S: Final = 120.0
"""Until a node that does not come is given up."""
FULL: Final = "full"
"""A file in the home of the user: all nodes serve."""
JOB: Final = f"while [ ! -e {HOME}/{FULL} ]; do sleep 1; done"
SECONDS_A_NODE: Final = 20.0
"""Of a run, at most; a slow machine needs a third of that."""
SECONDS_MIN: Final = 240.0
NODES_MIN: Final = 2
SPARE: Final = 8
"""Nodes that can be had beyond those that are wanted, for those that could not be added."""


@dataclass(frozen=True, kw_only=True)
class Plan(Evaluation):
    """`nodes`: the largest size of the cluster, with its master. `at_once`: nodes that a poll adds at most."""

    nodes: tuple[int, ...] = (100,)
    fanout: int = 8
    repeat: int = 1
    timing: str = "lab"
    at_once: int = 10

    def runs(self) -> Iterator[Measurement]:
        self.check_nodes(NODES_MIN, "A cluster that grows")
        check_hosts(self.rootless, gridengine.missing())
        about = {"fanout": self.fanout, "layout": "dense", "timing": self.timing, "at_once": self.at_once}
        return self.by_turns(measure_one, {**about, "rate": RATE})


def measure_one(plan: Plan, nodes: int, number: int) -> Record:  # noqa: ARG001 - runs of one size differ by nothing
    options: dict[str, Any] = {"fanout": plan.fanout, "timing": plan.timing, "progress": plan.progress}
    with ElasticLab(nodes + 1 + SPARE, rate=RATE, elastic={"wait_s": ADDED_WAIT_S * RATE}, **options) as cluster:
        cluster.publish("-m", f"{nodes}", "-a", f"{plan.at_once}", "-w", "60", "--idle", "5")
        began, readings = figures.read(cluster.lab, datagrams=True), list[Reading]()

        def look(run: Run) -> None:
            sample = run.samples[-1]
            cluster.lab.progress(f"{sample.paid} nodes, {sample.stages[Stage.SERVING]} serve")
            if not readings and sample.stages[Stage.SERVING] == nodes - 1:
                readings.append(figures.read(cluster.lab, datagrams=True))
                cluster.run_on_head("touch", f"{HOME}/{FULL}")

        run = growing.run(cluster, at_the_begin(nodes), max(SECONDS_MIN, SECONDS_A_NODE * nodes), look)
        messages = of_messages(cluster, began, readings[0]) if readings else {}
        found = {**of_run(run, nodes - 1), **messages, "undone": cluster.counters()["undone"]}
        return {**found, "faults": [*growing.faults(cluster), *faults_of({"nodes": nodes, **found})]}


def at_the_begin(jobs: int) -> Feed:
    return lambda run: () if run.jobs else [JOB] * jobs


def of_run(run: Run, wanted: int) -> Record:
    """Times in seconds: `grown_s`, from the first start to when all serve; `add_s`, of a node from its start;
    `shrunk_s`, from the first removal to the last end."""
    serving = [sample for sample in run.samples if sample.stages[Stage.SERVING] == wanted]
    starts = [each.began_at for each in run.bill]
    ends = [each.ended_at for each in run.bill if each.ended_at is not None]
    add_s = _add_s(run.samples, starts)
    leaving = [sample.at for sample in run.samples if sample.stages[Stage.DRAINING]]
    return {
        "started": len(starts),
        "most": run.most,
        "grown_s": round(serving[0].at - starts[0], 1) if serving and starts else None,
        "add_s": round(median(add_s), 1) if add_s else None,
        "add_s_max": round(max(add_s), 1) if add_s else None,
        "shrunk_s": round(max(ends) - min(leaving), 1) if ends and leaving else None,
        "jobs": len(run.jobs),
        "runs": len(run.ended),
        "killed": len(run.killed),
        "sizes": _sizes(run),
    }


def _add_s(samples: Sequence[Sample], starts: Sequence[float]) -> list[float]:
    """The nodes that serve are those that were started first, so each step up is the next of them."""
    found: list[float] = []
    for sample in samples:
        while len(found) < min(sample.stages[Stage.SERVING], len(starts)):
            found.append(sample.at - starts[len(found)])
    return found


def _sizes(run: Run) -> list[list[float]]:
    """Whenever it has changed: seconds since the first job, nodes that are paid for, nodes that serve."""
    sizes: list[list[float]] = []
    for each in run.samples:
        row = [round(each.at - run.began_at, 1), each.paid, each.stages[Stage.SERVING]]
        if not sizes or sizes[-1][1:] != row[1:]:
            sizes.append(row)
    return sizes


def of_messages(cluster: ElasticLab, before: Reading, after: Reading) -> Record:
    """From before the plan until all serve: what is sent and brought, with headers, of a node that was added, of ROOT
    and of HEAD; and datagrams of the daemons."""
    wanted = {cluster.lab.address(position): name for position, name in NAMES.items()}
    added = [each for each in after.cpu_s if each not in wanted]

    def passed(node: str, place: int) -> int:
        ways = ((before.sent, after.sent), (before.brought, after.brought))
        return sum(new[node][place] - old[node][place] for old, new in ways)

    found: Record = {"messages_s": round(after.mono - before.mono, 1)}
    for position in (ROOT, HEAD):
        node = cluster.lab.address(position)
        found |= {f"{NAMES[position]}_bytes": passed(node, 0), f"{NAMES[position]}_packets": passed(node, 1)}
        found[f"{NAMES[position]}_cpu_s"] = round(after.cpu_s[node] - before.cpu_s[node], 2)
    return found | {
        "node_bytes": round(fmean(passed(each, 0) for each in added)),
        "node_packets": round(fmean(passed(each, 1) for each in added)),
        "node_datagrams": round(fmean(after.datagrams_sent[each] for each in added)),
        "node_cpu_s": round(fmean(after.cpu_s[each] for each in added), 2),
    }


@of_measured
def faults_of(record: Record) -> list[str]:
    """What must not be, in words."""
    if "faults" in record:
        found: list[str] = record["faults"]
        return found
    wanted = record["nodes"] - 1
    bad = {
        f"the cluster had {record['most'] + 1} nodes at most": record["most"] != wanted,
        f"{record['started']} nodes were paid for": record["started"] != wanted,
        f"{record['undone']} nodes could not be added": record["undone"],
        f"{record['killed']} jobs were killed": record["killed"],
        f"{record['jobs']} jobs had {record['runs']} runs": record["jobs"] != record["runs"],
    }
    return [words for words, holds in bad.items() if holds]


def is_whole(record: Record) -> bool:
    return not faults_of(record)


COLUMNS: Final = (
    Column("grown_s", "grown, s", 0),
    Column("add_s", "a node, s", 1),
    Column("add_s_max", "slowest, s", 1),
    Column("shrunk_s", "shrunk, s", 0),
    Column("head_packets", "packets of the queue's node", 0),
    Column("root_packets", "of the root", 0),
    Column("node_packets", "of a node", 0),
    Column("node_bytes", "bytes of a node", 0),
)


def table(records: list[Record]) -> str:
    """For people."""
    keys = ("nodes", "fanout", "at_once")
    shown = comparison(records, keys, COLUMNS, is_whole, counted="held", measured=is_measured, show=plans.cell)
    return "\n".join([shown, *(verdict(faults_of(each)) for each in records if not is_whole(each))])
