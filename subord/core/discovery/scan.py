"""Everybody is asked before anybody is chosen: what the mapping spares us (HPCS 2015, first test).

Intuition: a roll call before the first lesson. The mapping knows the own teacher's name and goes straight to that
room; here every name on the list is called first, and repeated until it is answered or our patience is over.

For comparison only (`node.full_scan`). All are asked at once; whoever asks us meanwhile has answered, too; and nobody
is waited for longer than the mapping waits for the computed leader. Then the search goes on as after a restart with
everybody in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from subord.core.messages import Advice, Ask
from subord.core.pacing.backoff import Backoff
from subord.core.state.context import Context
from subord.core.state.view import Position
from subord.core.timers import Timer

SCAN_MAX = 4096  # positions of a network that can be scanned
REPEAT_S_MAX = 0.5

Found = Callable[[tuple[Position, ...]], None]


class Scan:
    """The roll call of one node. `found` is told who lives and may lead us, nearest first, once."""

    def __init__(self, context: Context, found: Found) -> None:
        self._context = context
        self._found = found
        self._asked: dict[Position, int] = {}  # who has not answered, and the number of our question
        self._living: list[Position] = []
        self._backoff = Backoff(0.0)
        self._until = self._host_until = -inf

    def begin(self) -> None:
        """Ask all. The network has at most SCAN_MAX positions."""
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
        """Who asks us lives, and need not be asked again."""
        if source in self._asked:
            self._found_alive(source)

    def _found_alive(self, source: Position) -> None:
        del self._asked[source]
        self._living.append(source)
        if not self._asked:
            self._end()

    def on_unreachable(self, position: Position) -> None:
        """Its host is up: its daemon is perhaps just starting."""
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
