"""Which addresses a node without a leader probes, and when (docs/protocol.md, section 3).

Inputs are known nodes, seeds, and probes sent; outputs are the next targets, and the time of the next step. Known
targets come first, then near ones one by one, then rows of ROW targets of the common list, then single targets every
`probe_interval_s`. An unused address costs the wire ARP requests, so the pace is bounded. A row needs one wake-up and
the time of all its targets. Invariant: in the time of two rows a node probes at most two rows of targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import inf

from subord.core.discovery.probe_order import all_targets, common_targets, likely_targets, near_targets
from subord.core.pacing.sliding_window import SlidingWindow
from subord.core.state.context import Context
from subord.core.state.states import Aim, Phase
from subord.core.view import Position

SEEDS_MAX = 64
TARGETS_MAX = 128
CALLS_MAX = 64  # of a new root to nodes that belong below it
FAST_AGAIN_MAX = 64
ROW = 6  # targets of the common list that are probed together
ARP_S = 3.0  # a host repeats ARP requests for this long
BESIDE = 2  # neighbours, one on each side
EARLY = 0.2  # of the time of a row: by so much a delegated row may come too early
ROWS = 2  # the pace is bounded over the time of so many rows


class Prober:
    """The targets of one node. `next_at` is when the next step is due, in seconds of the node's clock."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.seeds: tuple[Position, ...] = ()  # named by the operator
        self._known: list[Position] = []  # live lately, or named by others: probed first
        self._near: list[Position] = []
        self._calls: list[Position] = []  # a new root sends `Back` to these, before all probes
        self._common = self._new_list()
        self._all: Iterator[Position] | None = None
        self._fast_left = context.timing.fast_probes_max
        self._begins_anew: bool | None = None  # repeat the common list once; None: no row was delegated yet
        self._answered_at = -inf  # the last probe has had time for an answer
        self._known_answered_at = -inf  # the same for the last known target
        self._far_at = -inf  # no row before
        self._may_rest = True  # one rest per row: steady answers must not stop the probing
        self._probed = SlidingWindow(ROWS * ROW, ROWS * self._row_s)
        self.next_at = inf

    def has_asked(self, near: bool = True) -> bool:
        """Whether all known targets, and with `near` all near ones, had time to answer."""
        left, answered_at = (
            (self._known or self._near, self._answered_at) if near else (self._known, self._known_answered_at)
        )
        return not left and self._context.now >= answered_at

    @property
    def _row_s(self) -> float:
        return ROW * self._context.timing.probe_gap_s

    @property
    def is_fast(self) -> bool:
        """Whether rows of the common list are left."""
        return self._fast_left > 0

    @property
    def has_arp_pending(self) -> bool:
        """Whether ARP requests of the last probes may be under way; a host repeats each twice, a second apart."""
        return self._context.now < self._probed.last_at + ARP_S

    def slow_down(self) -> None:
        """A seed or an announcement shows a meeting place: no more rows."""
        self._fast_left = 0
        self._begins_anew = False

    def found_node(self, *, is_seed: bool) -> None:
        """A node answered: the next row waits `patience_s` once while the news spreads; after a seed none follows."""
        if self._may_rest:
            self._far_at = self._context.now + self._context.timing.patience_s
            self._may_rest = False
        if is_seed:
            self.slow_down()

    def begin(self, known: Iterable[Position], at: float) -> None:
        """Start a search: from `at` on the known targets, then the near ones, then the common list."""
        self._known = []
        self._near = near_targets(self._context.position, self._context.mapping)
        self._far_at, self._may_rest = -inf, True
        self.next_at = inf
        self.add(known, at)

    def begin_again(self, avoid: Position) -> None:
        """Start a search after the loss of a leader: no targets below the node, and few rows."""
        context = self._context
        targets = near_targets(context.position, context.mapping)
        self._known = []
        self._near = [p for p in targets if context.mapping.might_lead(p) and p != avoid]
        self._far_at, self._may_rest = -inf, True
        self._fast_left = min(self._fast_left, FAST_AGAIN_MAX)
        self.pause()

    def add(self, known: Iterable[Position], at: float) -> None:
        """Add known targets; the next step is due at `at` or before."""
        own = self._context.position
        self._known = list(dict.fromkeys(p for p in (*self._known, *known) if p != own))[:TARGETS_MAX]
        self.next_at = min(self.next_at, max(at, self._free_at(1)))

    def on_seeds(self, positions: tuple[Position, ...]) -> None:
        """Take the seeds of the operator, and ask them while the node looks for a lower root."""
        self.seeds = positions[:SEEDS_MAX]
        if self._context.state.aim in (Aim.FIRST, Aim.LOWER):
            self.add(self.seeds, self._context.now + self._context.timing.probe_gap_s)

    def ask_soon(self, source: Position) -> None:
        """Ask `source` after a short wait, in which a node that just started finds a lower one itself."""
        self.ask_later(source, self._context.jittered(self._context.timing.answer_s / 4))

    def ask_later(self, source: Position, seconds: float) -> None:
        state = self._context.state
        if state.aim is not Aim.NOTHING and state.phase is not Phase.ATTACHED:  # it searches without a leader
            self.add((source,), self._context.now + seconds)

    def look_again(self, known: Iterable[Position], is_below: Callable[[Position], bool]) -> None:
        """After a rest: also the home and the neighbours, so two halves of a healed partition meet in any network."""
        likely = likely_targets(self._context.position, self._context.mapping, is_below)
        self.add((*self.seeds, *known, *likely), self._context.now + self._row_s)

    def is_beside(self, position: Position) -> bool:
        """Whether `position` is the nearest neighbour on one side."""
        return position in islice(self._context.mapping.neighbours(self._context.position), BESIDE)

    def stop(self, *, greet: bool = False) -> None:
        """Drop all targets. `greet`: keep the nearest neighbours if they were not probed and rows are left."""
        left = [p for p in self._near if self.is_beside(p)] if greet and self.is_fast else []
        self._known, self._near, self._calls = [], [], []
        self.next_at = inf
        if left:
            self.add(left, self._context.now + self._context.timing.probe_gap_s)

    def call(self, positions: Iterable[Position]) -> None:
        """Let a new root send `Back` to these, at the pace of probes."""
        self._calls = list(islice(positions, CALLS_MAX))
        self.pause()

    def next_call(self) -> Position | None:
        """The next node to send `Back` to; None when none is left. Sets `next_at`."""
        return self._probe((self._calls.pop(0),))[0] if self._calls else None

    def step(self, *, known_only: bool) -> tuple[Position, ...]:
        """The next targets; () when there are none now. Sets `next_at`."""
        now, timing = self._context.now, self._context.timing
        goes_far = not known_only and not self._near and self.is_fast
        if goes_far and now >= self._far_at:
            return self._row()
        for targets in (self._known, [] if known_only else self._near):
            if targets:
                self._answered_at = now + timing.answer_s
                self._known_answered_at = self._answered_at if targets is self._known else self._known_answered_at
                return self._probe((targets.pop(0),))
        if known_only or goes_far:
            self.next_at = self._far_at if goes_far else now + timing.patience_s
            return ()
        return self._probe_slowly()

    def _row(self) -> tuple[Position, ...]:
        """A row when it is due: known targets first, then the common list."""
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
        self._fast_left = 0  # the list is through
        return self._probe_slowly()

    def row_for_delegate(self) -> tuple[Position, ...]:
        """The next targets of the common list, for a delegate."""
        self._begins_anew = self._begins_anew is None or self._begins_anew
        return self._next_far(ROW)

    def _next_far(self, targets: int) -> tuple[Position, ...]:
        """At most `targets` of the common list.

        After delegation the list is repeated once, because a lost errand leaves a row unprobed.
        """
        far = tuple(islice(self._common, min(targets, self._fast_left)))
        self._fast_left -= len(far)
        if self._begins_anew and (not self._fast_left or len(far) < targets):
            self._begins_anew = False
            self._fast_left = self._context.timing.fast_probes_max
            self._common = self._new_list()
        return far

    def _new_list(self) -> Iterator[Position]:
        return islice(common_targets(self._context.settings.network.size), 1, None)  # the first is a near target

    def has_room_for_row(self) -> bool:
        """Whether the pace leaves room for a delegated row, which may come a little early."""
        return self._context.now >= self._free_at(ROW) - EARLY * self._row_s

    def note_probes(self, targets: int) -> None:
        """Note that so many targets were probed now."""
        self._probed.note(self._context.now, targets)

    def _probe_slowly(self) -> tuple[Position, ...]:
        context = self._context
        size = context.settings.network.size
        self._all = self._all or all_targets(context.position, context.mapping, size)
        targets = self._probe((next(self._all),) if size > 1 else ())
        self.next_at = max(self.next_at, context.now + context.timing.probe_interval_s)
        return targets

    def pause(self) -> None:
        """Wait for the pace: a candidate is being asked."""
        self.next_at = max(self._context.now + self._context.timing.probe_gap_s, self._free_at(1))

    def __len__(self) -> int:
        return len(self._known) + len(self._near) + len(self._calls)

    def _probe(self, targets: tuple[Position, ...]) -> tuple[Position, ...]:
        """Count the probes; the next step waits as long as if each target had its own time."""
        now = self._context.now
        self.note_probes(len(targets))
        self.next_at = max(now + len(targets) * self._context.timing.probe_gap_s, self._free_at(1))
        return targets

    def _free_at(self, targets: int) -> float:
        """When `targets` more probes keep the pace: never more than two rows in the time of two rows."""
        return max(self._probed.last_at + self._context.timing.probe_gap_s, self._probed.free_at(targets))
