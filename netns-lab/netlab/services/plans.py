"""What the evaluations of services share: their options, peers that are not installed, and their tables.

Each record is of one part and one system in a lab of its own. What subord has done is judged; of peers it is told.
"""

from __future__ import annotations

import tempfile
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
from netlab.peers.programs import NodePrograms
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

    def absent(self, peers: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Peers that are left out, and why."""
        return ssh.missing_packages(peers) if self.peers else {}

    def chosen(self, peers: Mapping[str, Sequence[str]]) -> list[str]:
        """The systems that take turns."""
        absent = self.absent(peers)
        return [SUBORD, *(name for name in peers if self.peers and name not in absent)]

    def part_runs(
        self, measure: Callable[..., Record], parts: Mapping[str, Sequence[str]], absent: Mapping[str, str]
    ) -> Iterator[Run]:
        """Each part with its systems, by turns."""
        about = {"fanout": self.fanout, "layout": "dense", "timing": self.timing, "absent": dict(absent)}
        for part, systems in parts.items():
            if part in self.only:
                sized = self if part == "speed" else replace(self, nodes=self.fault_nodes)
                sized.check_nodes(NODES_MIN, "An evaluation of services")
                yield from sized.by_turns(measure, about, part=(part,), system=systems)

    @contextmanager
    def turn(self, nodes: int, part: str, system: str, number: int) -> Iterator[tuple[Lab, NodePrograms, Path]]:
        """A lab for one record; programs of peers on its nodes; a directory of its own."""
        log = f"{part}-{system}-{nodes}-{number}"
        with (
            self.raised(nodes, self.fanout, log=log, agents=system == SUBORD, timing=self.timing) as lab,
            tempfile.TemporaryDirectory(prefix="services-") as directory,
            NodePrograms(lab, Path(directory)) as programs,
        ):
            yield lab, programs, Path(directory)


def sentences(absent: Mapping[str, str]) -> list[str]:
    return [f"{name} is left out: {why}." for name, why in absent.items()]


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
            some, keys, columns[part], lambda record: not of(record), counted="held", measured=is_measured, show=_cell
        )
        lines += [part, whole]
        lines += [
            f"{record['nodes']} nodes, {record['system']}, run {record['repeat'] + 1}: {words}"
            for record in some
            for words in of(record)
        ]
    absent = {name: why for record in records for name, why in record["absent"].items()}
    return "\n".join([*lines, *(f"{name}: missing ({why})" for name, why in absent.items())])


def _cell(records: list[Record], column: Column) -> str:
    return spread(measured(records, column.key), column.digits)


def measured(records: Iterable[Record], key: str) -> list[Any]:
    """Each value; of lists all that are in them."""
    found = [record.get(key) for record in records]
    return [each for value in found for each in (value if isinstance(value, list) else [value])]
