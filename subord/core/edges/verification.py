"""Whether the nodes exist that a subordinate reports (docs/protocol.md, section 5).

Inputs are reported rows and answers to probes; output is which rows are listed. A root lists UNTRIED_MAX living nodes
of one subordinate untried, a node on each further level half as many, so a liar fills at most half of what the next
level takes untried. Further rows are kept, neither listed nor passed on, while SAMPLE of the living nodes are probed
at random. When a third of a sample answers, all are listed and the allowance is twice their number. A trial that is
not passed within two silences has failed: kept rows are dropped, the subordinate is reported, and samples continue at
growing intervals. Missing nodes cannot answer, so their number has a bound of its own. Invariant: the listed living
nodes of one subordinate never exceed its allowance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf

import msgspec

from subord.core.edges.leader import Uplink
from subord.core.events import Dropped
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.view import Position

UNTRIED_MAX = 512
UNTRIED_MIN = 2
MISSING_MAX = 4096
MISSING_MIN = 64
KEPT_MAX = 1024  # rows beyond the allowance that are kept during a trial: 43 full beats
SAMPLE = 24
SHARE = 3  # one in so many of the sample must answer
ROUNDS_MAX = 128  # rounds between two samples; doubles after a failed trial
ROWS_UNTRIED, ROWS_ABSENT = "rows_untried", "rows_absent"


class Trial(msgspec.Struct):
    """The trial of one subordinate. Times are seconds of the node's clock."""

    passed: int = 0  # the allowance of the last passed trial
    began_at: float = inf  # of the trial under way; infinity: none is due
    next_at: float = 0.0  # when the next sample is drawn
    asked: dict[int, Position] = {}  # unanswered probes of this sample, by number
    answered: int = 0
    needed: int = 0
    rounds: int = 1
    refused: bool = False  # living rows of this session were dropped
    refused_missing: bool = False

    def end(self) -> None:
        """No trial is due."""
        self.began_at, self.asked, self.refused, self.refused_missing = inf, {}, False, False


class Verification:
    """The trials of the subordinates of one node."""

    def __init__(self, context: Context, roster: Roster, uplink: Uplink) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._trials: dict[Position, Trial] = {}

    def __len__(self) -> int:
        """The number of unanswered probes."""
        return sum(len(trial.asked) for trial in self._trials.values())

    def begin(self, via: Position) -> None:
        """A session of `via` begins: it reports all rows."""
        trial = self._trials.setdefault(via, Trial(asked={}))
        trial.refused = trial.refused_missing = False

    def forget(self, via: Position) -> None:
        """`via` is no longer a subordinate."""
        self._trials.pop(via, None)

    def withholds(self, via: Position) -> bool:
        """Whether rows of its session were dropped."""
        return self._trials[via].refused or self._trials[via].refused_missing

    def allowance(self, via: Position) -> int:
        """The number of living rows of `via` that are listed without a further trial."""
        level = min(len(self._uplink.path), UNTRIED_MAX.bit_length())
        return max(UNTRIED_MIN, UNTRIED_MAX >> level, self._trials[via].passed)

    def reason_to_drop(self, via: Position, position: Position, *, missing: bool) -> str | None:
        """Why no further living, or missing, row of `via` is taken; None: it is taken, and perhaps kept."""
        trial, claim = self._trials[via], self._roster.claims[via].get(position)
        if claim is not None and claim.change.missing == missing:
            return None
        allowance = self.allowance(via)
        if missing:
            level = min(len(self._uplink.path), MISSING_MAX.bit_length())
            trial.refused_missing = (
                self._roster.missing_of[via] >= max(MISSING_MIN, MISSING_MAX >> level) + 2 * allowance
            ) or trial.refused_missing
            return ROWS_UNTRIED if trial.refused_missing else None
        has_failed = self._has_failed(trial)
        if self._roster.living_of(via) < allowance + (0 if has_failed else KEPT_MAX):
            return None
        trial.refused = True
        return ROWS_ABSENT if has_failed else ROWS_UNTRIED

    def is_kept_back(self, via: Position, position: Position) -> bool:
        """Whether a further living row is taken but not listed before the trial is passed."""
        claim = self._roster.claims[via].get(position)
        is_new = claim is None or claim.change.missing
        return is_new and self._roster.living_of(via) >= self.allowance(via)

    def follow(self, via: Position) -> None:
        """After each beat of `via`: begin a trial, draw the next sample, or end it."""
        trial, now = self._trials[via], self._context.now
        if self._roster.living_of(via) <= self.allowance(via) and not trial.refused:
            trial.began_at, trial.asked = inf, {}
            self._roster.release(via, now)
            return
        if trial.began_at == inf:
            trial.began_at = trial.next_at = now
        if now >= trial.next_at:
            self._draw(via, trial)
        if self._has_failed(trial):
            self._drop_kept(via, trial)

    def on_measured(self, position: Position, number: int) -> None:
        """A probe was answered, perhaps of a trial."""
        for via, trial in self._trials.items():
            if trial.asked.get(number) == position:
                del trial.asked[number]
                trial.answered += 1
                if trial.answered >= trial.needed:
                    trial.passed = max(trial.passed, 2 * self._roster.living_of(via))
                    trial.end()
                    self._roster.release(via, self._context.now)
                return

    def _drop_kept(self, via: Position, trial: Trial) -> None:
        if self._roster.drop_kept(via, self._context.now):
            trial.refused = True
            self._context.note(Dropped(ROWS_ABSENT))

    def _draw(self, via: Position, trial: Trial) -> None:
        context, claims = self._context, self._roster.claims[via]
        if self._roster.missing_of[via]:
            living = [p for p, claim in claims.items() if not claim.change.missing and p != via]
            drawn = context.chance.sample(living, min(SAMPLE, len(living)))
        else:
            chosen = context.chance.sample(range(len(claims)), min(SAMPLE + 1, len(claims)))
            drawn = [p for p in _at(claims, chosen) if p != via][:SAMPLE]
        trial.asked = {context.next_number(): position for position in drawn}
        trial.answered, trial.needed = 0, -(-len(drawn) // SHARE)
        for number, position in trial.asked.items():
            context.measure(position, number)
        trial.rounds = min(2 * trial.rounds, ROUNDS_MAX) if self._has_failed(trial) else 1
        trial.next_at = context.now + context.timing.attempts * context.answer_timeout.answer_s * trial.rounds

    def _has_failed(self, trial: Trial) -> bool:
        return self._context.now - trial.began_at > 2 * self._context.timing.leader_silence_s


def _at(positions: Iterable[Position], indexes: Iterable[int]) -> Iterator[Position]:
    """Those at these indexes, without a step of Python for each of the others."""
    rest, passed = iter(positions), 0
    for index in sorted(indexes):
        yield next(islice(rest, index - passed, None))
        passed = index + 1
