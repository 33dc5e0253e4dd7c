"""What the evaluations of services share: their options, peers that are not installed, and their tables.

Each record is of one system in a lab of its own. What subord has done is judged; of peers it is told.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from netlab.common.results import Record
from netlab.common.tables import Column, comparison, groups, spread
from netlab.experiments.evaluate import Evaluation, Run, is_measured
from netlab.experiments.verdicts import Faults, of_measured
from netlab.lab import Lab
from netlab.peers.programs import NodePrograms, programs_on
from netlab.services import ssh

SUBORD = "subord"
NODES_MIN = 4


@dataclass(frozen=True, kw_only=True)
class PeersPlan(Evaluation):
    """Of subord beside peers."""

    fanout: int = 8
    repeat: int = 3
    timing: str = "lan"

    @property
    @abstractmethod
    def programs(self) -> Mapping[str, Sequence[str]]:
        """Peers that are wanted -> the programs that each needs."""

    @property
    def absent(self) -> dict[str, str]:
        """Peers that are left out, and why."""
        return ssh.missing_packages(self.programs)

    def missing(self) -> list[str]:
        return [f"{name} is left out: {why}." for name, why in self.absent.items()]

    def check(self, option: str = "--nodes") -> None:
        """Raises LabError."""
        self.check_nodes(NODES_MIN, "An evaluation of services", option)

    def judged(self, measure: Callable[..., Record], faults_of: Faults, **axes: Any) -> Iterator[Run]:
        """By turns, as `by_turns`. `faults_of`: what must not be in a record; it is written down."""

        def judged(plan: PeersPlan, nodes: int, number: int, **chosen: str) -> Record:
            found = measure(plan, nodes, number, **chosen)
            return {**found, "faults": faults_of({"nodes": nodes, "fanout": self.fanout, **chosen, **found})}

        about = {"fanout": self.fanout, "layout": "dense", "timing": self.timing, "absent": self.absent}
        return self.by_turns(judged, about, **axes)

    @contextmanager
    def turn(self, nodes: int, log: str, **options: Any) -> Iterator[tuple[Lab, NodePrograms]]:
        """A lab for one record, and programs of peers on its nodes."""
        with (
            self.raised(nodes, self.fanout, log=log, timing=self.timing, **options) as lab,
            programs_on(lab) as programs,
        ):
            yield lab, programs


@dataclass(frozen=True, kw_only=True)
class PartsPlan(PeersPlan):
    """`nodes`: sizes of the part `speed`; `fault_nodes`: of all others. `times`: commands, or turns, in each lab."""

    fault_nodes: tuple[int, ...] = (300,)
    times: int = 5
    only: tuple[str, ...] = ()
    peers: bool = True

    @property
    def systems(self) -> list[str]:
        """Those that take turns."""
        return [SUBORD, *(name for name in self.programs if name not in self.absent)]

    def part_runs(
        self, measure: Callable[..., Record], faults_of: Faults, systems: Mapping[str, Sequence[str]]
    ) -> Iterator[Run]:
        """Each part with its systems, by turns. Raises LabError before the first run."""
        others = replace(self, nodes=self.fault_nodes)
        sized = {part: self if part == "speed" else others for part in systems if part in self.only}
        for part, plan in sized.items():
            plan.check("--nodes" if part == "speed" else "--fault-nodes")
        for part, plan in sized.items():
            yield from plan.judged(measure, faults_of, part=(part,), system=systems[part])


class Part(NamedTuple):
    """What must not be in its records of subord, and the figures of its table."""

    faults_of: Faults
    columns: Sequence[Column]


@of_measured
def faults_of(record: Record, parts: Mapping[str, Part]) -> list[str]:
    """What must not be, in words, by the part of the record."""
    return parts[record["part"]].faults_of(record) if record["system"] == SUBORD else []


def is_whole(record: Record, parts: Mapping[str, Part]) -> bool:
    return not faults_of(record, parts)


def table(records: list[Record], parts: Mapping[str, Part]) -> str:
    """For people: one table for each part, what went wrong, and what is left out."""
    lines = []
    for (part,), some in groups(records, ("part",)).items():
        lines += [part, *compared(some, parts[part].columns, lambda record: faults_of(record, parts))]
    return "\n".join([*lines, *left_out(records)])


def compared(records: list[Record], columns: Sequence[Column], faults_of: Faults) -> list[str]:
    """A table by size and system, and what went wrong."""

    def is_whole(record: Record) -> bool:
        return not faults_of(record)

    keys = ("nodes", "fanout", "system")
    whole = comparison(records, keys, columns, is_whole, counted="held", measured=is_measured, show=cell)
    wrong = (
        f"{record['nodes']} nodes, {record['system']}, run {record['repeat'] + 1}: {words}"
        for record in records
        for words in faults_of(record)
    )
    return [whole, *wrong]


def left_out(records: list[Record]) -> list[str]:
    absent = {name: why for record in records for name, why in record["absent"].items()}
    return [f"{name}: missing ({why})" for name, why in absent.items()]


def cell(records: list[Record], column: Column) -> str:
    return spread(measured(records, column.key), column.digits)


def measured(records: Iterable[Record], key: str) -> list[Any]:
    """Each value; of lists all that are in them."""
    found = [record.get(key) for record in records]
    return [each for value in found for each in (value if isinstance(value, list) else [value])]
