"""A full scan before the first search, for comparison only (`node.full_scan`; HPCS 2015, first test).

Inputs are answers, questions of others, and time; output is the list of live nodes. All positions of the network are
asked at once, and again until they answer or the deadline passes, which is that of the computed leader in a search
without scan. A question from a node counts as its answer. Then the search goes on as after a restart that remembers
all live nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from subord.core.messages import Advice, Ask
from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context
from subord.core.timers import Timer
from subord.core.view import Position

SCAN_MAX = 4096  # positions of a network that can be scanned
REPEAT_S_MAX = 0.5

Found = Callable[[tuple[Position, ...]], None]


class Scan:
    """The scan of one node. `found` is called once with the live nodes that may lead it, nearest first."""

    def __init__(self, context: Context, found: Found) -> None:
        self._context = context
        self._found = found
        self._asked: dict[Position, int] = {}  # positions without answer, and the numbers of the questions
        self._living: list[Position] = []
        self._backoff = Backoff(0.0)
        self._until = self._host_until = -inf

    def begin(self) -> None:
        """Ask all positions. The network has at most SCAN_MAX."""
        context, timing = self._context, self._context.timing
        others = (p for p in range(1, context.settings.network.size + 1) if p != context.position)
        self._asked = {position: context.next_number() for position in others}
        self._backoff = Backoff(timing.answer_s / 4)
        self._until, self._host_until = context.now + timing.patience_s, context.now + timing.host_patience_s
        if self._asked:
            self._ask()
        else:
            self._end()

    def on_advice(self, source: Position, advice: Advice) -> None:
        if self._asked.get(source) == advice.exchange:
            self._found_alive(source)

    def on_asked(self, source: Position) -> None:
        """A node that asks is alive."""
        if source in self._asked:
            self._found_alive(source)

    def _found_alive(self, source: Position) -> None:
        del self._asked[source]
        self._living.append(source)
        if not self._asked:
            self._end()

    def on_unreachable(self, position: Position) -> None:
        """The host is up, so its daemon may be starting: wait `host_patience_s`."""
        if position in self._asked:
            self._until = self._host_until

    def on_timer(self) -> None:
        if self._context.now >= self._until:
            self._end()
        else:
            self._ask()

    def stop(self) -> None:
        self._asked = {}
        self._context.timers.plan(Timer.SCAN, inf)

    def _ask(self) -> None:
        context = self._context
        for position, exchange in self._asked.items():
            context.send(
                position, Ask(context.incarnation, exchange, context.terms, 0, context.mapping.rank_classes.own)
            )
        wait_s = context.jittered(self._backoff.step(REPEAT_S_MAX))
        context.timers.plan(Timer.SCAN, min(self._until, context.now + wait_s))

    def _end(self) -> None:
        self.stop()
        self._found(tuple(self._context.mapping.in_order(self._context.position, self._living)))
