"""Usage of classes between two readings of the kernel's counters. Pure.

Inputs are samples, with times of a monotonic clock; outputs are what grew, and percents of the allowance of the node:
all its processors, or the quota of the group above the classes. Invariants: no percent is negative, and those of all
classes sum to at most 100, because a leader refuses a report that says otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple, TypeVar

PERCENT: Final = 100.0
NS: Final = 1_000_000_000
WAITING_MIN: Final = 0.1
"""A tenth of the time. A class that waits less has what it needs: each wake-up of a task waits a little."""

_Key = TypeVar("_Key", bound=Hashable)
_Name = TypeVar("_Name", bound=Hashable)


class Counters(NamedTuple):
    """Of one group. `waited_ns`: in which a task of it waited for a processor; None: the kernel does not count it."""

    used_ns: int
    waited_ns: int | None = None


def grown(before: Mapping[_Key, Counters], after: Mapping[_Key, Counters]) -> dict[_Key, Counters]:
    """How much each group's counters grew. A new group has grown from 0, as one whose counter went back: it was made
    anew, or its counter was reset."""
    found = {}
    for key, now in after.items():
        then = before.get(key)
        if then is None or now.used_ns < then.used_ns:
            found[key] = now
        else:
            found[key] = Counters(now.used_ns - then.used_ns, _waited(then.waited_ns, now.waited_ns))
    return found


def _waited(then: int | None, now: int | None) -> int | None:
    if then is None or now is None:
        return None
    return now - then if now >= then else now


def percents(used_ns: Mapping[_Name, int], elapsed_s: float, cores: float) -> dict[_Name, float]:
    """Of the allowance: `cores` for `elapsed_s`. A sum above 100 is scaled down: the counters were read a moment
    after the clock, and a quota may be exceeded for a moment."""
    allowance = max(elapsed_s * cores * NS, sum(used_ns.values()))
    return {name: PERCENT * used / allowance if used else 0.0 for name, used in used_ns.items()}


def has_waited(waited_ns: int, elapsed_s: float) -> bool:
    """Whether tasks of a group waited for a processor for more than a small part of the time."""
    return waited_ns >= WAITING_MIN * elapsed_s * NS


def runnable_min(used_ns: int, elapsed_s: float) -> float:
    """So many runnable tasks at the end of the period show that work was left over: more than the processors that the
    class has used. One task that had a processor to itself all the time is runnable, but needs no more."""
    return used_ns / (elapsed_s * NS) + WAITING_MIN
