"""One node: passes each event to the part it concerns, and owns the place.

`handle(event, now)` changes the state and returns actions; `deadline` is the latest time of the next call. Invariant:
after each `handle` it lies in the future. Sockets, clock and randomness come in as arguments, so daemon and simulator
run the same code. search/ finds leaders, edges/ keeps what was found, state/states.py is the table of states.
"""

from __future__ import annotations

from random import Random
from typing import Unpack, assert_never

from subord.core.discovery.announcer import Announcer
from subord.core.discovery.scan import Scan
from subord.core.edges.binding import Binding
from subord.core.edges.leader import Uplink
from subord.core.edges.leaving import Leaving
from subord.core.edges.listing import Listing
from subord.core.edges.own_row import own_row
from subord.core.edges.subordinates import Downlink
from subord.core.events import (
    FAILURES,
    Action,
    Admission,
    Dropped,
    EdgeClosed,
    Event,
    Gone,
    Healed,
    Known,
    LeaderLost,
    Leave,
    LostCause,
    Measured,
    Performance,
    PlaceChanged,
    Received,
    RosterChanged,
    Seeds,
    Start,
    Unreachable,
    Unreadable,
    Wakeup,
)
from subord.core.ingress import Ingress
from subord.core.messages import (
    Accept,
    Advice,
    Announce,
    Ask,
    Back,
    Beat,
    Echo,
    Errand,
    Goodbye,
    Guide,
    Meet,
    Message,
    No,
    Pong,
    Probe,
    Propose,
    Refuse,
    Stranger,
    Versions,
    Why,
)
from subord.core.placement.optimizer import Optimizer
from subord.core.remeasuring import Remeasuring
from subord.core.search.joining import Joining
from subord.core.search.moving import Moving
from subord.core.search.root_referral import RootReferral
from subord.core.settings import Settings
from subord.core.state.context import Context, GivenIdentity
from subord.core.state.refusals import Refusals
from subord.core.state.roster import OWN, SETTLE_S, Roster
from subord.core.state.states import FOLLOWING, SETTLING, Aim, Phase, State, Trigger
from subord.core.timers import Timer
from subord.core.view import Incarnation, Place, Position


