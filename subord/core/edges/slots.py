"""Which proposals a leader grants: home slots, guest slots, displacement (docs/protocol.md, section 2).

Inputs are proposals and the present subordinates; outputs are verdicts. A node whose home is the leader is always
accepted, another one while a guest slot is free. When none is, DISPLACE and SWAP may evict a guest that ranks above
the proposer. Invariant: a node that is accepted ranks above the leader, and at most `guest_places` are guests. The
number of guests is `Mapping.guest_places`, which sim/limits.py repeats. Free guest slots are also counted by the root
for its advice (vacancies/branch_index.py) and told to subordinates (`guidance` in subordinates.py).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import msgspec

from subord.core.mapping.depth_rule import is_light
from subord.core.mapping.mapping import Mapping, Rank
from subord.core.messages import Change, No, Wish
from subord.core.quantize import UNKNOWN
from subord.core.tables import BoundedMap
from subord.core.view import Incarnation, Place, Position

FORMER_MAX = 256  # former subordinates; the oldest is dropped
AGAIN_S = 10.0  # for so long the last proposal may be repeated: its acceptance was lost, or returned
UNPROVEN_MAX = 64  # rows of one subordinate
FORMER_S = 240.0  # a restored virtual machine counts its proposals anew, and one may be forged


class Subordinate(msgspec.Struct, kw_only=True):
    """A subordinate as its leader sees it. Times are seconds of the leader's clock."""

    position: Position
    place: Place
    incarnation: Incarnation
    exchange: int  # of the accepted proposal
    since: float
    session_at: float  # when that proposal was accepted
    heard_at: float
    due_at: float  # when its next beat is promised
    number: int = 0  # of its last beat
    advanced_at: float = 0.0  # when that number last increased
    older: int = 0  # beats in a row with a lower number
    standing: int = UNKNOWN  # as it proposed, or the worse one that it reported since
    stands: bool = False  # it has reported that standing
    cut: bool = False  # its stream closed, and no beat came since
    extended: bool = False  # overdue while no node was heard: given one more silence
    swept: bool = False  # it has reported its whole subtree in this session
    key: bytes = b""  # of its identity
    proposed: Change | None = None  # the row that its proposal proves
    unproven: set[Position] = set()  # rows of this session that were not taken: other pins, or no identity

    def is_settled(self, now: float, answer_s: float) -> bool:
        """Whether it had time in this session to report itself and its branch."""
        return now >= self.session_at + answer_s

    def refuse_row(self, position: Position) -> None:
        """It may report this row in good faith. Beyond the bound its rows differ, and it reports everything again."""
        if len(self.unproven) < UNPROVEN_MAX:
            self.unproven.add(position)

    def report(self, standing: int) -> None:
        """Its own row states its standing. Reports from before it heard the acceptance do not count."""
        self.stands = self.stands or standing == self.standing
        if self.stands:
            self.standing = min(self.standing, standing)


class Granted(msgspec.Struct, frozen=True):
    place: Place
    evicted: Position | None = None


Verdict = Granted | No


class Slots:
    """The subordinates of one node: at most its home slots plus `guest_places`."""

    def __init__(self, owner: Position, mapping: Mapping) -> None:
        self._owner = owner
        self._mapping = mapping
        self.taken: dict[Position, Subordinate] = {}
        self.former: BoundedMap[Position, tuple[Incarnation, int, float]] = BoundedMap(FORMER_MAX)
        """The last proposal of each former subordinate, and when it left."""

    def release(self, position: Position, now: float) -> None:
        """End the subordination; only a later proposal begins it again."""
        each = self.taken.pop(position)
        self.former[position] = each.incarnation, each.exchange, now

    def is_older(self, position: Position, incarnation: Incarnation, exchange: int, now: float) -> bool:
        """Whether a later proposal of this node is known, or the same one long before the node left."""
        known = self.taken.get(position)
        if known is not None:
            return (incarnation, exchange) < (known.incarnation, known.exchange)
        former_incarnation, former_exchange, left_at = self.former.get(position, (0, 0, -inf))
        if incarnation != former_incarnation or now > left_at + FORMER_S:
            return False
        return exchange < former_exchange or (exchange == former_exchange and now > left_at + AGAIN_S)

    def guests(self) -> list[Position]:
        """The positions of the guests, lowest rank first."""
        guests = (each for each in self.taken.values() if each.place is Place.GUEST)
        return [each.position for each in sorted(guests, key=self._last_rank_of)]

    def rank_of(self, each: Subordinate) -> Rank:
        """Its rank by its own statement."""
        return self._mapping.rank(each.position, each.standing)

    def _last_rank_of(self, each: Subordinate) -> Rank:
        """Its worst known rank, which decides only which guest gives way, and so not safety."""
        rank_classes = self._mapping.rank_classes
        reported = rank_classes.of(each.position) if each.position in rank_classes.rows else each.standing
        return self._mapping.rank(each.position, min(each.standing, reported))

    def outranking(self, standing: int) -> list[Position]:
        """The subordinates that would have to leave if the owner stood by `standing`."""
        own = self._mapping.rank(self._owner, standing)
        return [position for position, each in self.taken.items() if self.rank_of(each) < own]

    @property
    def highest_guest(self) -> Position:
        """0 without guests."""
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
        """Whether `node`, whose party has `nodes` nodes, may be a subordinate; `nodes_of` gives those of a guest.

        `standing` is the node's own statement; None: the last one known.
        """
        rank = self._mapping.rank(node, standing)
        if not self._mapping.leading_rank() < rank:
            return No.RANK
        if self._mapping.home_of(node) == self._owner:
            return Granted(Place.HOME)
        if node in self.taken:
            return Granted(Place.GUEST)
        guests = self.guests()
        if len(guests) < self._mapping.guest_places:
            return Granted(Place.GUEST)
        evicted = self._evictable(rank, wish, nodes, nodes_of)
        return No.FULL if evicted is None else Granted(Place.GUEST, evicted)

    def _evictable(self, rank: Rank, wish: Wish, nodes: int, nodes_of: Callable[[Position], int]) -> Position | None:
        above = [guest for guest in self.guests() if rank < self._last_rank_of(self.taken[guest])]
        if wish is Wish.DISPLACE and above:
            return above[-1]
        if wish is Wish.SWAP and above:
            lightest = min(above, key=nodes_of)
            return lightest if is_light(nodes_of(lightest), nodes) else None
        return None
