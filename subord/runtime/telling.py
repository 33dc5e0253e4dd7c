"""What happens in the core, told to people and programs: log, event log, systemd.

Intuition: the ship's officer who writes the log, calls out to the crew, and hoists the flags for the harbour. The
core only reports; who needs to hear what, and in which words, is decided here.
"""

from __future__ import annotations

import logging
from typing import assert_never

import trio

from subord.core.admission import Admission
from subord.core.events import (
    Dropped,
    FirstContact,
    Gone,
    Healed,
    LeaderLost,
    Notice,
    PlaceChanged,
    Refused,
    RosterChanged,
    RoundTrip,
    SubordinateLost,
)
from subord.core.node import Node
from subord.core.phases import Phase
from subord.core.view import Place
from subord.runtime.counters import Counters
from subord.runtime.eventlog import EventLog
from subord.runtime.systemd import Systemd

logger = logging.getLogger("subord")

REFUSALS_TOLD_PER_S = 5.0  # a stranger can make us refuse as often as it likes, but not fill our disk


class Teller:
    """One per daemon. `tell` takes every notice that is not merely counted."""

    def __init__(self, node: Node, events: EventLog, systemd: Systemd, counters: Counters) -> None:
        self._node = node
        self._network = node.context.settings.network
        self._events = events
        self._systemd = systemd
        self._counters = counters
        self._refusals_told = Admission(REFUSALS_TOLD_PER_S, trio.current_time())
        self._ready = False

    def tell(self, notice: Notice) -> None:
        """To everybody whom it concerns."""
        match notice:
            case PlaceChanged():
                self._place_changed(notice)
            case LeaderLost():
                self._leader_lost(notice)
            case SubordinateLost():
                self._subordinate_lost(notice)
            case Healed():
                logger.info("healed after %.3f s", notice.after_s)
                self._events.write("healed", after_s=notice.after_s)
            case RosterChanged():
                if self._node.phase is Phase.ROOT:
                    self._events.write("roster", nodes=notice.nodes, not_home=notice.not_home)
            case FirstContact():
                self._events.write("contact", address=self._text(notice.position))
            case Refused():
                self._refused(notice)
            case Gone() | RoundTrip() | Dropped():
                pass
            case _:
                assert_never(notice)
        self._tell_systemd()

    def _place_changed(self, notice: PlaceChanged) -> None:
        leader, old = self._text(notice.leader), self._text(notice.old)
        self._events.write(
            "place", place=notice.place.value, leader=leader, old=old, changes=notice.changes, reason=notice.reason
        )
        where = "root" if leader is None else f"{notice.place.value} of {leader}"
        logger.info("now %s: %s", where, notice.reason)
        if notice.place is Place.ROOT:
            roster = self._node.roster
            self._events.write("roster", nodes=roster.live, not_home=roster.not_home)

    def _leader_lost(self, notice: LeaderLost) -> None:
        leader = self._text(notice.leader)
        self._events.write("lost", leader=leader, cause=notice.cause, silence_s=notice.silence_s)
        logger.warning("lost the leader %s (%s), last heard %.2f s ago", leader, notice.cause, notice.silence_s)

    def _subordinate_lost(self, notice: SubordinateLost) -> None:
        lost, cause, silence_s = self._text(notice.position), notice.cause, notice.silence_s
        self._events.write("subordinate_lost", subordinate=lost, cause=cause, silence_s=silence_s)
        logger.warning("lost the subordinate %s (%s), last heard %.2f s ago", lost, cause, silence_s)

    def _refused(self, notice: Refused) -> None:
        if not self._refusals_told.admit(trio.current_time()):
            self._counters.dropped["refusals_not_told"] += 1
            return
        # The reason may be a stranger's text: it must not write lines of its own, nor steer a terminal.
        reason = "".join(each if each.isprintable() else "?" for each in notice.reason)
        logger.warning("%s and we do not fit (told by %s): %s", notice.address, notice.by, reason)
        self._events.write("refused", address=notice.address, by=notice.by, reason=reason)

    def _tell_systemd(self) -> None:
        node = self._node
        if node.phase in (Phase.SEEKING, Phase.GONE):
            return
        if not self._ready:
            self._ready = True
            self._systemd.tell("READY=1")
            self._events.write("ready")
        below = node.roster.live - 1
        leader = node.following.leader
        if leader is None:
            word = "root" if node.phase is Phase.ROOT else "without a leader, looking for one"
            self._systemd.status(f"{word}, {below} below")
        else:
            level = len(node.following.path)
            self._systemd.status(f"subordinate of {self._text(leader.position)}, level {level}, {below} below")

    def _text(self, position: int | None) -> str | None:
        return self._network.address_text_of(position) if position else None
