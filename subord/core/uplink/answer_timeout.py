"""How long do answers take here, and how long do we wait for one? (protocol section 3)

The timing preset says how long a question waits. Where round trips are longer, every answer would come after its
question was given up, and no node would find a leader. So an answer that comes late is measured as well, and later
questions wait longer: half as long again as the answer took, at most ANSWERS_MAX times what the preset says. Each
answer that comes sooner halves the excess. Only questions that were sent once are measured; of a repeated one it is
not known which copy was answered (Karn's algorithm, RFC 6298, section 3).
"""

from __future__ import annotations

from math import inf
from typing import Final

from subord.core.events import Dropped, Notice, SlowAnswers
from subord.core.state.settings import Timing, preset_for
from subord.core.state.view import Position
from subord.core.tables import BoundedMap

ANSWERS_MAX: Final = 8  # times answer_s: the longest that a question waits
MARGIN: Final = 1.5
ASKED_MAX: Final = 256  # questions whose answer would be measured
LATE_MIN: Final = 3  # slow answers in a row before a warning: a single one may come from a stopped process
WARN_AGAIN_S: Final = 600.0


class AnswerTimeout:
    """The answer time of one node, in seconds of its clock."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.answer_s = timing.answer_s
        self._asked: BoundedMap[int, tuple[Position, float]] = BoundedMap(ASKED_MAX)
        self._in_row = 0
        self._warned_at = -inf

    def __len__(self) -> int:
        return len(self._asked)

    def asked(self, position: Position, exchange: int, now: float) -> None:
        """A question goes out; if it goes out again, its answer is not measured."""
        is_repeated = exchange in self._asked
        self._asked[exchange] = position, inf if is_repeated else now

    def forget(self) -> None:
        """This process was stopped: answers waited for it, and not the other way round."""
        self._asked.clear()
        self._in_row = 0

    def answered(self, position: Position, exchange: int, now: float, *, is_open: bool) -> list[Notice]:
        """An answer came in; `is_open`: its question still waited for it."""
        asked = self._asked.get(exchange)
        if asked is None or asked[0] != position:
            return []
        del self._asked[exchange]
        late: list[Notice] = [] if is_open else [Dropped("late_answer")]
        return late if asked[1] == inf else late + self.took(now - asked[1], now)

    def took(self, seconds: float, now: float) -> list[Notice]:
        """A round trip took so long."""
        base_s = self._timing.answer_s
        sooner_s = base_s + (self.answer_s - base_s) / 2
        self.answer_s = min(max(MARGIN * seconds, sooner_s, base_s), ANSWERS_MAX * base_s)
        self._in_row = self._in_row + 1 if seconds > base_s else 0
        if self._in_row < LATE_MIN or now - self._warned_at < WARN_AGAIN_S:
            return []
        self._warned_at = now
        return [SlowAnswers(seconds, base_s, preset_for(seconds))]
