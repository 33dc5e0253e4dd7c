"""What the evaluations of services share: their options, peers that are not installed, and their tables.

Each record is of one part and one system in a lab of its own. What subord has done is judged; of peers it is told.
"""

from __future__ import annotations

import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netlab.common.results import Record
from netlab.common.tables import Column, comparison, groups, spread
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import Faults
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms, high_priority
from netlab.services import ssh

SUBORD = "subord"
NODES_MIN = 4


@dataclass(frozen=True, kw_only=True)
class ServicePlan(Evaluation):
    """`nodes`: sizes of the part `speed`; `fault_nodes`: of all others. `times`: commands, or turns, in each lab."""

    fault_nodes: tuple[int, ...] = (300,)
    fanout: int = 8
    repeat: int = 3
    times: int = 5
    only: tuple[str, ...] = ()
    peers: bool = True
    timing: str = "lan"

    @property
    @abstractmethod
    def programs(self) -> Mapping[str, Sequence[str]]:
        """Peer -> the programs that it needs."""

    @property
    def absent(self) -> dict[str, str]:
        """Peers that are left out, and why."""
        return ssh.missing_packages(self.programs) if self.peers else {}

    @property
    def systems(self) -> list[str]:
        """Those that take turns."""
        return [SUBORD, *(name for name in self.programs if self.peers and name not in self.absent)]

    def missing(self) -> list[str]:
        return [f"{name} is left out: {why}." for name, why in self.absent.items()]

    def part_runs(
        self, measure: Callable[..., Record], faults_of: Faults, parts: Mapping[str, Sequence[str]]
    ) -> Iterator[Run]:
        """Each part with its systems, by turns. `faults_of`: what must not be in a record; it is written down."""

        def judged(plan: ServicePlan, nodes: int, number: int, **chosen: str) -> Record:
            found = measure(plan, nodes, number, **chosen)
            record = {"nodes": nodes, "fanout": self.fanout, "fault": None, **chosen, **found}
            return {**found, "faults": faults_of(record)}

        about = {"fanout": self.fanout, "layout": "dense", "timing": self.timing, "absent": self.absent}
        for part, systems in parts.items():
            if part in self.only:
                sized = self if part == "speed" else replace(self, nodes=self.fault_nodes)
                sized.check_nodes(NODES_MIN, "An evaluation of services")
                yield from sized.by_turns(judged, about, part=(part,), system=systems)

    @contextmanager
    def turn(self, nodes: int, part: str, system: str, number: int) -> Iterator[tuple[Lab, NodePrograms, Path]]:
        """A lab for one record; programs of peers on its nodes; a directory of its own."""
        log = f"{part}-{system}-{nodes}-{number}"
        with (
            self.raised(nodes, self.fanout, log=log, agents=system == SUBORD, timing=self.timing) as lab,
            tempfile.TemporaryDirectory(prefix="services-") as directory,
            high_priority(),
            NodePrograms(lab, Path(directory)) as programs,
        ):
            yield lab, programs, Path(directory)


def faults_of(record: Record, faults: Mapping[str, Faults]) -> list[str]:
    """What must not be, in words, by the part of the record."""
    if not is_measured(record):
        return [str(record["fault"])]
    return faults[record["part"]](record) if record["system"] == SUBORD else []


def table(records: list[Record], columns: Mapping[str, Sequence[Column]], of: Faults) -> str:
    """For people: one table for each part, what went wrong, and what is left out."""
    keys = ("nodes", "fanout", "system")
    lines = []
    for (part,), some in groups(records, ("part",)).items():
        whole = comparison(
            some, keys, columns[part], lambda record: not of(record), counted="held", measured=is_measured, show=cell
        )
        lines += [part, whole]
        lines += [
            f"{record['nodes']} nodes, {record['system']}, run {record['repeat'] + 1}: {words}"
            for record in some
            for words in of(record)
        ]
    absent = {name: why for record in records for name, why in record["absent"].items()}
    return "\n".join([*lines, *(f"{name}: missing ({why})" for name, why in absent.items())])


def cell(records: list[Record], column: Column) -> str:
    return spread(measured(records, column.key), column.digits)


def measured(records: Iterable[Record], key: str) -> list[Any]:
    """Each value; of lists all that are in them."""
    found = [record.get(key) for record in records]
    return [each for value in found for each in (value if isinstance(value, list) else [value])]
