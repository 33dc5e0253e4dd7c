"""My leader: do I have one, is it still there, and what does it tell me? (protocol section 4)

Intuition: I phone my leader every evening. When nothing changes for long, the calls become rarer, up
to a limit. If nobody picks up I call again soon, and only after several vain calls in a row do I look
for another. When somebody tells me that the line was cut (the stream closed, or the host says that
nobody lives there), I call at once and wait only as long as a restart takes.

First suspicion is of myself: if my own alarm rang late I slept, and all vain calls are forgotten.
"""

from __future__ import annotations

from collections import deque
from math import inf

import msgspec

from subord.core.downlink import digests
from subord.core.events import LostCause, RoundTrip
from subord.core.messages import CHANGES_MAX, Ask, Beat, Echo, Goodbye, Guidance, Why
from subord.core.pacing.backoff import Backoff
from subord.core.pacing.coalescer import Coalescer
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Incarnation, Position
from subord.core.timers import Timer

NO_GUIDANCE = Guidance(0, (), (), (), adrift=False)
GRACE_BEATS = 4  # vain beats during the restart grace
ROUND_TRIPS = 8  # of which the least is taken
QUICKER = 2  # times quicker than the first is a vain beat repeated
ROUNDING_S = 1e-6
SIBLINGS_MAX = 8  # asked whether the leader answers them


class Call(msgspec.Struct):
    """A beat that waits for its echo."""

    sent_at: float
    revisions: dict[Position, int]
    guidance_seen: int = 0


class Leader(msgspec.Struct, kw_only=True):
    """The node we follow. Times are seconds of our clock."""

    position: Position
    incarnation: Incarnation
    since: float
    heard_at: float
    interval: Backoff  # between two beats
    coalescer: Coalescer
    guidance: Guidance = NO_GUIDANCE
    beat_at: float = inf
    beat_sent_at: float = -inf
    calls: dict[int, Call] = {}  # bounded: emptied by every echo, given up after `attempts` or the grace
    cut_at: float = inf  # when the line was reported cut
    cut_cause: LostCause = "silence"
    suspected: bool = False  # the first wait of these calls was vain
    stranger_until: float = -inf  # it does not know us: until it has accepted us, or then, it takes no report
    stranger_since: float = inf  # since when it has said so
    leaving: bool = False  # it said goodbye, and answers only for a while
    in_doubt: bool = False  # until it answers: we slept, or it does not know us, so it may follow another node


