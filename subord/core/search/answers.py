"""The last answer of each candidate, for `subord why`. Bounded; the oldest is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from subord.core.events import LOST_BY, LostCause
from subord.core.messages import REFUSALS, No
from subord.core.tables import BoundedMap
from subord.core.view import Asked, Position

ASKED_MAX = 64
NO_ANSWER = "no answer"
NO_DAEMON = "no daemon there"
GOODBYE = "said goodbye"
LOST = {cause: f"lost: {how}" for cause, how in LOST_BY.items()}
SAYS_NOTHING_NEW = {
    NO_ANSWER: (GOODBYE, *LOST.values()),
    NO_DAEMON: (GOODBYE, LOST["closed"], LOST["refused"]),
}
"""After the end of a leader."""


class Answers:
    """The last answers of at most ASKED_MAX candidates."""

    def __init__(self) -> None:
        self._last: BoundedMap[Position, tuple[str, float, No | None]] = BoundedMap(ASKED_MAX)
        self.searching_since = 0.0

    def __len__(self) -> int:
        return len(self._last)

    def mark(self, now: float, position: Position, answer: str, no: No | None = None) -> None:
        """`answer` is a word or sentence for the operator. The end of a leader stays until there is news.

        `no`: the candidate refuses the node, and the reason.
        """
        if self._answer(position) not in SAYS_NOTHING_NEW.get(answer, ()):
            self._last[position] = (answer, now, no)

    def _answer(self, position: Position) -> str | None:
        return self._last[position][0] if position in self._last else None

    def ended(self, now: float, leader: Position, cause: LostCause | None) -> None:
        """The leader is lost by `cause`; None: it says goodbye. It may fall silent after its goodbye."""
        if cause is None:
            self.mark(now, leader, GOODBYE)
        elif cause in LOST and self._answer(leader) != GOODBYE:
            self.mark(now, leader, LOST[cause])

    def refusals(self, is_candidate: Callable[[Position], bool]) -> str | None:
        """How many candidates refused the node since this search began, and why; None: none did."""
        reasons = Counter(
            no
            for position, (_, at, no) in self._last.items()
            if no is not None and at >= self.searching_since and is_candidate(position)
        )
        if not reasons:
            return None
        total, counted = reasons.total(), (f"{REFUSALS[no]} ({times})" for no, times in reasons.most_common())
        return f"refused by {total} candidate{'s'[: total > 1]}: {', '.join(counted)}"

    def shown(self, now: float) -> tuple[Asked, ...]:
        """Newest first."""
        return tuple(
            Asked(position=position, answer=answer, ago_s=now - at)
            for position, (answer, at, _) in reversed(self._last.items())
        )
