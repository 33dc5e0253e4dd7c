"""What one round of a search has brought to light so far.

Intuition: a slip of paper for one evening's search: inns still to try, inns tried, whom we have asked for the way,
and where we could have the room of somebody younger if nothing else is left. The next evening has a new slip.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.context import Context
from subord.core.view import Position

ADVISERS_MAX = 8  # of one round, each lower than the one before
DISPLACEMENTS_MAX = 4  # tries in one round


class Round:
    """One round; `known` may have room for us."""

    def __init__(self, context: Context, known: Iterable[Position] = ()) -> None:
        self._context = context
        self.offers = context.mapping.in_order(context.position, dict.fromkeys(known))  # to propose to
        self.visited: set[Position] = set()  # were proposed to
        self.advisers: list[Position] = []  # were asked where we belong
        self.root = context.position  # of the tree that we lost: it knows where there is room, if it lives
        self.heard = False  # a lower rank answered
        self._displacements = 0
        self._crowded: tuple[Position, Position] = (0, 0)  # highest guest seen, and its leader

    def consider(self, positions: Iterable[Position], *, first: bool = True) -> None:
        """In the order in which it was said; `first`: before what was heard earlier."""
        may_lead, own = self._context.mapping.may_lead, self._context.position
        heard = (*positions, *self.offers) if first else (*self.offers, *positions)
        self.offers = [p for p in dict.fromkeys(heard) if may_lead(p, own)]

    def next_offer(self) -> Position | None:
        """Whom to propose to next."""
        while self.offers:
            position = self.offers.pop(0)
            if position not in self.visited:
                return position
        return None

    def may_advise(self, root: Position) -> bool:
        """Each adviser ranks below the one before, so the chain ends."""
        below = self.advisers[-1] if self.advisers else self._context.position
        return self._context.mapping.may_lead(root, below) and len(self.advisers) < ADVISERS_MAX

    def note_full(self, leader: Position, highest_guest: Position) -> None:
        """`leader` has no room; 0: and no guest."""
        if self._context.mapping.may_lead(self._context.position, highest_guest):
            self._crowded = max(self._crowded, (highest_guest, leader))

    def take_displacement(self) -> Position | None:
        """The leader of the highest guest that we have heard of, if it ranks above us: it must make room."""
        highest, leader = self._crowded
        if not highest or self._displacements >= DISPLACEMENTS_MAX:
            return None
        self._crowded = (0, 0)
        self._displacements += 1
        return leader

    def __len__(self) -> int:
        return len(self.offers) + len(self.visited)
