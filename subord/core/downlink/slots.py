"""Whom do I take? Home slots, guest slots, displacement (protocol section 2).

Intuition: an inn keeps p rooms for family and g rooms for travellers. Family is always let in.
Travellers are let in while a room is free; when the whole country is full, an elder one may ask for
the room of the youngest, who moves on.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import msgspec

from subord.core.messages import No, Wish
from subord.core.placement.depth_rule import is_light
from subord.core.placement.mapping import Mapping, Rank
from subord.core.placement.quantize import UNKNOWN
from subord.core.state.view import Incarnation, Place, Position
from subord.core.tables import BoundedMap

FORMER_MAX = 256  # former subordinates that are remembered; the oldest is dropped
AGAIN_S = 10.0  # the last proposal itself may be repeated for so long: its first acceptance was lost, or given back
FORMER_S = 240.0  # no longer: a virtual machine that is set back counts its proposals anew, and one may be forged


class Subordinate(msgspec.Struct, kw_only=True):
    """A node that we lead. Times are seconds of our clock."""

    position: Position
    place: Place
    incarnation: Incarnation
    exchange: int  # of the proposal that we accepted
    since: float
    session_at: float  # when that proposal was accepted
    heard_at: float
    due_at: float  # promised time of its next beat
    number: int = 0  # of its last beat
    advanced_at: float = 0.0  # when that number last went up
    older: int = 0  # beats in a row with a lower number
    standing: int = UNKNOWN  # by its own word when it came, or the worse one that it sank to
    stands: bool = False  # it has said that it stands by that
    cut: bool = False  # its stream closed, and it has not called since
    spared: bool = False  # overdue, but so was everybody: given one more silence
    swept: bool = False  # it has reported its whole subtree in this session

    def is_settled(self, now: float, answer_s: float) -> bool:
        """Has it had time to report itself and its branch in this session?"""
        return now >= self.session_at + answer_s

    def report(self, standing: int) -> None:
        """Its own row says so. What it said before it heard that we accepted it is no sinking."""
        self.stands = self.stands or standing == self.standing
        if self.stands:
            self.standing = min(self.standing, standing)


class Granted(msgspec.Struct, frozen=True):
    place: Place
    evicted: Position | None = None


Verdict = Granted | No


class Slots:
    """The subordinates of one node: at most its home slots plus `guest_places`."""

    def __init__(self, owner: Position, mapping: Mapping, guest_places: int) -> None:
        self._owner = owner
        self._mapping = mapping
        self._guest_places = guest_places
        self.taken: dict[Position, Subordinate] = {}
        self.former: BoundedMap[Position, tuple[Incarnation, int, float]] = BoundedMap(FORMER_MAX)
        """The last proposal of each former subordinate, and when it left."""

    def release(self, position: Position, now: float) -> None:
        """It is no longer our subordinate; only a later proposal makes it one again."""
        each = self.taken.pop(position)
        self.former[position] = each.incarnation, each.exchange, now

    def is_older(self, position: Position, incarnation: Incarnation, exchange: int, now: float) -> bool:
        """Has this node proposed to us later than that, or just that, long before it left?"""
        known = self.taken.get(position)
        if known is not None:
            return (incarnation, exchange) < (known.incarnation, known.exchange)
        former_incarnation, former_exchange, left_at = self.former.get(position, (0, 0, -inf))
        if incarnation != former_incarnation or now > left_at + FORMER_S:
            return False
        return exchange < former_exchange or (exchange == former_exchange and now > left_at + AGAIN_S)

    def guests(self) -> list[Position]:
        """Positions of our guests, lowest rank first."""
        guests = (each for each in self.taken.values() if each.place is Place.GUEST)
        return [each.position for each in sorted(guests, key=self._last_rank_of)]

    def rank_of(self, each: Subordinate) -> Rank:
        """By its own word."""
        return self._mapping.rank(each.position, each.standing)

    def _last_rank_of(self, each: Subordinate) -> Rank:
        """By what is reported of it, if that is worse: to ask somebody to give way is no matter of safety."""
        rank_classes = self._mapping.rank_classes
        reported = rank_classes.of(each.position) if each.position in rank_classes.rows else each.standing
        return self._mapping.rank(each.position, min(each.standing, reported))

    def outranking(self, standing: int) -> list[Position]:
        """Who would have to go if we stood by that class."""
        own = self._mapping.rank(self._owner, standing)
        return [position for position, each in self.taken.items() if self.rank_of(each) < own]

    @property
    def highest_guest(self) -> Position:
        """0: we have none."""
        guests = self.guests()
        return guests[-1] if guests else 0

    def has_room_for(self, node: Position, standing: int | None = None) -> bool:
        return isinstance(self.judge(node, Wish.GUEST, standing=standing), Granted)

    def judge(
        self,
        node: Position,
        wish: Wish,
        nodes: int = 1,
        nodes_of: Callable[[Position], int] = lambda _guest: 1,
        standing: int | None = None,
    ) -> Verdict:
        """May `node`, which brings `nodes` along, be our subordinate? `nodes_of` tells how many a guest brings.

        `standing` is its own word; without, what we know.
        """
        rank = self._mapping.rank(node, standing)
        if not self._mapping.leading_rank() < rank:
            return No.RANK
        if self._mapping.home_of(node) == self._owner:
            return Granted(Place.HOME)
        if node in self.taken:
            return Granted(Place.GUEST)
        guests = self.guests()
        if len(guests) < self._guest_places:
            return Granted(Place.GUEST)
        evicted = self._giving_way(rank, wish, nodes, nodes_of)
        return No.FULL if evicted is None else Granted(Place.GUEST, evicted)

    def _giving_way(self, rank: Rank, wish: Wish, nodes: int, nodes_of: Callable[[Position], int]) -> Position | None:
        above = [guest for guest in self.guests() if rank < self._last_rank_of(self.taken[guest])]
        if wish is Wish.DISPLACE and above:
            return above[-1]
        if wish is Wish.SWAP and above:
            lightest = min(above, key=nodes_of)
            return lightest if is_light(nodes_of(lightest), nodes) else None
        return None
