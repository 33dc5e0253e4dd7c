"""What one round of a search has brought to light so far.

Intuition: a slip of paper for one evening's search: inns still to try, inns tried, whom we have asked for the way,
and where we could have the room of somebody younger if nothing else is left. The next evening has a new slip.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.placement.mapping import Rank
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.uplink.departures import Departures

ADVISERS_MAX = 8  # of one round, each lower than the one before
DISPLACEMENTS_MAX = 4  # tries in one round
GREETED_MAX = 32  # other roots, in one round
REFUSED_MAX = 3  # by full leaders, before a guest that ranks above us has to give way
PROPOSED_MAX = 32  # in one round, where ranks are not known beforehand


class Round:
    """One round; `known` may have room for us."""

    def __init__(self, context: Context, known: Iterable[Position] = ()) -> None:
        self._context = context
        self.offers = context.mapping.in_order(context.position, dict.fromkeys(known))  # to propose to
        self.visited: set[Position] = set()  # were proposed to
        self.advisers: list[Position] = []  # were asked where we belong
        self.is_advised = False  # one of them has answered
        self._silent: set[Position] = set()  # those who have not
        self._greeted: set[Position] = set()  # roots that should follow us
        self.root = context.position  # of the tree that we lost: it knows where there is room, if it lives
        self.heard = False  # a lower rank answered
        self._displacements = 0
        self._refused = 0  # by full leaders
        self._crowded: tuple[Position, Position] = (0, 0)  # highest guest seen, and its leader

    def consider(self, positions: Iterable[Position], *, first: bool = True) -> None:
        """In the order in which it was said; `first`: before what was heard earlier."""
        might_lead = self._context.mapping.might_lead
        heard = (*positions, *self.offers) if first else (*self.offers, *positions)
        self.offers = [p for p in dict.fromkeys(heard) if might_lead(p)]

    def next_offer(self, departures: Departures) -> Position | None:
        """The next one to propose to; not one that is about to leave."""
        if self._is_in_vain:
            self.offers.clear()
        while self.offers:
            position = self.offers.pop(0)
            if position not in self.visited and not departures.has(position):
                return position
        return None

    @property
    def _is_in_vain(self) -> bool:
        """Where ranks are not known beforehand: so many have refused us that few will be left above us."""
        return self._context.mapping.by_performance and len(self.visited) >= PROPOSED_MAX

    def may_advise(self, root: Position) -> bool:
        """Each adviser ranks below the one before that was not silent, so the chain ends."""
        standing = [each for each in self.advisers if each not in self._silent]
        below = standing[-1] if standing else self._context.position
        is_new = root not in self.advisers and len(self.advisers) < ADVISERS_MAX
        mapping = self._context.mapping
        is_unknown = mapping.by_performance and root > 0 and not mapping.rank_classes.knows(root)
        return is_new and (is_unknown or mapping.may_lead(root, below))

    def may_greet(self, root: Position) -> bool:
        """Once: two that take each other for the root would send us to and fro between them."""
        is_new = root not in self._greeted and len(self._greeted) < GREETED_MAX
        if is_new:
            self._greeted.add(root)
        return is_new

    def advised_by(self, source: Position) -> None:
        """An answer; perhaps from an adviser, whose places go before those that the full know of."""
        self.is_advised = self.is_advised or source in self.advisers

    def give_up(self, adviser: Position) -> None:
        """It does not answer: others may advise, also if they rank above it."""
        self._silent.add(adviser)

    def note_full(self, leader: Position, highest_guest: Position) -> None:
        """`leader` has no room; 0: and no guest."""
        self._refused += 1
        if self._context.mapping.may_lead(self._context.position, highest_guest):
            self._crowded = max(self._crowded, (highest_guest, leader), key=self._rank_of_guest)

    def _rank_of_guest(self, crowded: tuple[Position, Position]) -> tuple[bool, Rank]:
        return crowded[0] > 0, self._context.mapping.rank(crowded[0])

    @property
    def is_crowded(self) -> bool:
        """Have so many refused us that looking for a free place any longer takes more time than it is worth?"""
        return self._refused >= REFUSED_MAX

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
