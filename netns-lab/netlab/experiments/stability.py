"""The paper's second test: does the tree come to rest, and when? (HPCS 2015, "Evaluation on virtual network")

Intuition: a camera over the dance floor. It films every change of partners for half a minute, whatever happens, and
then the light goes out; on the film one sees when the last couple changed.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from netlab.common.results import Record
from netlab.errors import LabError
from netlab.experiments import evaluate, figures
from netlab.experiments.evaluate import Run, sound
from netlab.experiments.figures import spread_text
from netlab.lab import Lab
from netlab.processes.launch import Progress

LOOK_INTERVAL_S = 0.2
FIRST_START_S_MAX = 30.0


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """All sizes with all fan-outs; each run is filmed for `seconds` from the first start."""

    fanout: tuple[int, ...]
    seconds: float = 30.0
    events: Path | None = None  # a directory for the whole film of each run

    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError when the films cannot be kept."""
        if self.events is not None and not self.events.is_dir():
            raise LabError(f"{self.events} is no directory: make it, or correct --events. Nothing was done.")
        for number in range(self.repeat):
            for nodes in self.nodes:
                for fanout in self.fanout:
                    yield Run(
                        f"{nodes} nodes, fan-out {fanout}, run {number + 1} of {self.repeat}",
                        {"nodes": nodes, "fanout": fanout, "repeat": number},
                        partial(measure_one, self, nodes, fanout, number, progress),
                    )


def measure_one(plan: Plan, nodes: int, fanout: int, number: int, progress: Progress) -> Record:
    """One film. Raises LabError."""
    with Lab(nodes, fanout, seed=1 + number, errands=True, rootless=plan.rootless, progress=progress) as lab:
        lab.touch_memory()
        lab.events = []
        progress(f"starting daemons, filming for {plan.seconds:g} s", 0, 0)
        lab.start_all()
        lab.wait(lambda cluster: cluster.first_fork_at is not None, FIRST_START_S_MAX)
        begun_at = lab.cluster.first_fork_at or 0.0
        while time.monotonic() < begun_at + plan.seconds:
            lab.look()
            time.sleep(LOOK_INTERVAL_S)
        cluster = lab.look()
        seen = [event["mono"] - begun_at for event in lab.events if event["event"] == "place"]
        changes = [at for at in seen if at <= plan.seconds]
        if plan.events is not None:
            shutil.copy(lab.directory.events, plan.events / f"stability-{nodes}-{fanout}-{number}.jsonl")
        return {
            "filmed_s": plan.seconds,
            "started_within_s": cluster.last_fork_at - begun_at,
            "last_change_s": max(changes, default=0.0),
            "last_change_after_last_start_s": max(changes, default=0.0) + begun_at - cluster.last_fork_at,
            "places_per_node": len(changes) / nodes,
            "places_by_second": _by_second(changes),
            "placed": sum(node.place is not None for node in cluster.live()),
            **figures.of_tree(cluster),
            "depth_optimum": figures.depth_optimum(nodes, fanout),
        }


def _by_second(changes: list[float]) -> list[int]:
    """How many in each second, up to the last one in which there was any."""
    counts = Counter(map(int, changes))
    return [counts[second] for second in range(max(counts, default=-1) + 1)]


def is_whole(record: Record) -> bool:
    """One tree of all nodes."""
    return record["fault"] is None and (record["roots"], record["placed"]) == (1, record["nodes"])


def table(records: list[Record]) -> str:
    """For people: medians and spread of each size and fan-out."""
    lines = ["nodes    p  one root  last change, s        after last start, s   changes a node"]
    groups: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record["nodes"], record["fanout"]), []).append(record)
    for (nodes, fanout), some in sorted(groups.items()):
        whole = sum(map(is_whole, some))
        cells = [
            spread_text([record[key] for record in sound(some)], digits)
            for key, digits in (
                ("last_change_s", 2),
                ("last_change_after_last_start_s", 2),
                ("leader_changes_per_node", 3),
            )
        ]
        row = f"{nodes:5}  {fanout:3}  {f'{whole} of {len(some)}':8}  " + "".join(f"{cell:22}" for cell in cells)
        lines.append(row.rstrip())
    return "\n".join(lines)
