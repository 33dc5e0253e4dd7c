"""The lowest position that a node without a leader heard lately (docs/protocol.md, section 3).

Inputs are received messages; output is a position. The node names it in its advice as long as it has no root to name,
so the questions of a crowd that starts together lead to its lowest node in a few steps. Only a message of that node
itself counts, and only for `leader_silence_s`, so no dead node is passed on.
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context
from subord.core.view import Position


class LowestSeen:
    def __init__(self, context: Context) -> None:
        self._context = context
        self.forget()

    def forget(self) -> None:
        self._lowest, self._at = self._context.position, -inf

    def heard(self, source: Position) -> None:
        """Note a message from `source`."""
        may_lead = self._context.mapping.may_lead
        if may_lead(source, self._context.position) and not may_lead(self.lowest, source):
            self._lowest, self._at = source, self._context.now

    @property
    def lowest(self) -> Position:
        """The own position when no lower node was heard lately."""
        is_fresh = self._context.now - self._at <= self._context.timing.leader_silence_s
        return self._lowest if is_fresh else self._context.position

    @property
    def knows_lower(self) -> bool:
        return self.lowest != self._context.position
