"""The uplink: the edge of a node to its leader (docs/protocol.md, section 4).

Inputs are echoes, guidance, lost connections and time; outputs are beats, changes of the guidance, and the loss of
the leader with its cause. The pause between beats doubles while nothing changes. An unanswered beat is repeated
sooner; after several the leader is lost. A lost connection allows only for a restart. After a late timer of its own
the node forgets unanswered beats before it judges the leader.
"""

from __future__ import annotations

from collections import deque
from math import inf

import msgspec

from subord.core.events import LostCause, RoundTrip
from subord.core.messages import CHANGES_MAX, Ask, Beat, Echo, Goodbye, Guidance, Why
from subord.core.pacing.backoff import Backoff
from subord.core.state import digests
from subord.core.state.coalescer import Coalescer
from subord.core.state.context import Context
from subord.core.state.roster import PROVEN_ROWS, Roster
from subord.core.timers import Timer
from subord.core.view import Incarnation, Position

NO_GUIDANCE = Guidance(0, (), (), (), adrift=False)
GRACE_BEATS = 4  # beats during the restart grace
ROUND_TRIPS = 8  # of the last echoes; the least counts
REPEAT_FACTOR = 2  # repetitions come so many times faster than the first wait
ROUNDING_S = 1e-6
SIBLINGS_MAX = 8  # that are told of a silent leader


class PendingBeat(msgspec.Struct):
    """A beat without an echo."""

    sent_at: float
    revisions: dict[Position, int]
    guidance_seen: int = 0


class Leader(msgspec.Struct, kw_only=True):
    """The leader as the node knows it. Times are seconds of the node's clock."""

    position: Position
    incarnation: Incarnation
    since: float
    heard_at: float
    interval: Backoff  # between two beats
    coalescer: Coalescer
    guidance: Guidance = NO_GUIDANCE
    key: bytes = b""  # of its identity; empty: it gets rows without proofs
    beat_at: float = inf
    beat_sent_at: float = -inf
    pending: dict[int, PendingBeat] = {}  # cleared by each echo; `attempts` and the grace bound it
    cut_at: float = inf  # when the connection was reported lost
    cut_cause: LostCause = "silence"
    suspected: bool = False  # the first wait and repetition of these beats were in vain
    stranger_until: float = -inf  # it answered that it does not know the node: no report before then
    stranger_since: float = inf  # since its first such answer
    in_doubt: bool = False  # until its next echo, because the node slept or is a stranger: it may follow another node


