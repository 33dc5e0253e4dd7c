"""What the seal costs: the same start and the same rest, sealed and in the clear, by turns.

Intuition: the same walk with and without an umbrella, on the same day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from netlab.common.results import Record
from netlab.experiments import evaluate
from netlab.experiments.evaluate import Run, sound
from netlab.experiments.figures import spread_text
from netlab.experiments.start_up import Campaign, measure_one
from netlab.experiments.start_up import Run as Start
from netlab.processes.launch import Progress

FANOUT = 8
WAYS = {"sealed": False, "in the clear": True}
COLUMNS = (
    ("stable_after_last_start_s", "stable, s", 2),
    ("cpu_s_per_node", "CPU until then, s", 3),
    ("rest_packets_per_s", "packets/s", 2),
    ("rest_bytes_per_s", "B/s", 0),
    ("rest_cpu_percent", "CPU, %", 3),
    ("pss_mib_per_node", "PSS, MiB", 1),
)


@dataclass(frozen=True, kw_only=True)
class Plan(evaluate.Plan):
    """Ways take turns, so that what happens on the machine meanwhile happens to both."""

    rest_s: float = 30.0

    def runs(self, progress: Progress) -> Iterator[Run]:
        for nodes in self.nodes:
            for number in range(self.repeat):
                for way, insecure in WAYS.items():
                    campaign = Campaign(
                        nodes=(nodes,),
                        fanout=(FANOUT,),
                        rest_s=self.rest_s,
                        insecure=insecure,
                        rootless=self.rootless,
                    )
                    start = Start(nodes=nodes, fanout=FANOUT, start="together", number=number)
                    yield Run(
                        f"{nodes} nodes, {way}, run {number + 1} of {self.repeat}",
                        {"nodes": nodes, "way": way, "repeat": number},
                        partial(measure_one, campaign, start, progress),
                    )


def is_whole(record: Record) -> bool:
    """One stable tree of all nodes."""
    return record["fault"] is None and bool(record["stable"])


def table(records: list[Record]) -> str:
    """For people: medians and spread."""
    lines = ["nodes  way           " + "  ".join(f"{title:>24}" for _, title, _ in COLUMNS)]
    good = sound(records)
    for nodes in dict.fromkeys(record["nodes"] for record in good):
        for way in WAYS:
            some = [each for each in good if (each["nodes"], each["way"]) == (nodes, way)]
            cells = [
                spread_text([each[key] for each in some if each.get(key) is not None], digits)
                for key, _, digits in COLUMNS
            ]
            lines.append(f"{nodes:5}  {way:12}  " + "  ".join(f"{cell:>24}" for cell in cells))
    return "\n".join(lines)