class Node:
    """The subordination protocol of one node (HPCS 2015; docs/protocol.md)."""

    def __init__(
        self,
        settings: Settings,
        position: Position,
        incarnation: Incarnation,
        chance: Random,
        now: float,
        **identity: Unpack[GivenIdentity],
    ) -> None:
        """`now` is a steady clock in seconds; `incarnation` must be higher after every restart."""
        assert 0 < position <= settings.network.size < 1 << 64, "a position has 64 bits on the wire"
        self.context = Context(settings, position, incarnation, chance, now, **identity)
        self.roster = Roster(position)
        self.context.mapping.rank_classes.rows = self.roster.rows
        self.uplink = Uplink(self.context, self.roster)
        self.downlink = Downlink(self.context, self.roster, self.uplink)
        self.optimizer = Optimizer(self.context, self.uplink, self.downlink.slots)
        self.joining = Joining(self.context, self.roster, self.uplink, self.optimizer, self._be_root)
        self.search = self.joining.search
        self.referral = RootReferral(self.context, self.uplink, self.search.prober.ask_soon)
        self.moving = Moving(self.context, self.uplink, self.optimizer, self.joining, self.referral)
        self.remeasuring = Remeasuring(
            self.context, self.uplink, self.downlink, self.optimizer, self.joining, restate=self._state_own_row
        )
        self.leaving = Leaving(self.context, self.uplink, self.downlink)
        self.binding = Binding(self.context, self.roster, self.uplink, self.downlink)
        self.scan = Scan(self.context, self.joining.start_first)
        self.announcer = Announcer(self.context)
        self.listing = Listing(self.context, self.roster, self.uplink)
        self.refusals = Refusals(self.context)
        self.ingress = Ingress(self.context, self.refusals, self.downlink.admits, self.downlink.incarnation_of)
        self.place: Place | None = None
        self.started_at = self.placed_at = now
        self.reason, self.leader_changes = "just started", 0
        self._path: tuple[Position, ...] = ()
        self._old_leader: Position | None = None
        self._shown = 0, 0
        self._state_own_row()

    @property
    def phase(self) -> Phase:
        return self.context.state.phase

    @property
    def deadline(self) -> float:
        """When the driver must deliver the next Wakeup; infinity: never. Read it after each `handle`."""
        return self.context.timers.next_at

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle one event; return the actions in order."""
        context = self.context
        assert now >= context.now, "the driver's clock ran backwards"
        slept = now - min(self.deadline, now) > context.timing.own_sleep_s
        context.now = now
        if self.phase is not Phase.GONE:
            if slept:
                self._on_own_sleep()
            self._dispatch(event)
        self.joining.plan()
        self._after(has_served=self._run_timers())
        assert self.deadline > now, "a due timer was not served: the driver would spin"
        actions, context.actions = context.actions, []
        return actions

    def _dispatch(self, event: Event) -> None:
        match event:
            case Received():
                self._on_received(event)
            case Wakeup():
                pass  # timers are served after every event
            case Unreadable():
                self.refusals.note(event.address, "us", f"speaks wire version {event.version}, we do not")
            case Unreachable():
                self.scan.on_unreachable(event.position)
                self.search.on_unreachable(event.position)
                self.uplink.on_cut(event.position, "refused")
                self.downlink.on_cut(event.position)
            case EdgeClosed():
                self.uplink.on_cut(event.position, "closed")
                self.downlink.on_cut(event.position)
            case Known():
                self.remeasuring.remember(event.standing)
                self.search.peers.remember(event)
            case Seeds():
                self.search.prober.on_seeds(event.positions)
            case Performance():
                self.remeasuring.on_performance(event.jobs)
            case Measured():
                self.downlink.reports.verification.on_measured(event.position, event.number)
                self.optimizer.latencies.on_measured(event.position, event.number, event.seconds, event.performance)
            case Start():
                self.announcer.alone()
                self.scan.begin() if event.full_scan else self.joining.start_first()
            case Leave():
                self._leave(event.grace_s)
            case Admission():
                if self.binding.admit(event):
                    self._lose_leader("unwelcome", ())
            case _:
                assert_never(event)

    def _after(self, *, has_served: bool) -> None:
        """After any event: serve the guests whose home is back, report changes, note a changed roster."""
        self.binding.follow()
        self.downlink.follow_roster()
        if self.phase is not Phase.GONE:
            self.remeasuring.follow(self.phase)
            self.uplink.report_soon()
            if self.roster.unsettled:
                self.context.timers.plan_if_unset(Timer.SETTLE, self.context.now + SETTLE_S)
        if has_served or self.context.mapping.ranks_change:  # else nothing of the search has changed since its plan
            self.joining.plan()
        former, self._shown = self._shown, (self.roster.live, self.roster.not_home)
        if former != self._shown:
            self.context.note(RosterChanged(*self._shown))

    # -- messages ------------------------------------------------------------------------------------------

    def _on_received(self, event: Received) -> None:
        message = event.message
        if not self.ingress.admits(event) or event.source is None:
            return
        is_foreign = isinstance(message, Refuse) and message.no is No.TERMS  # perhaps of another cluster
        if self.uplink.leader is None and not is_foreign:
            self.search.lowest_seen.heard(event.source)
        self._on_message(event.source, event.address, message)

    def _on_message(self, source: Position, address: str, message: Message) -> None:  # noqa: PLR0912 - one a case
        match message:
            case Propose():
                self._on_propose(source, message)
            case Ask(listing=times) if times:
                self.listing.answer(source, message, is_root=self.phase is Phase.ROOT)
            case Ask(suspect=leader) if leader:
                self.uplink.on_suspect(leader)
            case Ask():
                self.scan.on_asked(source)
                source = message.asker or source
                self.downlink.on_ask(source, message, self.search.lowest_seen.lowest)
                self.search.on_asked(source)
            case Beat():
                self.downlink.on_beat(source, message)
            case Accept():
                self._on_accept(source, message)
            case Refuse():
                self._on_refuse(source, address, message)
            case Advice():
                if not self.listing.on_advice(source, message):
                    self.scan.on_advice(source, message)
                    if self.search.on_advice(source, message):
                        self.moving.on_advice(source, message)
            case Back():
                if message.home == self.context.mapping.home_of(self.context.position):
                    self.joining.on_home_alive()
            case Echo():
                is_answer = self.uplink.awaits(source, message)
                self._on_guided(self.uplink.on_echo(source, message))
                if is_answer:
                    self.remeasuring.on_echo()
            case Guide():
                self._on_guided(self.uplink.on_guidance(source, message.incarnation, message.guidance))
            case Stranger():
                self._on_stranger(source, message)
            case Goodbye():
                self._on_goodbye(source, message)
            case Errand():
                self.search.delegation.run(source, message, self.uplink)
            case Meet(root=root):
                self.referral.on_meet(root)
            case Announce():
                self.announcer.on_announce(source)
                self.search.on_announce(source)
            case Versions() | Probe() | Pong():
                pass  # the driver handles these
            case _:
                assert_never(message)

    def _on_propose(self, source: Position, propose: Propose) -> None:
        if source not in self.roster.rows:
            self.search.look_soon(Aim.LOWER)  # nodes are joining, and this one may not be the lowest
        self.downlink.on_propose(source, propose)
        self.search.on_asked(source)

    def _on_accept(self, source: Position, accept: Accept) -> None:
        if self.phase is Phase.LEAVING:
            self.context.send(source, Goodbye(self.context.incarnation, Why.LEFT))
        elif self.context.position in accept.guidance.path:
            self.context.note(Dropped("loop"))  # this node stands above it: never follow it (S1)
        elif self.search.on_accept(source, accept):
            self._attach(source, accept)

    def _on_refuse(self, source: Position, address: str, refuse: Refuse) -> None:
        if not self.search.on_refuse(source, refuse):
            return
        if refuse.no is No.TERMS:
            self.refusals.note(address, "them", refuse.text)
        leader = self.uplink.leader
        follows = leader is not None and leader.position == source and self.context.state in FOLLOWING
        if follows and refuse.no is not No.BUSY:
            self._lose_leader("unwelcome", refuse.hints)

    def _on_guided(self, changed: bool) -> None:
        leader = self.uplink.leader
        if not changed or leader is None:
            return
        if self.context.position in leader.guidance.path:
            self.context.note(Dropped("loop"))
            self._lose_leader("unwelcome", ())
        else:
            self.search.peers.know((*leader.guidance.alternates, *leader.guidance.path))
            self._on_path()

    def _on_path(self) -> None:
        """The path to the root may have changed: tell subordinates before their next beats."""
        old, self._path = self._path, self.uplink.path
        self.downlink.forget(self._path)  # also if the path is an old one
        if len(self._path) > len(old) and not self.context.mapping.measures_round_trips:
            self.search.look_soon(Aim.BETTER)  # this node stands deeper, but no farther from its leader
        if self._path != old:
            self.listing.on_path(self._path)
            self.downlink.tell_soon()

    def _on_stranger(self, source: Position, stranger: Stranger) -> None:
        leader = self.uplink.leader
        if leader is None or leader.position != source or stranger.number not in leader.pending:
            self.context.note(Dropped("unexpected"))
        elif self.context.state in FOLLOWING:
            if self.uplink.on_stranger(stranger.incarnation):
                self.joining.rejoin()
            else:
                self._lose_leader("unwelcome", ())

    def _on_goodbye(self, source: Position, goodbye: Goodbye) -> None:
        leader = self.uplink.leader
        if leader is None or source != leader.position:
            self.downlink.on_goodbye(source, goodbye)
            if self.phase is Phase.LEAVING and not self.downlink.slots.taken:
                self._go_on_leaving()
        elif goodbye.incarnation != leader.incarnation:
            self.context.note(Dropped("older_incarnation"))
        elif goodbye.why is Why.DISPLACED:
            self._lose_leader("displaced", goodbye.alternates)
        elif goodbye.why is Why.LEAVING and self.context.state in FOLLOWING:
            self.context.follow(Trigger.NOTICE)
            self.joining.start_next(leader, goodbye.alternates)

    # -- time -------------------------------------------------------------------------------------------------

    def _run_timers(self) -> bool:
        """Serve due timers, also after a datagram that arrived just before the wake-up. False: none is due."""
        due = self.context.timers.take_due(self.context.now)
        for timer in due:
            match timer:
                case Timer.BEAT:
                    if (cause := self.uplink.on_beat_due()) is not None:
                        self._lose_leader(cause, ())
                case Timer.LIVENESS | Timer.EXPIRY:
                    self.downlink.lose_overdue()
                case Timer.SEARCH:
                    self.joining.on_timer()
                case Timer.SCAN:
                    self.scan.on_timer()
                case Timer.GUIDE:
                    self.downlink.tell_subordinates()
                case Timer.ANNOUNCE:
                    self.announcer.on_timer(silent=self.search.lowest_seen.knows_lower)
                case Timer.MEASURE:
                    self.optimizer.latencies.on_timer()
                    self.moving.on_measured()
                case Timer.RANK_CHANGE:
                    self.remeasuring.on_timer()
                case Timer.LISTING:
                    self.listing.on_timer()
                case Timer.LEAVE:
                    self._go_on_leaving()
                case Timer.SETTLE:
                    self.roster.settle_some(self.context.now)
                case _:
                    assert_never(timer)
        return bool(due)

    def _on_own_sleep(self) -> None:
        """The timer fired late, so the node slept: no peer is judged by that time (flux-framework/flux-core#638)."""
        self.joining.on_own_sleep()
        self.uplink.on_own_sleep()
        self.downlink.on_own_sleep()

    # -- places -------------------------------------------------------------------------------------------------

    def _attach(self, leader: Position, accept: Accept) -> None:
        left, is_home = self.uplink.leader, leader == self.context.mapping.home_of(self.context.position)
        if self.context.state is State.LEADER_LEAVING and left is not None and self.place is Place.HOME:
            self.search.return_home.lost(left.since)
        self.scan.stop()  # a node that is called home needs no other place
        self.uplink.attach(leader, accept.incarnation, accept.guidance, accept.key)
        self.announcer.stop()
        self._on_path()
        self.joining.settle(leader, home=is_home)
        self._settle_in(Place.HOME if is_home else Place.GUEST, leader)

    def _be_root(self) -> None:
        leader = self.uplink.leader
        if leader is not None:
            self.context.send(leader.position, Goodbye(self.context.incarnation, Why.MOVED))
            self.uplink.detach()
            self.announcer.alone()
        if self.place is None:
            below = self.context.mapping.at_home_below(self.context.position)
            self.search.prober.call(p for p in below if not self.roster.is_live(p))
        self._settle_in(Place.ROOT, None)

    def _settle_in(self, place: Place, leader: Position | None) -> None:
        trigger, reason = SETTLING[place]
        self.reason = (self.search.refusals if place is Place.ROOT else None) or reason
        old, self._old_leader = self._old_leader, leader
        self.context.follow(trigger)
        if self.place is None or (place, leader) != (self.place, old):
            if self.place is not None:
                self.leader_changes += 1
            self.place, self.placed_at = place, self.context.now
            self.context.note(PlaceChanged(place, leader, old, self.leader_changes, self.reason))
        self._state_own_row()
        lost_at, self.uplink.lost_at = self.uplink.lost_at, None
        if lost_at is not None:
            self.context.note(Healed(self.context.now - lost_at))
            self.downlink.tell_subordinates()

    def _lose_leader(self, cause: LostCause, hints: tuple[Position, ...]) -> None:
        leader = self.uplink.leader
        assert leader is not None
        self.uplink.detach()
        self.context.follow(Trigger.LOST)
        self.context.note(LeaderLost(leader.position, cause, self.context.now - leader.heard_at))
        if self.phase is Phase.LEAVING:
            return
        if self.place is Place.HOME and cause in FAILURES:
            self.search.return_home.lost(leader.since)
        self.uplink.lost_at = self.context.now
        self.announcer.alone()
        self.downlink.tell_subordinates()
        self.joining.start_next(leader, hints, cause)

    def _state_own_row(self) -> None:
        leader, moves, at, trip = self.uplink.leader, self.leader_changes, self.placed_at, self.remeasuring.round_trip
        row = own_row(self.context, leader, self.place, moves=moves, placed_at=at, round_trip=trip)
        self.roster.state(OWN, row, self.context.now)

    # -- leaving -------------------------------------------------------------------------------------------------

    def _leave(self, grace_s: float) -> None:
        """Subordinates are told their alternates first, then the leader (docs/protocol.md, section 4)."""
        if self.phase is Phase.LEAVING:
            return
        self.context.follow(Trigger.LEAVE)
        self.scan.stop()
        self.joining.stop()
        self.announcer.stop()
        self.leaving.begin(grace_s)
        self._go_on_leaving()

    def _go_on_leaving(self) -> None:
        if self.leaving.is_done():
            self.context.follow(Trigger.DONE)
            self.uplink.detach()
            self.context.timers.clear()
            self.context.note(Gone())