class Uplink:
    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self.leader: Leader | None = None
        self.lost_at: float | None = None  # the node lost its leader then, and has no place since
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS)

    @property
    def round_trip_s(self) -> float:
        """The least of the last echoes; 0 without any."""
        return min(self._round_trips, default=0.0)

    @property
    def is_in_doubt(self) -> bool:
        return self.leader is not None and self.leader.in_doubt

    @property
    def path(self) -> tuple[Position, ...]:
        """Root first, the leader last; empty without a leader."""
        return self.leader.guidance.path if self.leader else ()

    @property
    def is_orphaned(self) -> bool:
        """Whether the node, or one above it, has lost its leader."""
        return self.lost_at is not None or (self.leader is not None and self.leader.guidance.adrift)

    def attach(self, position: Position, incarnation: Incarnation, guidance: Guidance, key: bytes = b"") -> None:
        """Begin a session with the leader that accepted the node, and report the whole subtree to it."""
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
            key=key if context.identity.is_on else b"",
            pending={},
        )
        self._roster.report_everything()  # after the own row states the new place

    def detach(self) -> None:
        self.leader = None
        self._roster.stop_reporting()
        self._context.timers.plan(Timer.BEAT, inf)

    # -- beats --------------------------------------------------------------------------------------

    def report_soon(self) -> None:
        """Changes are unreported: beat soon, so that further changes go with it."""
        leader = self.leader
        if leader is None or leader.pending or not self._roster.unreported:
            return
        if self._context.now < leader.stranger_until:
            return
        if self._roster.unreported >= (PROVEN_ROWS if leader.key else CHANGES_MAX):
            self._beat(leader)  # a full beat gains nothing by waiting
            return
        self._plan(min(leader.beat_at, leader.coalescer.next_at))

    def on_beat_due(self) -> LostCause | None:
        """Send a beat; if the leader is lost, return the cause instead."""
        leader, context = self.leader, self._context
        if leader is None:
            return None
        grace_ends_at = leader.cut_at + context.timing.restart_grace_s
        if leader.beat_sent_at >= grace_ends_at:
            return leader.cut_cause  # the beat after the grace was in vain, too
        if leader.cut_at == inf and self._unanswered_s(leader) >= self._silence_s:
            return "silence"
        if leader.cut_at == inf and not leader.suspected and self._is_suspect(leader):
            leader.suspected = True
            self._ask_siblings(leader)
        self._beat(leader)
        return None

    def _unanswered_s(self, leader: Leader) -> float:
        """Time since the first unanswered beat, in seconds; negative infinity without any."""
        return self._context.now - min((beat.sent_at for beat in leader.pending.values()), default=inf)

    def _is_suspect(self, leader: Leader) -> bool:
        """Whether a beat and its first repetition were in vain; a single loss is common."""
        least_s = self._context.answer_timeout.answer_s + self._repeated_s - ROUNDING_S
        return bool(leader.pending) and self._unanswered_s(leader) >= least_s

    def _first_wait_s(self, leader: Leader) -> float:
        """The rest of the first wait; 0 when it is over."""
        left_s = self._context.answer_timeout.answer_s - self._unanswered_s(leader)
        return left_s if left_s > ROUNDING_S else 0.0

    @property
    def _silence_s(self) -> float:
        """Unanswered time until the leader is lost: a wait for slow answers, then repetitions for lost datagrams."""
        timing = self._context.timing
        repetitions = timing.attempts if self._is_proven else timing.attempts - 1
        return self._context.answer_timeout.answer_s + repetitions * self._repeated_s - ROUNDING_S

    @property
    def _repeated_s(self) -> float:
        """Between repetitions after the first wait."""
        return self._context.timing.answer_s / (REPEAT_FACTOR if self._is_proven else 1)

    @property
    def _is_proven(self) -> bool:
        """Whether the leader has answered a beat; before that the round trip is unknown."""
        return bool(self._round_trips)

    def _ask_siblings(self, leader: Leader) -> None:
        """Tell siblings that the leader does not answer, so that they notice before their own next beats."""
        context = self._context
        siblings = [each for each in leader.guidance.siblings if each != context.position]
        for each in context.chance.sample(siblings, min(SIBLINGS_MAX, len(siblings))):
            ask = Ask(context.incarnation, context.next_number(), context.terms, suspect=leader.position)
            context.send(each, ask)

    def on_suspect(self, position: Position) -> None:
        """A sibling has no answer from the leader: beat now, unless one is pending or an echo just came."""
        leader, context = self.leader, self._context
        if leader is None or leader.position != position or leader.pending or leader.cut_at < inf:
            return
        if context.now - leader.heard_at >= context.timing.answer_s:
            self._beat(leader)

    def _beat(self, leader: Leader) -> None:
        context = self._context
        number = context.next_number()
        revisions, changes, gone = self._roster.batch(context.now, proven=bool(leader.key))
        digest = self._roster.digest - (0 if leader.key else self._roster.digest_of_proofs)
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
                digest=digests.shown(digest),
                guidance_digest=digests.of_guidance(leader.guidance),
            ),
        )
        leader.pending[number] = PendingBeat(context.now, revisions, leader.guidance.version)
        leader.beat_sent_at = context.now
        if changes or gone:
            leader.coalescer.sent()
        # The leader hears a beat within the promised time, also where answers are slow.
        first_wait_s = self._first_wait_s(leader)
        wait_s = min(first_wait_s, leader.interval.delay_s) if first_wait_s > 0 else self._repeated_s
        if leader.cut_at < inf:
            wait_s = min(wait_s, context.timing.restart_grace_s / GRACE_BEATS)
        self._plan(context.now + wait_s)

    def awaits(self, source: Position, echo: Echo) -> bool:
        """Whether `echo` answers a pending beat."""
        leader = self.leader
        return (
            leader is not None
            and source == leader.position
            and echo.incarnation == leader.incarnation
            and echo.number in leader.pending
        )

    def on_echo(self, source: Position, echo: Echo) -> bool:
        """Handle an echo; True when the guidance changed. An echo without a pending beat changes nothing."""
        leader, context = self.leader, self._context
        if leader is None or not self.awaits(source, echo):
            return False
        beat = leader.pending[echo.number]
        self._round_trips.append(context.now - beat.sent_at)
        context.note(RoundTrip(context.now - beat.sent_at))
        context.took(context.now - beat.sent_at)
        self._roster.confirm(beat.revisions)
        leader.pending.clear()
        leader.suspected = leader.in_doubt = False
        leader.stranger_since = inf
        leader.heard_at = context.now
        leader.cut_at = inf
        self._plan(context.now + context.jittered(leader.interval.step(context.timing.beat_interval_s)))
        self.report_soon()
        if echo.guidance is None:
            return False
        if beat.guidance_seen != leader.guidance.version:  # a later guidance arrived meanwhile
            return self.on_guidance(source, echo.incarnation, echo.guidance)
        # It answers the guidance held, which may be damaged: take it also with a lower version.
        leader.guidance = echo.guidance
        return True

    def on_stranger(self, incarnation: Incarnation) -> bool:
        """The leader answered that it does not know the node. True: propose again; False: it said so too long."""
        leader = self.leader
        assert leader is not None
        leader.stranger_since = min(leader.stranger_since, self._context.now)
        if self._context.now - leader.stranger_since > self._context.timing.host_patience_s:
            return False
        # Where ranks change the new incarnation may rank otherwise, so it must accept the node first.
        if incarnation != leader.incarnation and not self._context.mapping.ranks_change:
            # The answer to the own beat is proof: messages of the former incarnation end, versions start anew.
            leader.incarnation = incarnation
            leader.guidance = msgspec.structs.replace(leader.guidance, version=0)
        leader.pending.clear()
        leader.suspected, leader.in_doubt = False, True
        leader.heard_at = self._context.now
        self._roster.report_everything()  # it has lost all that it confirmed
        leader.stranger_until = self._context.now + self._context.answer_timeout.answer_s
        self._plan(leader.stranger_until)
        return True

    def on_guidance(self, source: Position, incarnation: Incarnation, guidance: Guidance) -> bool:
        """Take guidance from the leader; True when it is newer than the one held."""
        leader = self.leader
        if leader is None or source != leader.position or incarnation != leader.incarnation:
            return False
        if guidance.version <= leader.guidance.version:
            return False
        leader.guidance = guidance
        return True

    # -- suspicion ------------------------------------------------------------------------------------

    def on_cut(self, source: Position, cause: LostCause) -> None:
        """The connection to the leader is lost: beat at once, and allow for a restart."""
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
        """The node slept: forget unanswered beats and beat anew."""
        leader = self.leader
        if leader is not None:
            leader.pending.clear()
            leader.suspected, leader.in_doubt = False, True
            leader.cut_at = inf
            leader.interval = Backoff(self._context.timing.beat_interval_s_min)
            self._plan(self._context.now + self._context.timing.report_s)

    def _plan(self, at: float) -> None:
        assert self.leader is not None
        self.leader.beat_at = at
        self._context.timers.plan(Timer.BEAT, at)
