"""Turns the notices of the core into log lines, event log lines and systemd states.

The event log has one line for each event. The log has one line for each change of place, which includes its cause:
the lost leader, the time without a leader, and the reason for the new place. Lines that any host can cause are
limited in rate.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import assert_never

import trio

from subord.core.events import (
    FAILURES,
    Dropped,
    FirstContact,
    Gone,
    Healed,
    LeaderLost,
    Notice,
    Pinned,
    PlaceChanged,
    Refused,
    RosterChanged,
    RoundTrip,
    SlowAnswers,
    SubordinateLeft,
    SubordinateLost,
)
from subord.core.node import Node
from subord.core.pacing.token_bucket import TokenBucket
from subord.core.settings import PRESETS
from subord.core.state.states import Phase
from subord.core.view import Place, Position
from subord.runtime.counters import Counters
from subord.runtime.log.event_log import EventLog
from subord.runtime.problems import of_loss
from subord.runtime.systemd import Systemd

logger = logging.getLogger("subord")

PLACE_WORDS = {
    Place.ROOT: "now root",
    Place.HOME: "now at home below %(leader)s",
    Place.GUEST: "now guest of %(leader)s",
}
REFUSALS_LOGGED_PER_S = 5.0  # any host can cause refusals; they must not fill the disk


class Notices:
    """Reports the notices of one node."""

    def __init__(self, node: Node, events: EventLog, systemd: Systemd, counters: Counters) -> None:
        self._node = node
        self._network = node.context.settings.network
        self._events = events
        self._systemd = systemd
        self._counters = counters
        self._refusals = TokenBucket(REFUSALS_LOGGED_PER_S, trio.current_time())
        self._ready = False
        self._lost: LeaderLost | None = None  # not in the log yet
        self._lost_at = 0.0
        self._place_lines = 0

    def tell(self, notice: Notice) -> None:
        """Report one notice to the log, the event log and systemd, as it requires."""
        match notice:
            case PlaceChanged():
                self._place_changed(notice)
            case LeaderLost():
                self._leader_lost(notice)
            case SubordinateLost():
                self._subordinate_lost(notice)
            case Healed():
                self._healed(notice)
            case RosterChanged():
                if self._node.phase is Phase.ROOT:
                    self._events.write("roster", nodes=notice.nodes, not_home=notice.not_home)
            case FirstContact():
                self._events.write("contact", address=self._text(notice.position))
            case Refused():
                self._refused(notice)
            case SlowAnswers():
                self._slow_answers(notice)
            case Gone() | SubordinateLeft() | RoundTrip() | Dropped() | Pinned():
                pass
            case _:
                assert_never(notice)
        self._tell_systemd()

    def _report(self, level: int, event: str, words: str, **fields: object) -> None:
        """Write to the event log, and with these words to the log."""
        self._events.write(event, **fields)
        logger.log(level, words, fields, extra={"event": event})

    def _place_changed(self, notice: PlaceChanged) -> None:
        leader, old = self._text(notice.leader), self._text(notice.old)
        fields = {"leader": leader, "old": old, "changes": notice.changes, "reason": notice.reason}
        self._events.write("place", place=notice.place.value, **fields)
        before = "" if old in (None, leader) else ", no longer below %(old)s"
        words = PLACE_WORDS[notice.place]
        self._log_place("place", f"{words}{before}: %(reason)s", {"place": notice.place.value, **fields})
        if notice.place is Place.ROOT:
            roster = self._node.roster
            self._events.write("roster", nodes=roster.live, not_home=roster.not_home)

    def _healed(self, notice: Healed) -> None:
        self._events.write("healed", after_s=notice.after_s)
        if self._lost is not None:  # the same leader was found again: no change of place follows
            fields = {"leader": self._text(self._lost.leader), "reason": "it answers again"}
            self._log_place("healed", "still below %(leader)s: %(reason)s", fields)

    def _log_place(self, event: str, words: str, fields: Mapping[str, object]) -> None:
        """Log a place with the loss that caused it. Each line is its own subject, so `Dedup` does not fold them."""
        level, lost = logging.INFO, self._lost
        if lost is not None:
            level = logging.WARNING if lost.cause in FAILURES else logging.INFO
            without_s = round(trio.current_time() - self._lost_at, 3)
            loss = {"lost": self._text(lost.leader), "cause": lost.cause, "silence_s": round(lost.silence_s, 3)}
            fields = {**fields, **loss, "without_leader_s": without_s}
            words += (
                " (lost %(lost)s: %(cause)s, silent for %(silence_s).2f s; %(without_leader_s).2f s without a leader)"
            )
            self._lost = None
        self._place_lines += 1
        logger.log(level, words, fields, extra={"event": event, "subject": self._place_lines})

    def _leader_lost(self, notice: LeaderLost) -> None:
        if notice.cause in FAILURES:
            self._counters.problems.note("lost", of_loss(self._text(notice.leader), notice.cause))
        self._lost, self._lost_at = notice, trio.current_time()
        words, fields = self._loss("leader", notice.leader, notice)
        self._report(logging.DEBUG, "lost", words, **fields)

    def _subordinate_lost(self, notice: SubordinateLost) -> None:
        words, fields = self._loss("subordinate", notice.position, notice)
        self._report(logging.WARNING, "subordinate_lost", words, **fields)

    def _loss(
        self, what: str, position: Position, notice: LeaderLost | SubordinateLost
    ) -> tuple[str, dict[str, object]]:
        words = f"lost the {what} %({what})s (%(cause)s), last heard %(silence_s).2f s ago"
        return words, {what: self._text(position), "cause": notice.cause, "silence_s": notice.silence_s}

    def _refused(self, notice: Refused) -> None:
        if not self._refusals.admit(trio.current_time()):
            self._counters.dropped["refusals_not_told"] += 1
            return
        # The reason may come from any host: it must not contain line feeds or control a terminal.
        reason = "".join(each if each.isprintable() else "?" for each in notice.reason)
        words = "%(address)s refused (told by %(by)s): %(reason)s"
        self._report(logging.WARNING, "refused", words, address=notice.address, by=notice.by, reason=reason)

    def _slow_answers(self, notice: SlowAnswers) -> None:
        words = "answers take %(seconds).2f s, but the timing preset waits %(answer_s).1f s for one: "
        words += 'set cluster.timing to "%(preset)s" on all nodes'
        if notice.answer_s >= PRESETS[notice.preset].answer_s:
            words = "answers take %(seconds).2f s, longer than the %(answer_s).1f s of the slowest timing preset"
        self._report(
            logging.WARNING,
            "slow_answers",
            words,
            seconds=notice.seconds,
            answer_s=notice.answer_s,
            preset=notice.preset,
        )

    def _tell_systemd(self) -> None:
        node = self._node
        if node.phase in (Phase.SEEKING, Phase.GONE):
            return
        if not self._ready:
            self._ready = True
            self._systemd.tell("READY=1")
            self._events.write("ready")
        below = node.roster.live - 1
        leader = node.uplink.leader
        if leader is None:
            word = "root" if node.phase is Phase.ROOT else "without a leader, looking for one"
            self._systemd.status(f"{word}, {below} below")
        else:
            level = len(node.uplink.path)
            self._systemd.status(f"subordinate of {self._text(leader.position)}, level {level}, {below} below")

    def _text(self, position: int | None) -> str | None:
        return self._network.address_text_of(position) if position else None
