"""Which groups of this node belong to which class, now.

Inputs are the configured entries and a hierarchy; output are groups. Invariants: a group belongs to one class, that
of the first entry that matches it; a group that vanishes meanwhile is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from subord.config.classes import Entry
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.files import matching
from subord.services.shares.actuators.usage import Counters
from subord.services.shares.actuators.weights import Scale


class Hierarchy(Protocol):
    """Groups with weights and counters: a version of cgroups (versions.py), or slices (slices.py). Methods raise
    OSError."""

    @property
    def kind(self) -> str: ...
    @property
    def scale(self) -> Scale: ...
    @property
    def tasks(self) -> str: ...
    @property
    def top(self) -> str: ...
    @property
    def is_read_only(self) -> bool: ...

    def check(self) -> None: ...
    def identity(self, group: str) -> int: ...
    def value(self, group: str, identity: int) -> str: ...
    def put(self, group: str, identity: int, text: str) -> None: ...
    def is_idle(self, group: str) -> bool: ...
    def counters(self, group: str) -> Counters: ...
    def quota(self, group: str) -> float: ...


class Group(NamedTuple):
    """A group of a class. `identity` tells it from a later one of its name."""

    name: str
    path: str
    identity: int


def groups_of(entries: Iterable[Entry], hierarchy: Hierarchy) -> list[Group]:
    """Raises ActuatorError: too many match."""
    found: dict[str, Group] = {}
    for entry in entries:
        for path in matching(hierarchy.top, entry.pattern):
            if path not in found:
                with suppress(OSError):
                    found[path] = Group(entry.name, path, hierarchy.identity(path))
    return list(found.values())


def demand_neighbours(groups: Sequence[Group]) -> None:
    """Raises ActuatorError: the kernel would not compare their weights."""
    first: dict[str, Group] = {}
    for group in groups:
        first.setdefault(above(group.path), group)
    if len(first) > 1:
        one, other, *_ = first.values()
        raise ActuatorError(
            f"{one.path} of class {one.name} and {other.path} of class {other.name} do not stand beside each other, "
            "and the kernel compares only the weights of neighbours; nothing was changed: correct shares.classes"
        )


def demand_weights(groups: Iterable[Group], hierarchy: Hierarchy) -> None:
    """What the kernel shows as the weight of an idle group must not be put back later: the group would be starved.
    Raises ActuatorError."""
    for group in groups:
        if hierarchy.is_idle(group.path):
            raise ActuatorError(
                f"{group.path} of class {group.name} is idle (cpu.idle is 1), and an idle group has no weight; "
                "nothing was changed: write 0 to its cpu.idle"
            )


def above(path: str) -> str:
    """The group that a group is in; "" is the first one of the hierarchy."""
    return os.path.dirname(path).rstrip("/")
