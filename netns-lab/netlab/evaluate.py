"""Many runs, one after the other, each written down as soon as it is over.

Intuition: a line of the laboratory book is written while the glass is still warm; whoever is interrupted has every
line but the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from netlab import measure
from netlab.results import Record, check_pair, write_pair

Run = tuple[str, Callable[[], Record]]
"""What is going to be done, in words, and doing it."""


def run_all(runs: Iterable[Run], path: Path | None, say: Callable[[str], None]) -> list[Record]:
    """What the runs say; written to `path` and the CSV beside it. Raises LabError."""
    from subord import __version__

    if path is not None:
        check_pair(path)
    done: list[Record] = []
    for title, run in runs:
        say(title)
        machine = measure.machine()
        done.append({**run(), "machine": machine, "version": __version__})
        if path is not None:
            write_pair(path, done)
    return done
