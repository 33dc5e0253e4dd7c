"""Does the root list this node? (protocol section 5)

A leader that does not report a subordinate's branch hides it from everything above, and no node above can tell. So
each node below the second level asks the root now and then, and asks again a few times when the answer is no, because
rows may be on their way. The root remembers some of those that asked so often, for people who ask.

The moments are spread evenly over the nodes and not drawn, so that the rate at the root is that of the interval.
"""

from __future__ import annotations

from math import inf

from subord.core.events import Dropped
from subord.core.messages import Advice, Ask
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Position
from subord.core.timers import Timer
from subord.core.uplink.leader import Uplink

INTERVAL_S = 600.0  # with 100,000 nodes 167 questions a second
AGAIN_S = 10.0
TIMES = 3  # a node that was told so often in a row that it is not listed says so
ANSWERS_PER_S = 200.0
HIDDEN_MAX = 64
HIDDEN_S = 2 * INTERVAL_S
NOT_TOLD, YES, NO = 0, 1, 2  # of Advice.listed
GOLDEN = 0.618033988749895  # its multiples modulo 1 lie evenly, however many there are


class Listing:
    """Both ends of the question: the node that asks, and the root that answers."""

    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._answers = TokenBucket(ANSWERS_PER_S, context.now)
        self._path: tuple[Position, ...] = ()
        self._turn = 0
        self._exchange = 0
        self._vain = 0  # answers in a row that we are not listed
        self._hidden: dict[Position, float] = {}  # nodes that said so of themselves, and when

    def __len__(self) -> int:
        return len(self._hidden)

    def on_path(self, path: tuple[Position, ...]) -> None:
        """There is another way to the root: what it did not list before it may list by that way."""
        self._path, self._vain, self._exchange = path, 0, 0
        timers = self._context.timers
        if len(path) < 2:  # the root is our leader, which counts our rows
            timers.plan(Timer.LISTING, inf)
        elif timers.at(Timer.LISTING) == inf:
            self._plan(INTERVAL_S * (0.5 + self._fraction()))

    def on_timer(self) -> None:
        context = self._context
        if self._is_led:
            self._exchange = context.next_number()
            ask = Ask(context.incarnation, self._exchange, context.terms, standing=context.mapping.rank_classes.own)
            context.send(self._path[0], ask.about_listing(self._vain + 1))
        self._plan(INTERVAL_S * (0.5 + self._fraction()))

    def on_advice(self, source: Position, advice: Advice) -> bool:
        """True: it answers our question. A root of an earlier release does not tell."""
        if not self._exchange or advice.exchange != self._exchange or source not in self._path[:1]:
            return False
        self._exchange = 0
        if advice.listed is YES:
            self._vain = 0
        elif advice.listed is NO:
            self._vain = min(self._vain + 1, TIMES)
            self._plan(AGAIN_S * (0.5 + self._fraction()) * (1 if self._vain < TIMES else TIMES))
        return True

    def answer(self, source: Position, ask: Ask, *, is_root: bool) -> None:
        """Whether `source` is in our roster, in the life that asks."""
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
        """We, when our root does not list us; at the root those that it does not list though they ask for it."""
        hidden = (p for p, at in self._hidden.items() if now - at <= HIDDEN_S and not self._roster.is_live(p))
        return (*([self._context.position] if self._vain >= TIMES and self._is_led else []), *sorted(hidden))

    @property
    def _is_led(self) -> bool:
        """By the way that we last heard of."""
        return self._path == self._uplink.path

    def _plan(self, seconds: float) -> None:
        self._context.timers.plan(Timer.LISTING, self._context.now + seconds)

    def _fraction(self) -> float:
        self._turn += 1
        return (self._context.position + self._turn) * GOLDEN % 1.0
