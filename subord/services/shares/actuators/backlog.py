"""Whether a class has left work over at the end of a period, so that it needs more than it had (decision A1).

The first source that knows counts: the queue of the service; the pressure of a group, which cgroup v2 counts; its
runnable tasks at the end of the period. Inputs are what the groups of the class have grown by; outputs are the groups
with work left over, and a text for a queue that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from subord.services.shares.actuators.groups import Group, Hierarchy
from subord.services.shares.actuators.queues import QueueError, length_of
from subord.services.shares.actuators.tasks import TASKS_MAX, Budget, runnable
from subord.services.shares.actuators.usage import Counters, has_waited, runnable_min

AT_ONCE_MAX: Final = 64
"""Queues; with all that a document can have, two times RUN_S_MAX are less than the daemon waits."""


def asked(queues: Mapping[str, str]) -> dict[str, tuple[bool | None, str]]:
    """Of the classes with queues. None: its length is not known, for the reason of the text. All at once: several
    programs that hang take no longer than one, so the daemon does not take the agent for hung."""
    if not queues:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE_MAX, len(queues))) as threads:
        return dict(zip(queues, threads.map(_asked, queues, queues.values()), strict=True))


def _asked(name: str, path: str) -> tuple[bool | None, str]:
    try:
        return length_of(path) > 0, ""
    except QueueError as error:
        return None, f"the queue of class {name}, {path}, {error}; what the kernel says counts instead"


def seen(growth: Mapping[Group, Counters], elapsed_s: float, hierarchy: Hierarchy, proc: str) -> frozenset[Group]:
    """The groups of one class that have work left over, as the kernel says."""
    budget = Budget(TASKS_MAX)

    def is_left_over(group: Group, grown: Counters) -> bool:
        if grown.waited_ns is not None:
            return has_waited(grown.waited_ns, elapsed_s)
        enough = runnable_min(grown.used_ns, elapsed_s)
        return runnable(hierarchy.top + group.path, hierarchy.tasks, proc, enough, budget) >= enough

    return frozenset(group for group, grown in growth.items() if is_left_over(group, grown))
