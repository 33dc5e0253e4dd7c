"""How many tasks of a group can run now: in state R, which run on a processor or wait for one (proc(5)).

Inputs are the directory of a group and that of processes; output is a number that is at most exact. Reading is
bounded: of groups below the group, of tasks of all groups of a class, and it stops at a number that is enough. A task
that ends meanwhile does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from os import scandir
from typing import Final

from subord.services.shares.actuators.files import read_at

GROUPS_MAX: Final = 256
TASKS_MAX: Final = 1024
LIST_BYTES_MAX: Final = 16 * TASKS_MAX
STAT_BYTES_MAX: Final = 512


class Budget:
    """How many tasks may still be read."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks


def runnable(group: str, tasks: str, proc: str, enough: float, budget: Budget) -> int:
    """At most the first number that is at least `enough`. `tasks`: the name of the file that lists them."""
    count = 0
    for number in islice(_tasks(group, tasks), budget.tasks):
        budget.tasks -= 1
        count += _can_run(f"{proc}/{number}/stat")
        if count >= enough:
            break
    return count


def _tasks(group: str, tasks: str) -> Iterator[str]:
    """The numbers of the tasks of a group, and of those below it."""
    for directory in islice(_groups(group), GROUPS_MAX):
        with suppress(OSError):  # vanished
            listed = read_at(None, f"{directory}/{tasks}", LIST_BYTES_MAX)
            yield from listed[: listed.rfind("\n") + 1].split()  # the last number may be cut


def _groups(group: str) -> Iterator[str]:
    yield group
    with suppress(OSError), scandir(group) as entries:
        below = [each.path for each in islice((e for e in entries if e.is_dir(follow_symlinks=False)), GROUPS_MAX)]
        for path in below:
            yield from _groups(path)


def _can_run(path: str) -> bool:
    try:
        _, _, fields = read_at(None, path, STAT_BYTES_MAX).rpartition(")")  # the name of a task may hold anything
    except OSError:
        return False
    return fields.startswith(" R ")
