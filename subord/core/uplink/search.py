"""Whom do I ask next, and what do I make of the answers? (protocol section 3)

Intuition: one evening's search for a bed. The inns that one was told of are tried best first, the next one only when
the last has answered or kept silent for long enough; in between one knocks at doors (discovery/prober.py). Why
somebody searches, and what he does when he has found a bed, is told in joining.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from subord.core.discovery.delegation import Delegation
from subord.core.discovery.lowest_seen import LowestSeen
from subord.core.discovery.peer_cache import PeerCache
from subord.core.discovery.prober import Prober
from subord.core.discovery.root_referral import RootReferral
from subord.core.messages import Accept, Advice, Back, Goodbye, Guidance, No, Refuse, Why, Wish
from subord.core.placement.optimizer import Optimizer
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Incarnation, Position
from subord.core.timers import Timer
from subord.core.uplink.answers import Answers
from subord.core.uplink.deadlines import HOME_RETRY_S_MAX, Deadlines
from subord.core.uplink.departures import Departures
from subord.core.uplink.leader import Uplink
from subord.core.uplink.requests import REQUESTS_MAX, Aim, Request, Requests
from subord.core.uplink.rest import Rest
from subord.core.uplink.return_home import ReturnHome
from subord.core.uplink.rounds import Round

BUSY_MAX = 8
SEEDS_MAX = 64
ROUNDS_MAX = 7  # among full lower ranks, before we stand alone


class Ends(NamedTuple):
    """Who is told how a search ended: by whom we were accepted, or that nobody is above us."""

    attached: Callable[[Position, Incarnation, Guidance], None]
    alone: Callable[[], None]


class Search(ABC):
    """Rounds, questions and answers of one node."""

    def __init__(
        self,
        context: Context,
        roster: Roster,
        uplink: Uplink,
        optimizer: Optimizer,
        ends: Ends,
    ) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self.optimizer = optimizer
        self._ends = ends
        self.return_home = ReturnHome(context, uplink)
        self.aim = Aim.NOTHING
        self.exchanges = 0
        self.peers = PeerCache(context)
        self.seeds: tuple[Position, ...] = ()  # named by the operator
        self.answers = Answers()
        self.lowest_seen = LowestSeen(context)
        self._deadlines = Deadlines(context)
        self._prober = Prober(context)
        self._requests = Requests(context, roster)
        self.referral = RootReferral(context, uplink, self._ask_soon)
        self.delegation = Delegation(context, roster, self._requests, self._prober)
        self._round = Round(context)
        self._rounds = 0  # repeated because all who answered were full
        self._rest = Rest(context)
        self._departures = Departures(context)

    def look_soon(self, aim: Aim) -> None:
        """Something changed: who looks for this, and rests, looks soon."""
        if self.aim is aim:
            self._rest.shorten(self._context.timing.search_interval_s)

    @property
    def is_fast(self) -> bool:
        """Do we walk from door to door as one who has just arrived?"""
        return self._prober.next_at < inf and self._prober.is_fast and not self._is_settling

    def _ask_soon(self, source: Position) -> None:
        """In a moment: it has perhaps just started, and will then have found a lower one itself."""
        self._ask_later(source, self._context.jittered(self._context.timing.answer_s / 4))

    def _ask_later(self, source: Position, seconds: float) -> None:
        if self._uplink.leader is None and self.aim is not Aim.NOTHING:
            self._prober.add((source,), self._context.now + seconds)

    def _begin_search(self, aim: Aim, known: Iterable[Position]) -> None:
        self.aim, self._rounds = aim, 0
        self._requests.clear()
        self._begin_round(known)

    def _begin_round(self, known: Iterable[Position]) -> None:
        self._round = Round(self._context, known)
        self._rest.end()
        if self.aim is not Aim.LOWER:
            self._rest.length_s = self._context.timing.search_interval_s

    def _advance(self) -> None:
        """Propose to the next who may have room, or see whether the search has ended."""
        if self.aim in (Aim.NOTHING, Aim.BETTER):
            if not self._requests and self.aim is Aim.BETTER and self._rest.until == inf:
                self._rest.begin_longer(self.optimizer.rest_s_max)
            return
        awaited = self._awaited()
        if not self._may_propose or any(self._context.now < request.hedge_at for request in awaited):
            return
        leader = self._deadlines.take_leader()
        may_displace = self._deadlines.may_displace and not awaited
        if may_displace and leader is None and self._round.is_crowded and self._displaces():
            return
        if (offer := leader or self._round.next_offer(self._departures)) is not None:
            self._propose(offer, patient=leader is not None)
        elif awaited or (may_displace and self._displaces()):
            return
        elif self._deadlines.gives_up and (self._knows_a_node or self._prober.has_asked(self._deadlines.near)):
            self._end_round()

    def _displaces(self) -> bool:
        """Ask a full leader for the place of a guest that ranks above us, if one is known."""
        giving_way = self._round.take_displacement()
        if giving_way is not None:
            self._propose(giving_way, Wish.DISPLACE)
        return giving_way is not None

    @property
    def _may_propose(self) -> bool:
        """Have we not just proposed to many?"""
        return self._requests.may_propose(has_arp_pending=self._prober.has_arp_pending)

    def _awaited(self) -> list[Request]:
        """The open questions on whose answers all depends."""
        # Two acceptances at once would waste a slot; a round that is broken off begins with the same ones again.
        return [
            request
            for request in self._requests
            if (
                request.awaited and request.position in self._round.advisers
                if request.wish is None
                else not (request.patient and self._deadlines.takes_guest_place)
            )
        ]

    def _is_waiting(self) -> bool:
        """Is an answer awaited, or have we just proposed to many?"""
        return not self._may_propose or bool(self._awaited())

    @property
    def _is_settling(self) -> bool:
        """Has our own tree just changed? Then neighbours come first. To the lowest of the network all come anyway."""
        if self.return_home.first is None:
            return self._roster.live > 1 or not self._prober.is_fast
        return self._roster.live > 1 and self._context.now < self._roster.changed_at + self._context.timing.patience_s

    @property
    def _knows_a_node(self) -> bool:
        """Is there any reason to believe that somebody below us lives?"""
        return self._round.heard or self.lowest_seen.knows_lower

    def _end_round(self) -> None:
        if self.aim is Aim.LOWER and self._knows_a_node:
            self._rest.shorten(self._context.timing.search_interval_s)
        if self.aim is Aim.LOWER or self._rest.until < inf:
            return  # the next one will come
        if self._knows_a_node and self._rounds < ROUNDS_MAX:
            self._rounds += 1  # lower ranks live, but are full just now: we are no root
            self._rest.begin(min(self._rounds, 3) * self._rest.length_s / 2)
        else:
            self._end_alone()

    def _end_alone(self) -> None:
        self.aim = Aim.LOWER
        self._rest.begin(self._rest.length_s)
        self._ends.alone()

    def _look_again(self) -> None:
        """A rest is over."""
        context = self._context
        self._rest.end()
        if self._is_waiting() or any(request.wish is not None for request in self._requests):
            self._rest.begin(context.timing.answer_s)  # perhaps the answer is just coming
        elif self.aim is Aim.LOWER:
            self._begin_round(())
            self._prober.look_again((*self.seeds, *self.peers, *self.peers.others), self._roster.is_live)
            if self.lowest_seen.knows_lower:
                # Who was heard below us may have no place as yet: soon it will.
                self._rest.length_s = context.timing.search_interval_s / 2
            self._rest.begin_longer(context.timing.search_interval_s_max)
        elif self.aim in (Aim.FIRST, Aim.NEXT):
            # Who has just started like us takes nobody in until it has a place: it is only asked.
            self._begin_round(self.peers if self.aim is Aim.NEXT else ())
            if self.lowest_seen.knows_lower:
                self._ask_adviser(self.lowest_seen.lowest)
            self._advance()
        elif self.aim is Aim.BETTER:
            self._round = Round(context)
            for root in self._uplink.path[:1]:
                self._requests.ask(root)

    def _propose(
        self,
        position: Position,
        wish: Wish | None = None,
        *,
        tries: int = 1,
        patient: bool = False,
        standing: int | None = None,
    ) -> None:
        self._round.visited.add(position)
        fitting = self.return_home.wish_for(position) if wish is None else wish
        self._requests.propose(position, fitting, tries=tries, patient=patient, standing=standing)
        self._hurry()

    def _hurry(self) -> None:
        """An orphan asks the next candidate when the last one is slow to answer: it may have died as well."""
        if self.aim is Aim.NEXT:
            self._requests.hedge()

    def on_timer(self) -> None:
        """Questions may be overdue, a rest or our patience over, or the next door reached."""
        now = self._context.now
        for request in self._requests.overdue():
            if self._requests.is_open(request):
                self._repeat_or_fail(request, "no answer")
        if self._rest.until <= now:
            self._look_again()
        if self._prober.next_at <= now:
            self._probe()
        self._advance()

    def _probe(self) -> None:
        """At the next doors, unless there is something better to do."""
        if self._round.offers or self._is_waiting() or len(self._requests) >= REQUESTS_MAX:
            self._prober.pause()
            return
        called = self._prober.next_call()
        if called is not None:
            self._context.send(called, Back(self._context.incarnation, self._context.position))
            return
        known_only = self._is_settling if self.aim is Aim.LOWER else self._knows_a_node or self.aim is Aim.BETTER
        targets = self._prober.step(known_only=known_only)
        if known_only and not targets and (self.return_home.first is None or self.aim is Aim.BETTER):
            self._prober.stop()
        self.delegation.probe(targets, share=self.aim is Aim.LOWER)

    def on_unreachable(self, position: Position) -> None:
        """The host answers that no daemon listens there."""
        for request in self._requests.about(position):
            if request.patient:
                self.answers.mark(self._context.now, position, "no daemon there")
                self._deadlines.host_is_up()
            else:
                self._fail(request, "no daemon there")

    def _repeat_or_fail(self, request: Request, answer: str) -> None:
        if request.patient and not self._deadlines.gives_up:
            self.answers.mark(self._context.now, request.position, answer)
            request.wait_s = min(2 * request.wait_s, HOME_RETRY_S_MAX)
            self._requests.put(request)
        elif request.tries > 0 and not request.patient:
            request.tries -= 1
            self._requests.put(request)
        else:
            self._fail(request, answer)

    def _fail(self, request: Request, answer: str) -> None:
        self.answers.mark(self._context.now, request.position, answer)
        self._requests.close(request)
        if request.wish is None:
            self._round.give_up(request.position)
        self._advance()

    def _take(self, source: Position, exchange: int) -> Request | None:
        """The open question that this answers, if any."""
        request = self._requests.find(source, exchange)
        context, is_open = self._context, request is not None
        for notice in context.answer_timeout.answered(source, exchange, context.now, is_open=is_open):
            context.note(notice)
        if request is not None:
            self.exchanges += 1
            self.peers.know((source,))
        return request

    def on_accept(self, source: Position, accept: Accept) -> None:
        """A place. An acceptance that we no longer wait for is given back."""
        request = self._take(source, accept.exchange)
        if request is None or request.wish is None:
            leader = self._uplink.leader
            # Not while we are just proposing to it: it would take the goodbye for an answer to that.
            asking = any(each.wish is not None for each in self._requests.about(source))
            if not asking and (leader is None or leader.position != source):
                self._context.send(source, Goodbye(self._context.incarnation, Why.MOVED))
            return
        self.answers.mark(self._context.now, source, "accepted")
        self._requests.clear()
        self.optimizer.rank_change.stand(request.standing)
        self.optimizer.accepted(source, by_choice=self.aim is Aim.BETTER)
        self.peers.know(accept.guidance.path)
        self._ends.attached(source, accept.incarnation, accept.guidance)

    def on_refuse(self, source: Position, refuse: Refuse) -> bool:
        """No place here, but hints. False when we did not wait for it."""
        request = self._take(source, refuse.exchange)
        if request is None:
            return False
        self._round.heard |= refuse.no in (No.FULL, No.BUSY)
        may_wait = self.aim is not Aim.BETTER and (request.wish is not None or source != self._round.root)
        if refuse.no is No.BUSY and request.busy < BUSY_MAX and may_wait:
            request.put_off(self._context.now + refuse.retry_ms / 1000)
            self._deadlines.put_off(request.next_at + request.wait_s)
            self.answers.mark(self._context.now, source, refuse.text)
            return True
        if refuse.no is No.FULL:
            self._round.note_full(source, refuse.highest_guest)
            if self.aim is Aim.BETTER and self._context.mapping.by_latency:
                self.optimizer.latencies.was_full(source, refuse.highest_guest, refuse.hints)
                self.look_soon(Aim.BETTER)
        if refuse.no is No.LEAVING:
            self._departures.note(source)
        if self.aim not in (Aim.NOTHING, Aim.BETTER):
            self._round.consider(refuse.hints, first=refuse.no is not No.FULL or not self._round.is_advised)
            if self._round.may_advise(self._round.root):
                self._ask_adviser(self._round.root)
        self._fail(request, f"refused: {refuse.text}")
        # Who wanted to rise may still stay where it is, as it is.
        return request.standing <= self._context.mapping.rank_classes.own

    def on_advice(self, source: Position, advice: Advice) -> None:
        """Somebody is there. Its root knows best, so it is asked before anybody is proposed to."""
        request = self._take(source, advice.exchange)
        if request is None:
            return
        self._requests.close(request)
        self._prober.found_node(is_seed=source in self.seeds)
        self.answers.mark(self._context.now, source, "has room" if advice.room else "no free slot")
        if self.aim is Aim.BETTER:
            self._weigh(source, advice)
        elif self.aim is not Aim.NOTHING:
            self._follow_advice(source, advice)

    def _may_move_home(self, home: Position) -> bool:
        """Not a guest, or a root, whose home was lost again and again; it rests until it may."""
        until = self.return_home.damping.hold_until
        if self.aim not in (Aim.BETTER, Aim.LOWER) or self._context.now >= until:
            return True
        self.answers.mark(self._context.now, home, "held: lost too often lately")
        self._rest.until = min(self._rest.until, until)
        return False

    def _follow_advice(self, source: Position, advice: Advice) -> None:
        own, may_lead = self._context.position, self._context.mapping.may_lead
        home = self.return_home.elsewhere
        if self.aim is Aim.LOWER and home in (source, advice.root) and home and not self._may_move_home(home):
            return  # a root above us that flaps: our tree stays whole meanwhile
        self._round.advised_by(source)
        self._round.heard |= may_lead(source, own) or may_lead(advice.root, own)
        self._round.consider((*advice.hints, source) if advice.room else advice.hints)
        self._round.visited.discard(source)
        if may_lead(source, own):
            self._round.note_full(source, advice.highest_guest)
        if advice.root != source and self._round.may_advise(advice.root):
            self._ask_adviser(advice.root)
            return
        is_other = advice.root != source and may_lead(own, advice.root) and not self._roster.is_live(advice.root)
        if is_other and self._round.may_greet(advice.root):
            self._prober.add((advice.root,), self._context.now)  # it should follow us: let it hear that we are here
            self.look_soon(Aim.LOWER)  # it may have found somebody else
        self._advance()

    def _ask_adviser(self, root: Position) -> None:
        self._round.advisers.append(root)
        self._requests.ask(root)
        self._hurry()

    def sizes(self) -> dict[str, int]:
        """How full our tables are."""
        return {
            "questions": len(self._requests),
            "candidates": len(self._round) + len(self._prober),
            "peers": len(self.peers) + len(self.peers.others),
            "answers": len(self.answers),
            "asked": len(self._context.answer_timeout),
        }

    def plan(self) -> None:
        """Set the alarm; whoever gave us something to do calls this afterwards. One that is due stays due."""
        if self._context.timers.at(Timer.SEARCH) <= self._context.now:
            return
        is_search = self.aim in (Aim.FIRST, Aim.NEXT)
        patience_ends_at = self._deadlines.next_at if is_search else inf
        questions_at = self._requests.next_at(has_arp_pending=self._prober.has_arp_pending)
        at = min(self._rest.until, questions_at, self._prober.next_at, patience_ends_at)
        if at == inf and is_search:
            at = self._context.now + self._context.timing.answer_s  # the last address asked has answered by then
        self._context.timers.plan(Timer.SEARCH, at)

    @abstractmethod
    def _weigh(self, source: Position, advice: Advice) -> None:
        """A guest hears where else it could stand."""
