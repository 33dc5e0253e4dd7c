"""Whether the root lists this node (docs/protocol.md, section 5).

Inputs are the path, answers of the root, and time; outputs are questions to the root and, on a root, the nodes that
it does not list. A leader that does not report a branch hides it from all nodes above. So each node below the second
level asks the root, in the mean every INTERVAL_S, and sooner after the answer no, because its row may be on the way.
The root keeps up to HIDDEN_MAX of the nodes that asked TIMES times in vain, for the operator. Times are spread
evenly, not at random, so the rate at the root stays even.
"""

from __future__ import annotations

from math import inf

from subord.core.edges.leader import Uplink
from subord.core.events import Dropped
from subord.core.messages import Advice, Ask
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.timers import Timer
from subord.core.view import Position

INTERVAL_S = 600.0  # with 100,000 nodes 167 questions a second
AGAIN_S = 10.0
TIMES = 3  # unlisted so often in a row, a node reports it
ANSWERS_PER_S = 200.0
HIDDEN_MAX = 64
HIDDEN_S = 2 * INTERVAL_S
NOT_TOLD, YES, NO = 0, 1, 2  # of Advice.listed
GOLDEN = 0.618033988749895  # its multiples modulo 1 are evenly spread in any number


class Listing:
    """Both sides of one node: it asks its root, and it answers as a root."""

    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._answers = TokenBucket(ANSWERS_PER_S, context.now)
        self._path: tuple[Position, ...] = ()
        self._turn = 0
        self._exchange = 0
        self._unlisted_in_row = 0  # answers in a row that the root does not list the node
        self._hidden: dict[Position, float] = {}  # nodes that report to be unlisted, and when

    def __len__(self) -> int:
        return len(self._hidden)

    def on_path(self, path: tuple[Position, ...]) -> None:
        """The path changed, so earlier answers do not count."""
        self._path, self._unlisted_in_row, self._exchange = path, 0, 0
        timers = self._context.timers
        if len(path) < 2:  # the leader is the root, and counts the rows itself
            timers.plan(Timer.LISTING, inf)
        elif timers.at(Timer.LISTING) == inf:
            self._plan(INTERVAL_S * (0.5 + self._fraction()))

    def on_timer(self) -> None:
        context = self._context
        if self._has_path:
            self._exchange = context.next_number()
            ask = Ask(context.incarnation, self._exchange, context.terms, standing=context.mapping.rank_classes.own)
            context.send(self._path[0], ask.about_listing(self._unlisted_in_row + 1))
        self._plan(INTERVAL_S * (0.5 + self._fraction()))

    def on_advice(self, source: Position, advice: Advice) -> bool:
        """True if `advice` answers the question. A root of an earlier release tells neither yes nor no."""
        if not self._exchange or advice.exchange != self._exchange or source not in self._path[:1]:
            return False
        self._exchange = 0
        if advice.listed is YES:
            self._unlisted_in_row = 0
        elif advice.listed is NO:
            self._unlisted_in_row = min(self._unlisted_in_row + 1, TIMES)
            self._plan(AGAIN_S * (0.5 + self._fraction()) * (1 if self._unlisted_in_row < TIMES else TIMES))
        return True

    def answer(self, source: Position, ask: Ask, *, is_root: bool) -> None:
        """Tell `source` whether the roster lists it in its present incarnation."""
        context = self._context
        if not self._answers.admit(context.now):
            context.note(Dropped("listing_busy"))
            return
        row = self._roster.rows.get(source)
        is_listed = row is not None and not row[1].change.missing and row[1].change.incarnation == ask.incarnation
        if is_listed or not is_root:
            self._hidden.pop(source, None)
        elif ask.listing >= TIMES:
            self._note_hidden(source)
        listed = NOT_TOLD if not is_root else YES if is_listed else NO
        context.send(source, Advice(context.incarnation, ask.exchange, False, 0, (), 0, listed=listed))

    def _note_hidden(self, source: Position) -> None:
        if source in self._hidden or len(self._hidden) < HIDDEN_MAX:
            self._hidden[source] = self._context.now
        else:
            self._context.note(Dropped("hidden_not_kept"))
        oldest = min(self._hidden, key=self._hidden.__getitem__)
        if self._context.now - self._hidden[oldest] > HIDDEN_S:
            del self._hidden[oldest]

    def unlisted(self, now: float) -> tuple[Position, ...]:
        """The node itself if its root does not list it; at the root the unlisted nodes that reported it."""
        hidden = (p for p, at in self._hidden.items() if now - at <= HIDDEN_S and not self._roster.is_live(p))
        return (
            *([self._context.position] if self._unlisted_in_row >= TIMES and self._has_path else []),
            *sorted(hidden),
        )

    @property
    def _has_path(self) -> bool:
        """Whether the path is the one last announced by `on_path`."""
        return self._path == self._uplink.path

    def _plan(self, seconds: float) -> None:
        self._context.timers.plan(Timer.LISTING, self._context.now + seconds)

    def _fraction(self) -> float:
        self._turn += 1
        return (self._context.position + self._turn) * GOLDEN % 1.0
