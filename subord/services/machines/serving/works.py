"""What the agent of a server has under way with machines, and what came of it.

A machine has at most one work. Works are of one life of the agent: what they have done is in libvirt, with a stage
where it is not complete. Times are seconds since 1970. Invariant: what is kept is bounded.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from subord.services.machines.model import Doing, Machine, State

FAULTS_MAX: Final = 64
FAULT_S: Final = 900.0
"""So long a fault of a machine that is not there is told: of a clone that could not be made."""


class Works:
    def __init__(self) -> None:
        self._under_way = dict[str, Machine]()
        self._since = dict[str, tuple[State, Doing | None, float]]()
        self._faults = dict[str, tuple[str, float]]()

    @property
    def under_way(self) -> dict[str, Machine]:
        """By name, each with what is done. A copy, for threads."""
        return dict(self._under_way)

    @property
    def faults(self) -> dict[str, str]:
        """Why the last change of a machine came to nothing, the oldest first."""
        return {name: fault for name, (fault, _) in self._faults.items()}

    def begin(self, machine: Machine, doing: Doing) -> None:
        assert machine.name not in self._under_way, f"{machine.name} has a work"
        self._under_way[machine.name] = machine._replace(doing=doing)

    def become(self, name: str, doing: Doing) -> None:
        """The next part of the same work."""
        self._under_way[name] = self._under_way[name]._replace(doing=doing)

    def end(self, name: str, fault: str = "") -> None:
        del self._under_way[name]
        self.note(name, fault)

    def note(self, name: str, fault: str) -> None:
        """What came of a change."""
        self._faults.pop(name, None)
        if fault:
            self._faults[name] = (fault, time.time())
            while len(self._faults) > FAULTS_MAX:
                del self._faults[next(iter(self._faults))]

    def since(self, machine: Machine) -> float:
        """When this agent has first seen the machine in its state."""
        known = self._since.get(machine.name)
        if known is None or known[:2] != (machine.state, machine.doing):
            known = self._since[machine.name] = (machine.state, machine.doing, time.time())
        return known[2]

    def keep(self, names: Collection[str]) -> None:
        """These machines are there; what is known of others is forgotten."""
        for name in self._since.keys() - names:
            del self._since[name]
        late = time.time() - FAULT_S
        for name in [each for each, (_, at) in self._faults.items() if each not in names and at < late]:
            del self._faults[name]
