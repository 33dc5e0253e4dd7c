"""What the scenario has done to the nodes so far: which of them should run, and which can reach each other.

The event log says what the daemons do; an expectation compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Positions = frozenset[int]


@dataclass
class NodeState:
    """Positions of nodes, by what has happened to them. `nodes`: all of the scenario."""

    nodes: tuple[int, ...]
    running: set[int] = field(default_factory=set)
    paused: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)
    vanished: set[int] = field(default_factory=set)  # their cables are out as well
    sides: tuple[Positions, ...] = ()  # of a partition, disjoint, together all nodes; (): there is none

    @property
    def living(self) -> list[int]:
        """Those that run and are not stopped, ascending."""
        return sorted(self.running - self.paused)

    def ended(self, position: int) -> None:
        self.running.discard(position)
        self.paused.discard(position)

    def parts(self) -> list[Positions]:
        """The living, divided into those that reach each other; largest part first."""
        return parts(self.living, self.cut | self.vanished, self.sides)


def sides_of(groups: Iterable[Iterable[int]], nodes: Iterable[int]) -> tuple[Positions, ...]:
    """The groups made disjoint (the last one counts), and all others as one more. Empty ones are left out."""
    number_of = dict.fromkeys(nodes, -1)
    for number, group in enumerate(groups):
        number_of.update(dict.fromkeys(group, number))
    found: dict[int, set[int]] = {}
    for position, number in number_of.items():
        found.setdefault(number, set()).add(position)
    return tuple(frozenset(found[number]) for number in sorted(found, key=lambda n: (n < 0, n)))


def parts(living: Iterable[int], unplugged: Iterable[int], sides: Sequence[Positions]) -> list[Positions]:
    """Components of the network of the living: each unplugged node alone, the others by their side.

    A way that is blocked in one direction divides no nodes.
    """
    alive, alone = set(living), set(unplugged)
    plugged = alive - alone
    found = [frozenset((position,)) for position in alive & alone]
    found += [frozenset(side & plugged) for side in (sides or (frozenset(plugged),))]
    return sorted((part for part in found if part), key=lambda part: (-len(part), min(part)))
