"""What the engine reads of the tree: one protocol, served by the roster of a node (core/roster_tree.py) and by tests.

Inputs are sets of positions; outputs say where in the tree they are. Invariant: every position of a set is in exactly
one part of its split.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Incarnation, Position


class Split(NamedTuple):
    """A set of targets, by where they are. `below`: by the subordinate whose branch has them. `absent`: not in the
    tree below this node, by cause (causes.py)."""

    own: bool
    below: Mapping[Position, Ranges]
    absent: Mapping[str, Ranges]


class Tree(Protocol):
    """The tree as one node knows it now. It may change between two events."""

    @property
    def position(self) -> Position: ...
    @property
    def incarnation(self) -> Incarnation: ...
    @property
    def leader(self) -> Position | None: ...
    @property
    def is_root(self) -> bool:
        """Whether the node is a root that has settled; without leader and False: it looks for its place."""

    @property
    def path(self) -> tuple[Position, ...]:
        """From the root to the leader; empty for a root."""

    def quiet_s(self, now: float) -> float:
        """Since the roster changed."""

    def is_settled(self, now: float) -> bool:
        """Whether the node is a root whose `every` is all members: a new root may not know all of them yet."""

    def every(self) -> Ranges:
        """All members that the node knows of, also those that are down or not below it, and the node itself."""

    def split(self, targets: Ranges) -> Split:
        """Where the targets are. It passes over all rows at most once."""

    def split_below(self, top: Position, targets: Ranges) -> Mapping[Position, Ranges]:
        """The targets below `top`, an interior node of the branch, by the subordinate of `top` whose branch has
        them. Targets that are not below `top`, and `top` itself, are left out."""

    def moved_since(self, position: Position, at: float) -> bool:
        """Whether the target, or a node between it and this one, has come to its place since `at`. May err to True by
        1 s."""
