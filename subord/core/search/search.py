"""The steps of a search: the next candidate, and the effects of its answer (docs/protocol.md, section 3).

Input are answers and due timers; output are proposals, questions and probes, and at the end one call of `Ends`.
Candidates are asked best first, the next one after an answer or a timeout. Reasons and results: joining.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from subord.core.discovery.lowest_seen import LowestSeen
from subord.core.discovery.peer_cache import PeerCache
from subord.core.discovery.prober import Prober
from subord.core.edges.leader import Uplink
from subord.core.messages import Accept, Advice, Back, Goodbye, Guidance, No, Refuse, Why, Wish
from subord.core.placement.optimizer import Optimizer
from subord.core.search.answers import Answers
from subord.core.search.deadlines import HOME_RETRY_S_MAX, Deadlines
from subord.core.search.delegation import Delegation
from subord.core.search.departures import Departures
from subord.core.search.requests import REQUESTS_MAX, Aim, Request, Requests
from subord.core.search.rest import Rest
from subord.core.search.return_home import ReturnHome
from subord.core.search.root_referral import RootReferral
from subord.core.search.rounds import Round
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.timers import Timer
from subord.core.view import Incarnation, Position

BUSY_MAX = 8
SEEDS_MAX = 64
ROUNDS_MAX = 7  # among full lower ranks, before the node becomes root


class Ends(NamedTuple):
    """The results of a search: a leader accepted the node, or no lower node answers."""

    attached: Callable[[Position, Incarnation, Guidance], None]
    alone: Callable[[], None]


class Search(ABC):
    """Rounds, requests and answers of one node."""

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
        self._rounds = 0  # repeated because all lower nodes were full
        self._rest = Rest(context)
        self._departures = Departures(context)

    def look_soon(self, aim: Aim) -> None:
        """Something changed that matters for `aim`: search soon."""
        if self.aim is aim:
            self._rest.shorten(self._context.timing.search_interval_s)

    @property
    def is_fast(self) -> bool:
        """Whether the node probes at the fast pace."""
        return self._prober.next_at < inf and self._prober.is_fast and not self._is_settling

    def _ask_soon(self, source: Position) -> None:
        """Ask `source` after a short wait, in which a node that just started finds a lower one itself."""
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
        """Propose to the next candidate, or end the round."""
        if self.aim in (Aim.NOTHING, Aim.BETTER):
            if not self._requests and self.aim is Aim.BETTER and self._rest.until == inf:
                self._rest.begin_longer(self.optimizer.rest_s_max)
            return
        awaited = self._awaited()
        if not self._may_propose or any(self._context.now < request.hedge_at for request in awaited):
            return
        leader = self._deadlines.take_leader()
        may_displace = self._deadlines.may_displace and not awaited
        if may_displace and leader is None and self._round.has_refusals and self._try_displacement():
            return
        if (offer := leader or self._round.next_offer(self._departures)) is not None:
            self._propose(offer, patient=leader is not None)
        elif awaited or (may_displace and self._try_displacement()):
            return
        elif self._deadlines.is_over and (self._knows_a_node or self._prober.has_asked(self._deadlines.near)):
            self._end_round()

    def _try_displacement(self) -> bool:
        """Ask a full leader for the place of a guest that ranks above the node; False: none is known."""
        leader = self._round.take_displacement()
        if leader is not None:
            self._propose(leader, Wish.DISPLACE)
        return leader is not None

    @property
    def _may_propose(self) -> bool:
        """Whether the pace allows a new proposal."""
        return self._requests.may_propose(has_arp_pending=self._prober.has_arp_pending)

    def _awaited(self) -> list[Request]:
        """The open requests that the next step waits for."""
        # Two acceptances at once would waste a slot, and the next round would repeat open proposals.
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
        """Whether the next step waits for an answer or for the pace of proposals."""
        return not self._may_propose or bool(self._awaited())

    @property
    def _is_settling(self) -> bool:
        """Whether the own tree just changed: neighbours come first. All nodes come to the lowest position anyway."""
        if self.return_home.first is None:
            return self._roster.live > 1 or not self._prober.is_fast
        return self._roster.live > 1 and self._context.now < self._roster.changed_at + self._context.timing.patience_s

    @property
    def _knows_a_node(self) -> bool:
        """Whether a lower node seems to live."""
        return self._round.heard or self.lowest_seen.knows_lower

    def _end_round(self) -> None:
        if self.aim is Aim.LOWER and self._knows_a_node:
            self._rest.shorten(self._context.timing.search_interval_s)
        if self.aim is Aim.LOWER or self._rest.until < inf:
            return  # the rest starts the next round
        if self._knows_a_node and self._rounds < ROUNDS_MAX:
            self._rounds += 1  # lower nodes live but are full: this one is no root
            self._rest.begin(min(self._rounds, 3) * self._rest.length_s / 2)
        else:
            self._end_alone()

    def _end_alone(self) -> None:
        self.aim = Aim.LOWER
        self._rest.begin(self._rest.length_s)
        self._ends.alone()

    def _look_again(self) -> None:
        """The rest is over: start the next round."""
        context = self._context
        self._rest.end()
        if self._is_waiting() or any(request.wish is not None for request in self._requests):
            self._rest.begin(context.timing.answer_s)  # the answer may be under way
        elif self.aim is Aim.LOWER:
            self._begin_round(())
            self._prober.look_again((*self.seeds, *self.peers, *self.peers.others), self._roster.is_live)
            if self.lowest_seen.knows_lower:
                # The lowest node heard may have no place yet, but will soon.
                self._rest.length_s = context.timing.search_interval_s / 2
            self._rest.begin_longer(context.timing.search_interval_s_max)
        elif self.aim in (Aim.FIRST, Aim.NEXT):
            # A node without a place accepts none, so the lowest is only asked.
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
        self._hedge()

    def _hedge(self) -> None:
        """An orphan asks the next candidate before the last one times out: both may have died with the leader."""
        if self.aim is Aim.NEXT:
            self._requests.hedge()

    def on_timer(self) -> None:
        """Handle overdue requests, and the ends of rests and of the pause between probes."""
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
        """Probe the next targets, unless a candidate is known or awaited."""
        if self._round.offers or self._is_waiting() or len(self._requests) >= REQUESTS_MAX:
            self._prober.pause()
            return
        target = self._prober.next_call()
        if target is not None:
            self._context.send(target, Back(self._context.incarnation, self._context.position))
            return
        known_only = self._is_settling if self.aim is Aim.LOWER else self._knows_a_node or self.aim is Aim.BETTER
        targets = self._prober.step(known_only=known_only)
        if known_only and not targets and (self.return_home.first is None or self.aim is Aim.BETTER):
            self._prober.stop()
        self.delegation.probe(targets, share=self.aim is Aim.LOWER)

    def on_unreachable(self, position: Position) -> None:
        """The host of `position` answers that no daemon listens."""
        for request in self._requests.about(position):
            if request.patient:
                self.answers.mark(self._context.now, position, "no daemon there")
                self._deadlines.host_is_up()
            else:
                self._fail(request, "no daemon there")

    def _repeat_or_fail(self, request: Request, answer: str) -> None:
        if request.patient and not self._deadlines.is_over:
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
        """The open request that this answers, if any."""
        request = self._requests.find(source, exchange)
        context, is_open = self._context, request is not None
        for notice in context.answer_timeout.answered(source, exchange, context.now, is_open=is_open):
            context.note(notice)
        if request is not None:
            self.exchanges += 1
            self.peers.know((source,))
        return request

    def on_accept(self, source: Position, accept: Accept) -> None:
        """A leader accepted. An acceptance that no request waits for is returned by a goodbye."""
        request = self._take(source, accept.exchange)
        if request is None or request.wish is None:
            leader = self._uplink.leader
            # Not while a proposal to it is open: it would take the goodbye for an answer to that.
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
        """A candidate refused. False when no request waited for it, or when the node may stay as it is."""
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
        # A proposal by a better standing leaves the present place untouched.
        return request.standing <= self._context.mapping.rank_classes.own

    def on_advice(self, source: Position, advice: Advice) -> None:
        """A node answered a question. Its root knows more, so it is asked before any proposal."""
        request = self._take(source, advice.exchange)
        if request is None:
            return
        self._requests.close(request)
        self._prober.found_node(is_seed=source in self.seeds)
        self.answers.mark(self._context.now, source, "has room" if advice.room else "no free slot")
        if self.aim is Aim.BETTER:
            self._consider_move(source, advice)
        elif self.aim is not Aim.NOTHING:
            self._follow_advice(source, advice)

    def _may_move_home(self, home: Position) -> bool:
        """Whether damping allows a guest or root to return home; if not, the rest ends when it does."""
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
            return  # a lower root that flaps: this tree stays whole meanwhile
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
        if is_other and self._round.may_contact(advice.root):
            self._prober.add((advice.root,), self._context.now)  # it should follow this node, so let it know of it
            self.look_soon(Aim.LOWER)  # it may know a lower root
        self._advance()

    def _ask_adviser(self, root: Position) -> None:
        self._round.advisers.append(root)
        self._requests.ask(root)
        self._hedge()

    def sizes(self) -> dict[str, int]:
        """The entries of each table."""
        return {
            "questions": len(self._requests),
            "candidates": len(self._round) + len(self._prober),
            "peers": len(self.peers) + len(self.peers.others),
            "answers": len(self.answers),
            "asked": len(self._context.answer_timeout),
        }

    def plan(self) -> None:
        """Set the search timer after any change; a timer that is due stays due."""
        if self._context.timers.at(Timer.SEARCH) <= self._context.now:
            return
        is_search = self.aim in (Aim.FIRST, Aim.NEXT)
        deadline = self._deadlines.next_at if is_search else inf
        questions_at = self._requests.next_at(has_arp_pending=self._prober.has_arp_pending)
        at = min(self._rest.until, questions_at, self._prober.next_at, deadline)
        if at == inf and is_search:
            at = self._context.now + self._context.timing.answer_s  # by then the last target has answered
        self._context.timers.plan(Timer.SEARCH, at)

    @abstractmethod
    def _consider_move(self, source: Position, advice: Advice) -> None:
        """Advice for a guest about better places."""
