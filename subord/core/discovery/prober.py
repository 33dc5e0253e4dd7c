"""Knocking at doors where perhaps nobody lives, at a bounded pace (protocol section 3).

Intuition: an address where nobody lives costs everybody on the wire some ARP broadcasts, so a walker counts his
steps. He walks briskly when he has just arrived and knows nobody, and at a stroll when he has been walking for long.
Where somebody may well live he rings and listens, one door at a time; far from home he rings at a whole row of doors,
for which he takes as much time as for each of them alone, but wakes up once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf

from subord.core.discovery.probe_order import all_targets, common_targets, likely_targets, near_targets
from subord.core.pacing.sliding_window import SlidingWindow
from subord.core.state.context import Context
from subord.core.state.view import Position

TARGETS_MAX = 128
CALLS_MAX = 64  # of a new root to those who belong below it
FAST_AGAIN_MAX = 64
ROW = 6  # doors far away that are knocked at together
ARP_S = 3.0  # for so long a host asks for an address before it gives up
BESIDE = 2  # neighbours, one on each side
EARLY = 0.2  # of the time of a row: so much before its time is one in another's name welcome
ROWS = 2  # in so much time as they take there are never more doors than in them


class Prober:
    """The doors of one node, and when to knock at the next. `next_at` is a time of our clock."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: list[Position] = []  # where somebody lived, or should: knocked at first
        self._near: list[Position] = []
        self._calls: list[Position] = []  # to be told that we are here, before all others
        self._common = self._new_list()
        self._all: Iterator[Position] | None = None
        self._fast_left = context.timing.walk_fast_max
        self._begins_anew: bool | None = None  # the common list, at its end; None: nobody has helped yet
        self._answered_at = -inf  # by the door at which we knocked last
        self._told_at = -inf  # the same, of those who are known
        self._far_at = -inf  # no rows before
        self._may_rest = True  # once for each row: whoever answers again and again must not hold us up for ever
        self._probed = SlidingWindow(ROWS * ROW, ROWS * self._row_s)
        self.next_at = inf

    def has_asked(self, near: bool = True) -> bool:
        """Was there time for an answer from seeds and others of whom we were told; and from all `near` doors?"""
        left, answered_at = (self._known or self._near, self._answered_at) if near else (self._known, self._told_at)
        return not left and self._context.now >= answered_at

    @property
    def _row_s(self) -> float:
        """How long a row of doors takes."""
        return ROW * self._context.timing.knock_s

    @property
    def is_fast(self) -> bool:
        """Are we still at it as one who has just arrived?"""
        return self._fast_left > 0

    @property
    def has_arp_pending(self) -> bool:
        """May ARP requests for doors still be under way? Each is repeated twice, a second apart."""
        return self._context.now < self._probed.last_at + ARP_S

    def slow_down(self) -> None:
        """There is a meeting place that works: no need to look far away in haste."""
        self._fast_left = 0
        self._begins_anew = False

    def found_node(self, *, is_seed: bool) -> None:
        """The news spreads from there: the next row may wait a moment, and with a seed there is no haste at all."""
        if self._may_rest:
            self._far_at = self._context.now + self._context.timing.patience_s
            self._may_rest = False
        if is_seed:
            self.slow_down()

    def begin(self, known: Iterable[Position], at: float) -> None:
        """A new search: from `at` on, first to those who are known, then around us, then far away."""
        self._known = []
        self._near = near_targets(self._context.position, self._context.mapping)
        self._far_at, self._may_rest = -inf, True
        self.next_at = inf
        self.add(known, at)

    def begin_again(self, avoid: Position) -> None:
        """We had a leader, and lost it: those below us are no help, and the brisk days are over."""
        context = self._context
        targets = near_targets(context.position, context.mapping)
        self._known = []
        self._near = [p for p in targets if context.mapping.might_lead(p) and p != avoid]
        self._far_at, self._may_rest = -inf, True
        self._fast_left = min(self._fast_left, FAST_AGAIN_MAX)
        self.pause()

    def add(self, known: Iterable[Position], at: float) -> None:
        """More doors at which somebody may live; knock at `at` if not before."""
        own = self._context.position
        self._known = list(dict.fromkeys(p for p in (*self._known, *known) if p != own))[:TARGETS_MAX]
        self.next_at = min(self.next_at, max(at, self._free_at(1)))

    def look_again(self, known: Iterable[Position], is_below: Callable[[Position], bool]) -> None:
        """After a rest: also the home and the neighbours, so two halves of a healed partition meet in any network."""
        likely = likely_targets(self._context.position, self._context.mapping, is_below)
        self.add((*known, *likely), self._context.now + self._row_s)

    def is_beside(self, position: Position) -> bool:
        """Is that the door on our left, or on our right?"""
        return position in islice(self._context.mapping.neighbours(self._context.position), BESIDE)

    def stop(self, *, greet: bool = False) -> None:
        """No more doors; `greet`: but those beside ours, if we were in haste and have not been there."""
        left = [p for p in self._near if self.is_beside(p)] if greet and self.is_fast else []
        self._known, self._near, self._calls = [], [], []
        self.next_at = inf
        if left:
            self.add(left, self._context.now + self._context.timing.knock_s)

    def call(self, positions: Iterable[Position]) -> None:
        """Tell these that we are here, at the pace of knocking."""
        self._calls = list(islice(positions, CALLS_MAX))
        self.pause()

    def next_call(self) -> Position | None:
        """Whom to tell now. Sets the time of the next step."""
        return self._probe((self._calls.pop(0),))[0] if self._calls else None

    def step(self, *, known_only: bool) -> tuple[Position, ...]:
        """The next doors; (): there are none now. Sets the time of the step after them."""
        now, timing = self._context.now, self._context.timing
        goes_far = not known_only and not self._near and self.is_fast
        if goes_far and now >= self._far_at:
            return self._row()
        for targets in (self._known, [] if known_only else self._near):
            if targets:
                self._answered_at = now + timing.answer_s
                self._told_at = self._answered_at if targets is self._known else self._told_at
                return self._probe((targets.pop(0),))
        if known_only or goes_far:
            self.next_at = self._far_at if goes_far else now + timing.patience_s
            return ()
        return self._probe_slowly()

    def _row(self) -> tuple[Position, ...]:
        """Far doors, behind those who are known, if any; when it is time for a row."""
        self.next_at = self._free_at(ROW)
        if self._context.now < self.next_at:
            return ()
        known, self._known = self._known[:ROW], self._known[ROW:]
        if known:
            self._answered_at = self._context.now + self._context.timing.answer_s
        far = self._next_far(ROW - len(known))
        self._may_rest = True
        if known or far:
            return self._probe((*known, *far))
        self._fast_left = 0  # that was the whole list
        return self._probe_slowly()

    def row_for_another(self) -> tuple[Position, ...]:
        """The next far doors, for somebody who knocks in our name."""
        self._begins_anew = self._begins_anew is None or self._begins_anew
        return self._next_far(ROW)

    def _next_far(self, targets: int) -> tuple[Position, ...]:
        """So many of the common list, or fewer at its end.

        Where others helped it is begun anew there, once: a slip that gets lost is a row at which nobody rings.
        """
        far = tuple(islice(self._common, min(targets, self._fast_left)))
        self._fast_left -= len(far)
        if self._begins_anew and (not self._fast_left or len(far) < targets):
            self._begins_anew = False
            self._fast_left = self._context.timing.walk_fast_max
            self._common = self._new_list()
        return far

    def _new_list(self) -> Iterator[Position]:
        return islice(common_targets(self._context.settings.network.size), 1, None)  # the first is near

    def may_run(self) -> bool:
        """Is there room in our pace for a row in another's name? It may be a little early on its way to us."""
        return self._context.now >= self._free_at(ROW) - EARLY * self._row_s

    def note_probes(self, targets: int) -> None:
        """So many just now."""
        self._probed.note(self._context.now, targets)

    def _probe_slowly(self) -> tuple[Position, ...]:
        context = self._context
        size = context.settings.network.size
        self._all = self._all or all_targets(context.position, context.mapping, size)
        targets = self._probe((next(self._all),) if size > 1 else ())
        self.next_at = max(self.next_at, context.now + context.timing.walk_interval_s)
        return targets

    def pause(self) -> None:
        """Not now, but soon: somebody is just being asked."""
        self.next_at = max(self._context.now + self._context.timing.knock_s, self._free_at(1))

    def __len__(self) -> int:
        return len(self._known) + len(self._near) + len(self._calls)

    def _probe(self, targets: tuple[Position, ...]) -> tuple[Position, ...]:
        """The next step comes as late as if each door had its own time."""
        now = self._context.now
        self.note_probes(len(targets))
        self.next_at = max(now + len(targets) * self._context.timing.knock_s, self._free_at(1))
        return targets

    def _free_at(self, targets: int) -> float:
        """When so many may be knocked at: in the time of two rows there are never more doors than in two rows."""
        return max(self._probed.last_at + self._context.timing.knock_s, self._probed.free_at(targets))
