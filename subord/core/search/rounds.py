"""What one round of a search has found, and the order of its proposals (docs/protocol.md, section 3).

Inputs are hints and answers; outputs are the next candidate, the next adviser, and the guest to displace. A round
begins with the nodes already known, in the order of the mapping; hints keep the order of the node that gave them
(vacancies/), and precede what is known. The number of each is bounded, so a round ends.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.mapping.mapping import Rank
from subord.core.messages import Advice
from subord.core.search.departures import Departures
from subord.core.state.context import Context
from subord.core.view import Position

ADVISERS_MAX = 8  # per round, each lower than the one before
DISPLACEMENTS_MAX = 4  # per round
CONTACTED_MAX = 32  # other roots, per round
REFUSED_MAX = 3  # by full leaders, before a guest is displaced
PROPOSED_MAX = 32  # per round, where ranks are not known beforehand


class Round:
    """One round; `known` nodes may have room."""

    def __init__(self, context: Context, known: Iterable[Position] = ()) -> None:
        self._context = context
        self.offers = context.mapping.in_order(context.position, dict.fromkeys(known))  # to propose to, best first
        self.visited: set[Position] = set()  # already proposed to
        self.advisers: list[Position] = []  # asked for advice about the place of the node
        self.is_advised = False  # an adviser has answered
        self._silent: set[Position] = set()  # advisers without answer
        self._contacted: set[Position] = set()  # roots that should follow this node
        self.root = context.position  # of the lost tree: it knows free places if it lives
        self.heard = False  # a lower rank answered
        self._displacements = 0
        self._refused = 0  # by full leaders
        self._displaceable: tuple[Position, Position] = (0, 0)  # the highest guest heard of, and its leader

    def consider(self, positions: Iterable[Position], *, first: bool = True) -> None:
        """Add candidates in the given order, before those known with `first`, else behind."""
        might_lead = self._context.mapping.might_lead
        heard = (*positions, *self.offers) if first else (*self.offers, *positions)
        self.offers = [p for p in dict.fromkeys(heard) if might_lead(p)]

    def next_offer(self, departures: Departures) -> Position | None:
        """The next candidate to propose to, without those that are about to leave."""
        if self._is_in_vain:
            self.offers.clear()
        while self.offers:
            position = self.offers.pop(0)
            if position not in self.visited and not departures.has(position):
                return position
        return None

    @property
    def _is_in_vain(self) -> bool:
        """Whether, with unknown ranks, so many have refused that few are left above the node."""
        return self._context.mapping.ranks_change and len(self.visited) >= PROPOSED_MAX

    def may_advise(self, root: Position) -> bool:
        """Whether to ask `root` for advice. Each ranks below the last adviser that answered, so the chain ends."""
        standing = [each for each in self.advisers if each not in self._silent]
        below = standing[-1] if standing else self._context.position
        is_new = root not in self.advisers and len(self.advisers) < ADVISERS_MAX
        mapping = self._context.mapping
        is_unknown = root > 0 and not mapping.knows_rank(root)
        return is_new and (is_unknown or mapping.may_lead(root, below))

    def may_contact(self, root: Position) -> bool:
        """True once per root: two nodes that name each other as root would be asked by turns."""
        is_new = root not in self._contacted and len(self._contacted) < CONTACTED_MAX
        if is_new:
            self._contacted.add(root)
        return is_new

    def take(self, source: Position, advice: Advice) -> None:
        """`source` answered. The places of an adviser precede the hints of full leaders."""
        own, may_lead = self._context.position, self._context.mapping.may_lead
        self.is_advised = self.is_advised or source in self.advisers
        self.heard |= may_lead(source, own) or may_lead(advice.root, own)
        self.consider((*advice.hints, source) if advice.room else advice.hints)
        self.visited.discard(source)
        if may_lead(source, own):
            self.note_full(source, advice.highest_guest)

    def give_up(self, adviser: Position) -> None:
        """`adviser` does not answer: others may advise that rank above it."""
        self._silent.add(adviser)

    def note_full(self, leader: Position, highest_guest: Position) -> None:
        """`leader` has no room; `highest_guest` 0: and no guest.

        Where ranks change, the leader judges: this node may have heard of a former class of the guest.
        """
        self._refused += 1
        mapping = self._context.mapping
        if mapping.may_lead(self._context.position, highest_guest) or (mapping.ranks_change and highest_guest):
            self._displaceable = max(self._displaceable, (highest_guest, leader), key=self._rank_of_guest)

    def _rank_of_guest(self, displaceable: tuple[Position, Position]) -> tuple[bool, Rank]:
        return displaceable[0] > 0, self._context.mapping.rank(displaceable[0])

    @property
    def has_refusals(self) -> bool:
        """Whether so many full leaders have refused that displacing a guest is faster than a free place."""
        return self._refused >= REFUSED_MAX

    def take_displacement(self) -> Position | None:
        """The leader of the highest guest heard of, once, if that guest ranks above the node; None: none."""
        highest, leader = self._displaceable
        if not highest or self._displacements >= DISPLACEMENTS_MAX:
            return None
        self._displaceable = (0, 0)
        self._displacements += 1
        return leader

    def __len__(self) -> int:
        return len(self.offers) + len(self.visited)
