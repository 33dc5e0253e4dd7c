"""The tags that a node has acted on, so that it acts at most once on each.

Inputs are tags and digests of orders, what the disk says, and outcomes; output is what to do with a question: act,
wait for the outcome, or give the one that is known. A tag is kept TAG_KEEP_S after the end of its order; of readings
only the last READINGS_MAX are, for to read again does no harm. Invariants: for a tag that is kept, `begin` says START
once, and another order with it is `tag used`; a tag of an earlier life, or one with effects on which the node has
begun to act, is never dropped early.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import BUSY, OUTCOME_UNKNOWN, TAG_USED, TOO_LARGE
from subord.core.carriage.engine.frames import Tag
from subord.core.carriage.engine.interface import Outcome

SPARE = 64  # void expiries that need no tidying


class Step(enum.Enum):
    """What a node does with a question for its own result."""

    START = "start"  # nothing is known of the tag
    WAIT = "wait"  # the node acts, or writes that it is going to
    TELL = "tell"  # the outcome is known


class Begun(NamedTuple):
    step: Step
    outcome: Outcome = Outcome()


class _Entry:
    """One tag. `digest`: of its order; empty: of an earlier life. `outcome` None: the node acts."""

    __slots__ = ("digest", "outcome", "until")

    def __init__(self, digest: bytes, until: float, outcome: Outcome | None = None) -> None:
        self.digest = digest
        self.until = until
        self.outcome = outcome


class Tags:
    """The tags of one node. Times are those of the engine."""

    def __init__(self, over: Iterable[tuple[Tag, float]] = (), now: float = 0.0) -> None:
        """`over`: tags that earlier lives have noted, and for how many seconds to keep them."""
        self._entries: dict[Tag, _Entry] = {}
        self._readings: dict[Tag, None] = {}
        self._expiries: list[tuple[float, Tag]] = []
        self._outcome_bytes = 0
        self.evicted = 0
        for tag, keep_s in over:
            self._add(tag, _Entry(b"", now + keep_s - bounds.TAG_KEEP_S, _UNKNOWN))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, tag: Tag) -> bool:
        return tag in self._entries

    @property
    def deadline(self) -> float:
        return self._expiries[0][0] if self._expiries else inf

    def begin(self, tag: Tag, digest: bytes, until: float, *, has_effects: bool) -> Begun:
        """A question for the own result, of an order that ends at `until`. `digest`: of all that makes the order."""
        entry = self._entries.get(tag)
        if entry is None:
            if len(self._readings) >= bounds.READINGS_MAX:
                self._evict()
            if len(self._entries) >= bounds.TAGS_MAX and not self._evict():
                return Begun(Step.TELL, Outcome(cause=BUSY))
            self._add(tag, _Entry(digest, until))
            if not has_effects:
                self._readings[tag] = None
            return Begun(Step.START)
        if entry.digest and entry.digest != digest:
            return Begun(Step.TELL, Outcome(cause=TAG_USED))
        entry.until = max(entry.until, until)
        return Begun(Step.WAIT) if entry.outcome is None else Begun(Step.TELL, entry.outcome)

    def end(self, tag: Tag, outcome: Outcome) -> Outcome:
        """The node has acted; returns the outcome as it counts, the first one of several."""
        entry = self._entries.get(tag)
        if len(outcome.result) > bounds.RESULT_BYTES_MAX:
            outcome = Outcome(cause=TOO_LARGE)
        if entry is None:
            return outcome
        if entry.outcome is None:
            entry.outcome = outcome
            self._outcome_bytes += len(outcome.result)
            self._bound_outcomes()
        return entry.outcome

    def free(self, tag: Tag) -> None:
        """Forget a tag on which nothing was done."""
        if tag in self._entries:
            self._drop(tag)

    def expire(self, now: float) -> None:
        """Drop tags that are kept no longer."""
        while self._expiries and self._expiries[0][0] <= now:
            _, tag = heappop(self._expiries)
            entry = self._entries.get(tag)
            if entry is None:
                continue
            keep_until = entry.until + bounds.TAG_KEEP_S
            if keep_until > now:  # it was asked again, with more time
                heappush(self._expiries, (keep_until, tag))
            else:
                self._drop(tag)

    def _add(self, tag: Tag, entry: _Entry) -> None:
        self._entries[tag] = entry
        heappush(self._expiries, (entry.until + bounds.TAG_KEEP_S, tag))

    def _drop(self, tag: Tag) -> None:
        entry = self._entries.pop(tag)
        self._readings.pop(tag, None)
        if entry.outcome is not None:
            self._outcome_bytes -= len(entry.outcome.result)
        if len(self._expiries) > 2 * len(self._entries) + SPARE:
            self._expiries = sorted(each for each in self._expiries if each[1] in self._entries)

    def _evict(self) -> bool:
        """Drop the oldest tag of a reading that is over."""
        for tag in self._readings:
            if self._entries[tag].outcome is not None:
                self._drop(tag)
                self.evicted += 1
                return True
        return False

    def _bound_outcomes(self) -> None:
        """Keep the newest outcomes; a tag without its outcome stays."""
        for entry in self._entries.values():
            if self._outcome_bytes <= bounds.OUTCOMES_BYTES_MAX:
                return
            if entry.outcome is not None and entry.outcome.result:
                self._outcome_bytes -= len(entry.outcome.result)
                entry.outcome = _UNKNOWN


_UNKNOWN = Outcome(cause=OUTCOME_UNKNOWN)
