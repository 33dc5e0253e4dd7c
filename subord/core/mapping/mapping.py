"""A mapping: which node may lead (rank), which is asked first (preference), and which place is better.

Inputs are positions, statements of nodes and advice; outputs are ranks, orders and moves, as one node knows them.
`Mapping` is the simplest one: rank is position, no node has a home, and a guest moves only for a higher place. Each
mapping is a file of this folder that overrides what differs, and is named in registry.py (docs/protocol.md, section
7). A leader accepts only a node that ranks above it by the statements of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Protocol

import msgspec

from subord.core.address.order import in_rank_order, ranked
from subord.core.mapping.depth_rule import better_place, is_too_deep
from subord.core.mapping.rank_classes import RankClasses
from subord.core.messages import Advice, Change, Message, Wish
from subord.core.quantize import UNKNOWN
from subord.core.settings import Settings, Timing
from subord.core.view import Position

Rank = tuple[int, Position]


class Move(msgspec.Struct, frozen=True):
    """Propose this; `leader` 0: become root."""

    leader: Position
    wish: Wish
    standing: int


class Guest(Protocol):
    """What a mapping may ask of a guest that looks for a better place (placement/optimizer.py)."""

    @property
    def level(self) -> int:
        """The level on which it stands."""

    @property
    def is_leader_near(self) -> bool:
        """Whether its leader is so near that no other is worth a move."""

    @property
    def awaits_level(self) -> bool:
        """Whether it looks for the level of its rank, and not in vain for long."""

    def may_look_soon(self) -> bool:
        """True a few times with each leader."""

    def look_for_nearer(self, advice: Advice) -> None:
        """Measure round trips; the guest moves when they name a nearer leader."""

    def move_to_level(self, advice: Advice) -> Move | None:
        """The move to the level of its rank; None: stay."""


class Plan(Protocol):
    """All places below a root, by rank, computed at once from its roster (vacancies/vacancies.py)."""

    def draw(self, rows: dict[Position, Change], levels: dict[Position, int]) -> None:
        """Compute the places from the rows of the living, and their levels in the real tree."""

    def is_best(self, node: Position, performance: int) -> bool:
        """Whether a node of this class belongs at the root."""

    def wanted(self, node: Position, performance: int) -> int:
        """The level on which it belongs."""

    def will_move(self, node: Position, standing: int, wanted: int) -> bool:
        """Whether it is about to take a place on the wanted level."""

    def places(self, node: Position, performance: int, wanted: int) -> Iterator[Position]:
        """Leaders with room, best first."""

    def giving_way(self, node: Position, performance: int, wanted: int) -> Position:
        """A full leader with a subordinate that should give way; 0: none."""


class Mapping:
    """Rank and preference as one node, the owner, knows them."""

    keeps_homes: ClassVar[bool] = False
    """Each node has a computed leader that keeps a place for it: only where ranks never change."""
    ranks_are_positions: ClassVar[bool] = True
    """A lower position has a lower rank, so places and guests are found by comparing positions."""
    ranks_change: ClassVar[bool] = False
    """Ranks follow classes that nodes state: another node's rank may be unknown or outdated."""
    measures_round_trips: ClassVar[bool] = False
    """Guests measure nodes that the root names, and prefer a near leader to a high one."""

    def __init__(self, settings: Settings, owner: Position) -> None:
        self._settings = settings
        self._numbering = settings.numbering
        self._size = settings.network.size
        self._owner = owner
        self.rank_classes = RankClasses(owner)
        self.guest_places = settings.guest_slots + (0 if self.keeps_homes else settings.fanout)
        """The number of guests of a leader; without homes all its slots are for guests."""

    # -- rank ---------------------------------------------------------------------------------------------

    def rank(self, node: Position, standing: int | None = None) -> Rank:  # noqa: ARG002 - for ranks by class
        """A lower rank leads; by `standing`, or by the last one known."""
        return UNKNOWN, node

    def leading_rank(self) -> Rank:
        """The owner's rank towards subordinates: while it sinks, the worse one already."""
        return self.rank(self._owner, min(self.rank_classes.own, self.rank_classes.sinks_to))

    def may_lead(self, candidate: Position, node: Position) -> bool:
        """Whether `candidate` ranks below `node`, as far as known."""
        return candidate > 0 and self.rank(candidate) < self.rank(node)

    def might_lead(self, candidate: Position) -> bool:
        """Whether `candidate` may lead the owner, or its rank is unknown."""
        return self.may_lead(candidate, self._owner)

    def knows_rank(self, node: Position) -> bool:
        return node > 0

    def learn(self, source: Position, message: Message) -> None:
        """Take the ranks that a message states."""

    # -- preference ---------------------------------------------------------------------------------------

    def first_of(self, node: Position) -> Position | None:
        """The computed leader, which a newcomer asks first; None for the lowest position."""
        return self._numbering.computed_leader(node)

    def home_of(self, _node: Position) -> Position | None:
        """The computed leader if it keeps a place for the node; else None."""
        return None

    def at_home_below(self, _leader: Position) -> Iterable[Position]:
        """The positions whose home is `leader`."""
        return ()

    def candidates(self, node: Position) -> Iterator[Position]:
        """All lower positions, best first, generated on demand."""
        return ranked(node, self._numbering)

    def in_order(self, node: Position, some: Iterable[Position]) -> list[Position]:
        """The members of `some` that may lead `node`, best first."""
        return in_rank_order(node, some, self._numbering)

    def neighbours(self, node: Position) -> Iterator[Position]:
        """The positions around a node, nearest first, the lower before the higher."""
        for step in range(1, self._size):
            if node - step >= 1:
                yield node - step
            if node + step <= self._size:
                yield node + step

    # -- places -------------------------------------------------------------------------------------------

    def plan(self, _free: Callable[[Position], int], _reserved: Callable[[Position], int]) -> Plan | None:
        """How the root plans all places; None: it finds the places of each asker by its position.

        `free`: places of a leader without subordinate; `reserved`: those of them kept for other askers.
        """
        return None

    def choose(self, guest: Guest, advice: Advice) -> Move | None:
        """The move to make at once by the root's advice; None: stay, or wait for measurements."""
        found = better_place(advice, guest.level)
        return None if found is None else Move(*found, self.rank_classes.own)

    def looks_soon(self, guest: Guest, advice: Advice) -> bool:
        """Whether to ask again soon, because a better place is due but not free yet."""
        return is_too_deep(advice, guest.level) and guest.may_look_soon()

    def stands_well(self, _guest: Guest, _advice: Advice) -> bool:
        """Whether no place can be worth a move, so that the guest takes its longest rest."""
        return False

    def first_rest_s(self, _guest: Guest, timing: Timing) -> float:
        """The rest of a guest after a new leader."""
        return timing.search_interval_s / 2

    def rest_s_max(self, timing: Timing) -> float:
        """The longest rest of a guest."""
        return timing.home_interval_s_max
