"""The nearest leader of a node by round trip (HPCS 2015, section "subordination tree"; docs/protocol.md, section 7).

Inputs are advice and measured round trips; output is a leader to propose to. A look measures at most CANDIDATES_MAX
nodes: the leader and nodes around it, candidates that the root names, and some at random. The least of SAMPLES
counts, because delays only add to a round trip. A new leader must be NEARER times as near, which is more than two
values differ that vary by 30 % around the same round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from subord.core.edges.leader import Leader, Uplink
from subord.core.mapping.depth_rule import GAIN_MIN, better_place, is_too_deep
from subord.core.messages import Advice, Wish
from subord.core.quantize import quantity_of
from subord.core.state.context import Context
from subord.core.timers import Timer
from subord.core.view import Position

CANDIDATES_MAX = 16  # of one look, the leader among them
SAMPLES = 3
SAMPLES_MIN = 2  # answers that a node needs, and samples below a near leader
REMEASURED_MAX = 5  # after the first sample: the leader, and the lowest ranks of those about as near as the nearest
FIRST_ANSWERS = 0.5  # the first answers get this part of a wait for an answer
NEXT_ANSWERS = 0.125  # the same between two later samples
NEARER = 2.0  # by this factor a new leader must be nearer
GAIN_S_MIN = 0.001
KNOWN_MAX = 64
HINTED_MAX = 8
VAIN_LOOKS_MAX = 5  # with all that the root names; then with DRAWN_MIN, because most are far and each costs probes
DRAWN_MIN = 2
FULL_RESTS = 4  # in the longest rests of a guest: how long a node counts as full

Decided = Callable[[Position, Wish], None]


class Reading(msgspec.Struct):
    """The least round trip of the last look in seconds, and when that was."""

    seconds: float
    performance: int
    at: float
    samples: int = 1


class Latencies:
    """The measured round trips of one node. `decided` is called with a leader and a wish."""

    def __init__(self, context: Context, uplink: Uplink, decided: Decided) -> None:
        self._context = context
        self._uplink = uplink
        self._decided = decided
        self.known: dict[Position, Reading] = {}  # at most KNOWN_MAX, the oldest is dropped
        self._fresh: dict[Position, Reading] = {}  # of the look under way
        self._asked: dict[int, Position] = {}
        self._to_ask: tuple[Position, ...] = ()  # the leader first
        self._looked_at: set[Position] = set()
        self._vain_looks = 0  # with the present leader
        self._samples_left = 0
        self._advice: Advice | None = None
        self._hinted: list[Position] = []  # hints of near but full nodes
        self._full: dict[Position, tuple[float, bool]] = {}
        """Refused for lack of room: until when that counts, and whether a guest there ranks above the node."""
        self._round_trip_s = 0.0  # to the leader by its echoes, at the last look

    def __len__(self) -> int:
        return len(self.known) + len(self._asked) + len(self._hinted) + len(self._full)

    # -- a look -----------------------------------------------------------------------------------------------

    def look(self, advice: Advice) -> None:
        """Measure candidates after `advice` of the root, unless a look is under way."""
        leader = self._uplink.leader
        if leader is None or self._to_ask:
            return
        candidates = self._candidates(advice, leader)
        if not candidates and self.of(leader.position) is not None and not self.is_leader_farther:
            self._round_trip_s = self._round_trip_s or self._uplink.round_trip_s
            return  # its echoes tell when it becomes farther
        self._to_ask = (leader.position, *candidates)
        self._looked_at = set(self._to_ask)
        self._hinted, self._fresh, self._asked = [], {}, {}
        self._advice, self._samples_left = advice, SAMPLES_MIN if self.is_leader_near else SAMPLES
        self._round_trip_s = self._uplink.round_trip_s
        self._ask()

    def _candidates(self, advice: Advice, leader: Leader) -> list[Position]:
        """Candidates besides the leader; below a near leader only higher places."""
        path, may_lead, own = self._uplink.path, self._context.mapping.may_lead, self._context.position
        higher = [position for position, _ in self._higher_places(advice)]
        if self.is_leader_near:
            return higher
        near = sorted(self.known, key=lambda p: self.known[p].seconds)[:1]
        siblings = [p for p in leader.guidance.siblings if may_lead(p, own)]
        sample, named = self._context.chance.sample, len(advice.others)
        others = sample(advice.others, named if self._vain_looks < VAIN_LOOKS_MAX else min(named, DRAWN_MIN))
        beside = sample(siblings, len(siblings))
        self._vain_looks += 1
        found = (*self._hinted[:3], *path[-2:-1], *higher, *near, *others, *advice.hints[:1], *beside)
        good = [p for p in dict.fromkeys(found) if may_lead(p, own) and p != leader.position]
        return good[: CANDIDATES_MAX - 1]

    def settle(self) -> None:
        """The node has a new leader."""
        self._full.clear()
        self._vain_looks, self._round_trip_s = 0, 0.0
        self.stop()

    def stop(self) -> None:
        self._samples_left, self._asked, self._to_ask = 0, {}, ()
        self._context.timers.plan(Timer.MEASURE, inf)

    def _ask(self) -> None:
        context = self._context
        for position in self._to_ask:
            number = context.next_number()
            self._asked[number] = position
            context.measure(position, number)
        self._samples_left -= 1
        answers = FIRST_ANSWERS if not self._fresh else NEXT_ANSWERS
        wait_s = context.timing.answer_s * (answers if self._samples_left else 1.0)
        context.timers.plan(Timer.MEASURE, context.now + context.jittered(wait_s))

    def on_measured(self, position: Position, number: int, seconds: float, performance: int) -> None:
        """Take one answer."""
        if self._asked.pop(number, None) != position:
            return
        reading = self._fresh.get(position)
        if reading is None:
            self._fresh[position] = Reading(seconds, performance, self._context.now)
        else:
            reading.seconds = min(reading.seconds, seconds)
            reading.performance = performance
            reading.samples += 1

    def on_timer(self) -> None:
        """Measure the next sample, or decide."""
        if self._samples_left:
            self._drop_far()
            self._ask()
            return
        for silent in self._looked_at - self._fresh.keys():
            self.known.pop(silent, None)
        asked = self._to_ask
        self.stop()
        readings = {p: each for p, each in self._fresh.items() if each.samples >= SAMPLES_MIN}
        far = {p: each for p, each in self._fresh.items() if p not in asked}
        for position, reading in {**far, **readings}.items():
            self.known.pop(position, None)
            self.known[position] = reading
        for oldest in list(self.known)[: max(0, len(self.known) - KNOWN_MAX)]:
            del self.known[oldest]
        found = self._best(readings)
        if found is not None:
            self._decided(*found)

    def _drop_far(self) -> None:
        """After the first sample drop nodes that are far or behind many, and silent ones if the leader answered."""
        leader = self._fresh.get(self._to_ask[0])
        if leader is not None:
            near = {p: each.seconds for p, each in self._fresh.items() if not is_nearer(leader.seconds, each.seconds)}
            least = min(near.values())
            others = (p for p, each in near.items() if p != self._to_ask[0] and not is_nearer(least, each))
            self._to_ask = (self._to_ask[0], *sorted(others, key=self._context.mapping.rank)[: REMEASURED_MAX - 1])

    # -- the choice ---------------------------------------------------------------------------------------------

    def _best(self, readings: dict[Position, Reading]) -> tuple[Position, Wish] | None:
        leader = self._uplink.leader
        if leader is None or leader.position not in readings:
            return None
        here = readings[leader.position]
        costs = {p: cost(each, here) for p, each in readings.items() if p != leader.position}
        near = {p: each for p, each in costs.items() if is_nearer(each, here.seconds)}
        self._full = {p: (until, gives) for p, (until, gives) in self._full.items() if until > self._context.now}
        with_room = {p: each for p, each in near.items() if p not in self._full}
        if with_room:
            return self._lowest_of_nearest(with_room), Wish.GUEST
        full = {p: each for p, each in near.items() if p in self._full and self._full[p][1]}
        if full and not self._hinted:
            # A lower rank than the guest's, so the guest finds a near place more easily.
            return self._lowest_of_nearest(full), Wish.DISPLACE
        higher = self._higher_places(self._advice) if self._advice is not None else []
        as_near = (place for place in higher if place[0] in costs and not is_nearer(here.seconds, costs[place[0]]))
        return next(as_near, None)

    def _higher_places(self, advice: Advice) -> list[tuple[Position, Wish]]:
        """The place that the root names; for a node that stands too deep also the leader two levels above its own."""
        path = self._uplink.path
        named = better_place(advice, len(path))
        above = path[-1 - GAIN_MIN : -GAIN_MIN] if is_too_deep(advice, len(path)) else ()
        return [*([] if named is None else [named]), *((p, Wish.GUEST) for p in above if p not in self._full)]

    def _lowest_of_nearest(self, costs: dict[Position, float]) -> Position:
        """The lowest rank of those about as near as the nearest: all nodes search there, so the tree stays flat."""
        least = min(costs.values())
        return min((p for p, each in costs.items() if not is_nearer(least, each)), key=self._context.mapping.rank)

    def was_full(self, position: Position, highest_guest: Position, hints: Iterable[Position]) -> None:
        """A near node has no room; its hints are probably near as well."""
        mapping, own = self._context.mapping, self._context.position
        if len(self._full) >= KNOWN_MAX:
            self._full.clear()  # most entries are old
        until = self._context.now + FULL_RESTS * self._context.timing.home_interval_s_max
        self._full[position] = until, mapping.may_lead(own, highest_guest)
        self._hinted = [p for p in dict.fromkeys((*self._hinted, *hints)) if p not in self._full][:HINTED_MAX]

    @property
    def is_leader_near(self) -> bool:
        """Whether the leader is so near that no other is worth a move."""
        leader = self._uplink.leader
        if leader is None or self.is_leader_farther:
            return False
        return 0 < (self.of(leader.position) or self._uplink.round_trip_s) < GAIN_S_MIN

    @property
    def is_leader_farther(self) -> bool:
        """Whether echoes of the leader take much longer than at the last look."""
        before_s = self._round_trip_s
        return before_s > 0 and is_nearer(before_s, self._uplink.round_trip_s)

    def of(self, position: Position) -> float | None:
        """The last round trip to `position` in seconds."""
        reading = self.known.get(position)
        return None if reading is None else reading.seconds


def cost(reading: Reading, standard: Reading) -> float:
    """The paper's latency by performance, in seconds; where performance is not known, latency."""
    own, its = quantity_of(standard.performance), quantity_of(reading.performance)
    return reading.seconds if own is None or its is None else reading.seconds * own / its


def is_nearer(one_s: float, other_s: float) -> bool:
    """Whether the first is nearer by enough to be worth a move."""
    return one_s * NEARER <= other_s and other_s - one_s >= GAIN_S_MIN
