"""Many runs, one after the other, each written down as soon as it is over.

Intuition: a line of the laboratory book is written while the glass is still warm; whoever is interrupted has every
line but the last. An experiment that failed is a line, too: who only repeats until it works has no figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from netlab.common import measure
from netlab.common.results import Record, check_pair, write_pair
from netlab.errors import LabError
from netlab.processes.launch import Progress


class Run(NamedTuple):
    """What is going to be done, in words; what its record begins with; and doing it, which may raise LabError."""

    title: str
    about: Record
    measure: Callable[[], Record]


@dataclass(frozen=True, kw_only=True)
class Plan(ABC):
    """What is repeated how often; fields are options of the command. Its module has `table` and `is_whole` beside."""

    nodes: tuple[int, ...]
    repeat: int = 5
    rootless: bool = False

    def missing(self) -> list[str]:
        """Sentences about what is left out on this machine."""
        return []

    @abstractmethod
    def runs(self, progress: Progress) -> Iterator[Run]:
        """Raises LabError, before the first run, when the plan cannot be carried out."""


def run_all(runs: Iterable[Run], path: Path | None, say: Callable[[str], None]) -> list[Record]:
    """What the runs say; written to `path` and the CSV beside it. `fault` is None, or why a run came to nothing.

    Raises LabError when not even the first one worked: then nothing will.
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
            if not sound(done):
                raise
            fault = str(reason)
            say(f"  {fault}")
        about = {"machine": machine, "version": __version__, "commit": measure.commit()}
        done.append({**run.about, "fault": fault, **found, **about})
        if path is not None:
            write_pair(path, done)
    return done


def sound(records: Iterable[Record]) -> list[Record]:
    """Those of runs that were measured to their end."""
    return [record for record in records if record["fault"] is None]
