"""Whom should others ask instead of us, while we have no place ourselves? (protocol section 3)

Intuition: a crowd that wants to fall in by height, and nobody sees over it. Everybody names the smallest whom they
have heard; whoever asks on from there gets to the smallest of all in a few steps, however large the crowd is.

Only what we have heard ourselves is passed on, and only for a while: a rumour of the dead must not live.
"""

from __future__ import annotations

from math import inf

from subord.core.state.context import Context
from subord.core.state.view import Position


class LowestSeen:
    """The lowest whom we have heard lately."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.forget()

    def forget(self) -> None:
        self._lowest, self._at = self._context.position, -inf

    def heard(self, source: Position) -> None:
        """`source` spoke to us."""
        may_lead = self._context.mapping.may_lead
        if may_lead(source, self._context.position) and not may_lead(self.lowest, source):
            self._lowest, self._at = source, self._context.now

    @property
    def lowest(self) -> Position:
        """Ourselves, when there was none below us."""
        is_fresh = self._context.now - self._at <= self._context.timing.leader_silence_s
        return self._lowest if is_fresh else self._context.position

    @property
    def knows_lower(self) -> bool:
        return self.lowest != self._context.position
