"""Many runs, one after the other, each written down as soon as it is over.

An interrupted evaluation keeps all runs but the last. A run that fails is recorded, too, with its `fault`.
"""

from __future__ import annotations

import itertools
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netlab.common import measure
from netlab.common.results import Record, check_pair, write_pair
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.launch import Progress, silent


class Run(NamedTuple):
    """A title; the beginning of the record; the measurement, which may raise LabError; a line about its result."""

    title: str
    about: Record
    measure: Callable[[], Record]
    summary: Callable[[Record], str] = lambda _record: ""


@dataclass(frozen=True, kw_only=True)
class Evaluation(ABC):
    """What is repeated how often; fields are options of the command. Its module also has `table` and `is_whole`."""

    nodes: tuple[int, ...]
    repeat: int = 5
    rootless: bool = False
    events: Path | None = None  # a directory for the event log of each run
    progress: Progress = silent

    def missing(self) -> list[str]:
        """Sentences about what is left out on this machine."""
        return []

    @abstractmethod
    def runs(self) -> Iterator[Run]:
        """Raises LabError, before the first run, when the plan cannot be carried out."""

    def by_turns(
        self,
        measure: Callable[..., Record],
        about: Record | None = None,
        summary: Callable[[Record], str] = lambda _record: "",
        **axes: Sequence[Any],
    ) -> Iterator[Run]:
        """Each size and repeat with every value of the axes, by turns: other load on the machine affects all of them.

        `measure` is given the plan, the size, the number of the repeat and the values, by name; `about` is in every
        record. Raises LabError when the event logs cannot be kept.
        """
        if self.events is not None and not self.events.is_dir():
            raise LabError(f"{self.events} is no directory: make it, or correct --events. Nothing was done.")
        for nodes, number in itertools.product(self.nodes, range(self.repeat)):
            for values in itertools.product(*axes.values()):
                chosen = dict(zip(axes, values, strict=True))
                words = (f"{name} {value}" for name, value in chosen.items())
                title = ", ".join((f"{nodes} nodes", *words, f"run {number + 1} of {self.repeat}"))
                record = {"nodes": nodes, **chosen, "repeat": number, **(about or {})}
                yield Run(title, record, partial(measure, self, nodes, number, **chosen), summary)

    @contextmanager
    def raised(self, nodes: int, fanout: int, *, log: str = "", **options: Any) -> Iterator[Lab]:
        """A lab for one run; its event log is kept by the name `log`, also if the run fails. Raises LabError."""
        with Lab(nodes, fanout, rootless=self.rootless, progress=self.progress, **options) as lab:
            try:
                yield lab
            finally:
                if self.events is not None:
                    shutil.copy(lab.directory.events, self.events / f"{log}.jsonl")

    def check_nodes(self, least: int, what: str, option: str = "--nodes") -> None:
        if min(self.nodes) < least:
            raise LabError(f"{what} takes {least} nodes or more: correct {option}. Nothing was done.")


def run_all(runs: Iterable[Run], path: Path | None, say: Callable[[str], None]) -> list[Record]:
    """The records of the runs, also in `path` and the CSV beside it. `fault` is None, or why a run failed.

    Raises LabError when the first run fails: then all others will.
    """
    from subord import __version__

    if path is not None:
        check_pair(path)
    done: list[Record] = []
    for run in runs:
        say(run.title)
        machine, fault, found = measure.machine(), None, {}
        try:
            found = run.measure()
        except LabError as reason:
            if not any(map(is_measured, done)):
                raise
            fault = str(reason)
            say(f"  {fault}")
        program = {"version": __version__, "commit": measure.commit()}
        about = {"machine": machine, "date": time.strftime("%Y-%m-%d"), **program}
        done.append({**run.about, "fault": fault, **about, **found})
        if found and (words := run.summary(found)):
            say(words)
        if path is not None:
            write_pair(path, done)
    return done


def is_measured(record: Record) -> bool:
    return record["fault"] is None
