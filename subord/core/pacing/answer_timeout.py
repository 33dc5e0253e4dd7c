"""How long a question waits for its answer (docs/protocol.md, section 3).

Inputs are the times of questions and answers; output is `answer_s`, at least that of the timing preset and at most
ANSWERS_MAX times it. A late answer raises it to MARGIN times the round trip, so nodes on slow links find a leader;
each faster answer halves the excess. A repeated question is not measured, because its answer may belong to either
copy (Karn's algorithm, RFC 6298, section 3).
"""

from __future__ import annotations

from math import inf
from typing import Final

from subord.core.events import Dropped, Notice, SlowAnswers
from subord.core.settings import Timing, preset_for
from subord.core.tables import BoundedMap
from subord.core.view import Position

ANSWERS_MAX: Final = 8  # times answer_s of the preset: the longest wait of a question
MARGIN: Final = 1.5
ASKED_MAX: Final = 256  # questions whose answers are measured
LATE_MIN: Final = 3  # slow answers in a row before a warning: a single one may come from a stopped process
WARN_AGAIN_S: Final = 600.0


class AnswerTimeout:
    """The answer time of one node, in seconds of its clock."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.answer_s = timing.answer_s
        self._asked: BoundedMap[int, tuple[Position, float]] = BoundedMap(ASKED_MAX)
        self._slow_in_row = 0
        self._warned_at = -inf

    def __len__(self) -> int:
        return len(self._asked)

    def asked(self, position: Position, exchange: int, now: float) -> None:
        """A question is sent. If it is sent again, its answer is not measured."""
        is_repeated = exchange in self._asked
        self._asked[exchange] = position, inf if is_repeated else now

    def forget(self) -> None:
        """The process was stopped, so answers waited for it: measure none of them."""
        self._asked.clear()
        self._slow_in_row = 0

    def answered(self, position: Position, exchange: int, now: float, *, is_open: bool) -> list[Notice]:
        """An answer arrived; `is_open`: its question still waited for it."""
        asked = self._asked.get(exchange)
        if asked is None or asked[0] != position:
            return []
        del self._asked[exchange]
        late: list[Notice] = [] if is_open else [Dropped("late_answer")]
        return late if asked[1] == inf else late + self.took(now - asked[1], now)

    def took(self, seconds: float, now: float) -> list[Notice]:
        """Take a round trip of `seconds` into account."""
        base_s = self._timing.answer_s
        sooner_s = base_s + (self.answer_s - base_s) / 2
        self.answer_s = min(max(MARGIN * seconds, sooner_s, base_s), ANSWERS_MAX * base_s)
        self._slow_in_row = self._slow_in_row + 1 if seconds > base_s else 0
        if self._slow_in_row < LATE_MIN or now - self._warned_at < WARN_AGAIN_S:
            return []
        self._warned_at = now
        return [SlowAnswers(seconds, base_s, preset_for(seconds))]