class Uplink:
    """The upward edge of one node."""

    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self.leader: Leader | None = None
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS)

    @property
    def round_trip_s(self) -> float:
        """The least of our leader's last echoes; 0: none yet."""
        return min(self._round_trips, default=0.0)

    @property
    def is_in_doubt(self) -> bool:
        return self.leader is not None and self.leader.in_doubt

    @property
    def path(self) -> tuple[Position, ...]:
        """Root first, our leader last; empty when nobody is above us."""
        return self.leader.guidance.path if self.leader else ()

    def attach(self, position: Position, incarnation: Incarnation, guidance: Guidance) -> None:
        """We were accepted: begin a session with this leader and report the whole subtree to it."""
        context, old = self._context, self.leader
        if old is not None and old.position != position:
            context.send(old.position, Goodbye(context.incarnation, Why.MOVED))
        same = old is not None and old.position == position
        if not same:
            self._round_trips.clear()
        self.leader = Leader(
            position=position,
            incarnation=incarnation,
            since=old.since if old is not None and same else context.now,
            heard_at=context.now,
            interval=Backoff(context.timing.beat_interval_s_min),
            coalescer=Coalescer(context),
            guidance=guidance,
            calls={},
        )
        self._roster.report_everything()  # soon: when our own row says where we stand now

    def detach(self) -> None:
        self.leader = None
        self._roster.stop_reporting()
        self._context.timers.plan(Timer.BEAT, inf)

    # -- beats --------------------------------------------------------------------------------------

    def report_soon(self) -> None:
        """Something in the subtree changed: beat soon, together with what changes meanwhile."""
        leader = self.leader
        if leader is None or leader.calls or not self._roster.unreported:
            return
        if self._context.now < leader.stranger_until:
            return
        if self._roster.unreported >= CHANGES_MAX:
            self._beat(leader)  # a full one has nothing to wait for
            return
        self._plan(min(leader.beat_at, leader.coalescer.next_at))

    def on_beat_due(self) -> LostCause | None:
        """Beat, or give the leader up: then the cause is returned."""
        leader, context = self.leader, self._context
        if leader is None:
            return None
        grace_ends_at = leader.cut_at + context.timing.restart_grace_s
        if leader.beat_sent_at >= grace_ends_at:
            return leader.cut_cause  # also the beat after the grace was vain
        if leader.cut_at == inf and self._vain_s(leader) >= self._silence_s:
            return "silence"
        if leader.cut_at == inf and not leader.suspected and self._is_suspect(leader):
            leader.suspected = True
            self._ask_siblings(leader)
        self._beat(leader)
        return None

    def _vain_s(self, leader: Leader) -> float:
        """For how long it has answered no beat."""
        return self._context.now - min((call.sent_at for call in leader.calls.values()), default=inf)

    def _is_suspect(self, leader: Leader) -> bool:
        """After the first repetition: where datagrams are lost, a single vain beat is ordinary."""
        least_s = self._context.answer_timeout.answer_s + self._repeated_s - ROUNDING_S
        return bool(leader.calls) and self._vain_s(leader) >= least_s

    def _first_wait_s(self, leader: Leader) -> float:
        """What is left of it."""
        left_s = self._context.answer_timeout.answer_s - self._vain_s(leader)
        return left_s if left_s > ROUNDING_S else 0.0

    @property
    def _silence_s(self) -> float:
        """The first wait allows for slow answers; the repetitions make sure that no datagram was lost."""
        timing = self._context.timing
        repetitions = timing.attempts if self._is_proven else timing.attempts - 1
        return self._context.answer_timeout.answer_s + repetitions * self._repeated_s - ROUNDING_S

    @property
    def _repeated_s(self) -> float:
        """Between vain beats after the first wait."""
        return self._context.timing.answer_s / (QUICKER if self._is_proven else 1)

    @property
    def _is_proven(self) -> bool:
        """Has our leader answered a beat? Before that nothing is known of the way to it."""
        return bool(self._round_trips)

    def _ask_siblings(self, leader: Leader) -> None:
        """A beat and its first repetition were vain: siblings would notice one after the other, as their beats fall
        due, that the leader that they share is dead."""
        context = self._context
        siblings = [each for each in leader.guidance.siblings if each != context.position]
        for each in context.chance.sample(siblings, min(SIBLINGS_MAX, len(siblings))):
            ask = Ask(context.incarnation, context.next_number(), context.terms, suspect=leader.position)
            context.send(each, ask)

    def on_suspect(self, position: Position) -> None:
        """A sibling does not hear from our leader. Beat now, unless that was answered just now or is waited for."""
        leader, context = self.leader, self._context
        if leader is None or leader.position != position or leader.calls or leader.cut_at < inf:
            return
        if context.now - leader.heard_at >= context.timing.answer_s:
            self._beat(leader)

    def _beat(self, leader: Leader) -> None:
        context = self._context
        number = context.next_number()
        revisions, changes, gone = self._roster.batch(context.now)
        context.send(
            leader.position,
            Beat(
                context.incarnation,
                leader.incarnation,
                number,
                int(leader.interval.delay_s * 1100) + 1,
                leader.guidance.version,
                changes,
                gone,
                more=self._roster.unreported > len(revisions),
                rows=len(self._roster.rows),
                digest=digests.shown(self._roster.digest),
                guidance_digest=digests.of_guidance(leader.guidance),
            ),
        )
        leader.calls[number] = Call(context.now, revisions, leader.guidance.version)
        leader.beat_sent_at = context.now
        if changes or gone:
            leader.coalescer.sent()
        first_wait_s = self._first_wait_s(
            leader
        )  # it hears from us as often as we promised also where answers are slow
        wait_s = min(first_wait_s, leader.interval.delay_s) if first_wait_s > 0 else self._repeated_s
        if leader.cut_at < inf:
            wait_s = min(wait_s, context.timing.restart_grace_s / GRACE_BEATS)
        self._plan(context.now + wait_s)

    def awaits(self, source: Position, echo: Echo) -> bool:
        """Does this answer a beat of ours?"""
        leader = self.leader
        return (
            leader is not None
            and source == leader.position
            and echo.incarnation == leader.incarnation
            and echo.number in leader.calls
        )

    def on_echo(self, source: Position, echo: Echo) -> bool:
        """Our leader answered. True when its guidance changed; what answers no beat of ours changes nothing."""
        leader, context = self.leader, self._context
        if leader is None or not self.awaits(source, echo):
            return False
        call = leader.calls[echo.number]
        self._round_trips.append(context.now - call.sent_at)
        context.note(RoundTrip(context.now - call.sent_at))
        context.took(context.now - call.sent_at)
        self._roster.confirm(call.revisions)
        leader.calls.clear()
        leader.suspected = leader.in_doubt = False
        leader.stranger_since = inf
        leader.heard_at = context.now
        leader.cut_at = inf
        self._plan(context.now + context.jittered(leader.interval.step(context.timing.beat_interval_s)))
        self.report_soon()
        if echo.guidance is None:
            return False
        if call.guidance_seen != leader.guidance.version:  # the leader sent news meanwhile, which may be later
            return self.on_guidance(source, echo.incarnation, echo.guidance)
        # It answers what we hold, which may be damaged: also with a lower version than ours.
        leader.guidance = echo.guidance
        return True

    def on_stranger(self, incarnation: Incarnation) -> bool:
        """Our leader lives, in this life, and does not know us. Propose to it again? Not when it says so for long."""
        leader = self.leader
        assert leader is not None
        leader.stranger_since = min(leader.stranger_since, self._context.now)
        if self._context.now - leader.stranger_since > self._context.timing.host_patience_s:
            return False
        # By performance we do not follow its new life before that has accepted us: it may rank otherwise.
        if incarnation != leader.incarnation and not self._context.mapping.by_performance:
            # It answers our own beat: words of its former life are over, and its versions are counted anew.
            leader.incarnation = incarnation
            leader.guidance = msgspec.structs.replace(leader.guidance, version=0)
        leader.calls.clear()
        leader.suspected, leader.in_doubt = False, True
        leader.heard_at = self._context.now
        self._roster.report_everything()  # whatever it confirmed, it has forgotten
        leader.stranger_until = self._context.now + self._context.answer_timeout.answer_s
        self._plan(leader.stranger_until)
        return True

    def on_guidance(self, source: Position, incarnation: Incarnation, guidance: Guidance) -> bool:
        """News of the tree above us; True when they are newer than what we knew."""
        leader = self.leader
        if leader is None or source != leader.position or incarnation != leader.incarnation:
            return False
        if guidance.version <= leader.guidance.version:
            return False
        leader.guidance = guidance
        return True

    # -- suspicion ------------------------------------------------------------------------------------

    def on_cut(self, source: Position, cause: LostCause) -> None:
        """The line to our leader was reported cut: ask at once, and allow for a restart."""
        leader, context = self.leader, self._context
        if leader is None or source != leader.position or leader.cut_at < inf:
            return
        leader.cut_at = context.now
        leader.cut_cause = cause
        pause_s = context.timing.restart_grace_s / GRACE_BEATS
        if context.now - leader.beat_sent_at > pause_s:
            self._beat(leader)
        else:
            self._plan(min(leader.beat_at, context.now + pause_s))

    def on_own_sleep(self) -> None:
        """We slept: forget the vain calls and ask our leader anew before judging anybody."""
        leader = self.leader
        if leader is not None:
            leader.calls.clear()
            leader.suspected, leader.in_doubt = False, True
            leader.cut_at = inf
            leader.interval = Backoff(self._context.timing.beat_interval_s_min)
            self._plan(self._context.now + self._context.timing.report_s)

    def _plan(self, at: float) -> None:
        assert self.leader is not None
        self.leader.beat_at = at
        self._context.timers.plan(Timer.BEAT, at)
