"""The tasks of array jobs, as Grid Engine (`1-16:5,20`) and Slurm (`1-20:5%3`) write them, and how many of them get
records of their own.

Input is text; outputs are ranges, and jobs. Invariant: an answer has at most TASKS_MAX records for tasks besides one
for each array, and their `tasks` add up to all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from subord.services.batch.records import Job

TASKS_MAX: Final = 10_000
TASK_MAX: Final = 1 << 40
_PART: Final = re.compile(r"(\d{1,12})(?:-(\d{1,12})(?::(\d{1,12}))?)?", re.ASCII)


def ranges_of(text: str) -> tuple[range, ...]:
    """`text` without `%` and what follows, which limits how many run at a time. Raises ValueError."""
    return tuple(map(_range, text.partition("%")[0].split(",")))


def _range(part: str) -> range:
    found = _PART.fullmatch(part.strip())
    if found is None:
        raise ValueError(f"{part!r} is not a range of tasks")
    first = int(found[1])
    last, step = int(found[2] or first), int(found[3] or 1)
    if last < first or step == 0 or last > TASK_MAX:
        raise ValueError(f"{part!r} is not a range of tasks")
    return range(first, last + 1, step)


class Expansion:
    """The tasks of one answer."""

    def __init__(self, tasks_max: int = TASKS_MAX) -> None:
        self._left = tasks_max

    def jobs(self, job: Job, tasks: tuple[range, ...]) -> Iterator[Job]:
        """One record a task; when there are too many, the last one stands for all that are left."""
        total = sum(map(len, tasks))
        alone = min(self._left, total)
        self._left -= alone
        numbers = chain.from_iterable(tasks)
        yield from (job._replace(task=number) for number in islice(numbers, alone))
        if alone < total:
            yield job._replace(task=next(numbers), tasks=total - alone)
