"""Which nodes a search asks, and what their answers do (docs/protocol.md, section 3).

Inputs are candidates, answers and overdue requests; outputs are proposals, questions and probes. Candidates are asked
best first, the next one after an answer or a timeout. joining.py decides when a round begins, and what follows its
last candidate; moving.py, what a guest does with advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from subord.core.discovery.lowest_seen import LowestSeen
from subord.core.discovery.peer_cache import PeerCache
from subord.core.discovery.prober import Prober
from subord.core.edges.leader import Leader, Uplink
from subord.core.messages import Accept, Advice, Back, Goodbye, No, Refuse, Why, Wish
from subord.core.placement.optimizer import Optimizer
from subord.core.search.answers import NO_ANSWER, NO_DAEMON, Answers
from subord.core.search.deadlines import HOME_RETRY_S_MAX, Deadlines
from subord.core.search.delegation import Delegation
from subord.core.search.departures import Departures
from subord.core.search.requests import REQUESTS_MAX, Request, Requests
from subord.core.search.rest import Rest
from subord.core.search.return_home import ReturnHome
from subord.core.search.rounds import Round
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.states import Aim
from subord.core.view import Position

BUSY_MAX = 8


class Search:
    """The round under way, its open requests, and what the node knows of others."""

    def __init__(
        self, context: Context, roster: Roster, uplink: Uplink, optimizer: Optimizer, over: Callable[[], None]
    ) -> None:
        """`over` is called when the round under way has no candidate left."""
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._optimizer = optimizer
        self._over = over
        self.exchanges = 0
        self.answers = Answers()
        self.peers = PeerCache(context)
        self.lowest_seen = LowestSeen(context)
        self.return_home = ReturnHome(context, uplink)
        self.deadlines = Deadlines(context)
        self.rest = Rest(context)
        self.prober = Prober(context)
        self.requests = Requests(context, roster, self.prober)
        self.delegation = Delegation(context, roster, self.requests, self.prober)
        self._departures = Departures(context)
        self._round = Round(context)

    def begin(self, known: Iterable[Position] = ()) -> None:
        """Begin a round; `known` nodes may have room."""
        self._round = Round(self._context, known)

    def avoid(self, leader: Leader) -> None:
        """Search without `leader`, which is lost or leaving; its root knows free places."""
        self._round.root = next((p for p in leader.guidance.path[:1] if p != leader.position), self._context.position)
        self._round.visited.add(leader.position)
        if self._uplink.leader is not None:  # it is leaving, and answers for a while only
            self._departures.note(leader.position)

    def advance(self) -> None:
        """Propose to the next candidate, or end the round."""
        aim = self._context.state.aim
        if aim in (Aim.NOTHING, Aim.BETTER):
            if not self.requests and aim is Aim.BETTER:
                self._over()
            return
        awaited = self._awaited()
        if not self.requests.may_propose or any(self._context.now < request.hedge_at for request in awaited):
            return
        leader = self.deadlines.take_leader()
        may_displace = self.deadlines.may_displace and not awaited
        if may_displace and leader is None and self._round.has_refusals and self._try_displacement():
            return
        if (offer := leader or self._round.next_offer(self._departures)) is not None:
            self.propose(offer, patient=leader is not None)
        elif awaited or (may_displace and self._try_displacement()):
            return
        elif self.deadlines.is_over and (
            self.knows_a_node or self.prober.has_asked(near=not self.deadlines.was_root)
        ):
            self._over()

    def _try_displacement(self) -> bool:
        """Ask a full leader for the place of a guest that ranks above the node; False: none is known."""
        leader = self._round.take_displacement()
        if leader is not None:
            self.propose(leader, Wish.DISPLACE)
        return leader is not None

    def _awaited(self) -> list[Request]:
        """The open requests that the next step waits for."""
        # Two acceptances at once would waste a slot, and the next round would repeat open proposals.
        return [
            request
            for request in self.requests
            if (
                request.awaited and request.position in self._round.advisers
                if request.wish is None
                else not (request.patient and self.deadlines.takes_guest_place)
            )
        ]

    @property
    def is_waiting(self) -> bool:
        """Whether the next step waits for an answer or for the pace of proposals."""
        return not self.requests.may_propose or bool(self._awaited())

    @property
    def knows_a_node(self) -> bool:
        """Whether a lower node seems to live."""
        return self._round.heard or self.lowest_seen.knows_lower

    @property
    def refusals(self) -> str | None:
        """How many candidates refused the node in this search, and why. One that ranks above it is none any more."""
        return self.answers.refusals(self._context.mapping.might_lead)

    def propose(
        self, position: Position, wish: Wish | None = None, *, patient: bool = False, standing: int | None = None
    ) -> None:
        """Propose to `position`, with the wish that fits it, unless another is given."""
        self._round.visited.add(position)
        fitting = self.return_home.wish_for(position) if wish is None else wish
        self.requests.propose(position, fitting, patient=patient, standing=standing)
        self.requests.hedge()

    def ask_adviser(self, root: Position) -> None:
        """Ask for advice before any proposal."""
        self._round.advisers.append(root)
        self.requests.ask(root)
        self.requests.hedge()

    def repeat_overdue(self) -> None:
        """Repeat the overdue requests that have tries left; the others have failed."""
        for request in self.requests.overdue():
            if request.patient and not self.deadlines.is_over:
                self.answers.mark(self._context.now, request.position, NO_ANSWER)
                request.wait_s = min(2 * request.wait_s, HOME_RETRY_S_MAX)
                self.requests.put(request)
            elif request.tries > 0 and not request.patient:
                request.tries -= 1
                self.requests.put(request)
            else:
                self._fail(request, NO_ANSWER)

    def may_return(self, home: Position) -> bool:
        """Whether damping allows a guest or root to return home; if not, the rest ends when it does."""
        if self._context.state.aim not in (Aim.BETTER, Aim.LOWER) or not self.return_home.is_held:
            return True
        self.answers.mark(self._context.now, home, "held: lost too often lately")
        self.rest.until = min(self.rest.until, self.return_home.hold_until)
        return False

    def look_soon(self, aim: Aim) -> None:
        """Something changed that matters for `aim`: search soon."""
        if self._context.state.aim is aim:
            self.rest.shorten(self._context.timing.search_interval_s)

    def withdraw(self) -> None:
        """Close open proposals, which name a standing that is no longer valid."""
        for request in self.requests:
            if request.wish is not None:
                self.requests.close(request)
                self._round.visited.discard(request.position)

    @property
    def is_fast(self) -> bool:
        """Whether the node probes at the fast pace."""
        return self.prober.next_at < inf and self.prober.is_fast and not self._is_settling

    @property
    def _is_settling(self) -> bool:
        """Whether the own tree just changed: neighbours come first. All nodes come to the lowest position anyway."""
        if self.return_home.first is None:
            return self._roster.live > 1 or not self.prober.is_fast
        return self._roster.live > 1 and self._context.now < self._roster.changed_at + self._context.timing.patience_s

    def probe(self) -> None:
        """Probe the next targets, unless a candidate is known or awaited."""
        if self._round.offers or self.is_waiting or len(self.requests) >= REQUESTS_MAX:
            self.prober.pause()
            return
        target = self.prober.next_call()
        if target is not None:
            self._context.send(target, Back(self._context.incarnation, self._context.position))
            return
        aim = self._context.state.aim
        known_only = self._is_settling if aim is Aim.LOWER else self.knows_a_node or aim is Aim.BETTER
        targets = self.prober.step(known_only=known_only)
        if known_only and not targets and (self.return_home.first is None or aim is Aim.BETTER):
            self.prober.stop()
        self.delegation.probe(targets, share=aim is Aim.LOWER)

    def on_asked(self, source: Position) -> None:
        """A node that ranks below this one asked: it may know a lower root, so ask it in turn."""
        if self._context.mapping.may_lead(source, self._context.position) and not self.requests.awaits(source):
            self.prober.ask_soon(source)

    def on_announce(self, source: Position) -> None:
        """A node without a leader announced itself: a meeting place exists. If it is the lowest heard, ask it."""
        self.prober.slow_down()
        if source == self.lowest_seen.lowest:
            # All nodes hear it at the same moment, so each waits a random time.
            self.prober.ask_later(source, self._context.chance.uniform(0, self._context.timing.answer_s))

    def on_unreachable(self, position: Position) -> None:
        """The host of `position` answers that no daemon listens."""
        for request in self.requests.about(position):
            if request.patient:
                self.answers.mark(self._context.now, position, NO_DAEMON)
                self.deadlines.host_is_up()
            else:
                self._fail(request, NO_DAEMON)

    def _fail(self, request: Request, answer: str, no: No | None = None) -> None:
        self.answers.mark(self._context.now, request.position, answer, no)
        self.requests.close(request)
        if request.wish is None:
            self._round.give_up(request.position)
        self.advance()

    def _take(self, source: Position, exchange: int) -> Request | None:
        """The open request that this answers, if any."""
        request = self.requests.take(source, exchange)
        if request is not None:
            self.exchanges += 1
            self.peers.know((source,))
        return request

    def on_accept(self, source: Position, accept: Accept) -> bool:
        """A leader accepted. An acceptance that no request waits for is returned by a goodbye; False."""
        request = self._take(source, accept.exchange)
        if request is None or request.wish is None:
            leader = self._uplink.leader
            # Not while a proposal to it is open: it would take the goodbye for an answer to that.
            asking = any(each.wish is not None for each in self.requests.about(source))
            if not asking and (leader is None or leader.position != source):
                self._context.send(source, Goodbye(self._context.incarnation, Why.MOVED))
            return False
        self.answers.mark(self._context.now, source, "accepted")
        self.requests.clear()
        self._optimizer.rank_change.stand(request.standing)
        self._optimizer.accepted(source, by_choice=self._context.state.aim is Aim.BETTER)
        self.peers.know(accept.guidance.path)
        return True

    def on_refuse(self, source: Position, refuse: Refuse) -> bool:
        """A candidate refused. False when no request waited for it, or when the node may stay as it is."""
        request, aim = self._take(source, refuse.exchange), self._context.state.aim
        if request is None:
            return False
        self._round.heard |= refuse.no in (No.FULL, No.BUSY)
        may_wait = aim is not Aim.BETTER and (request.wish is not None or source != self._round.root)
        if refuse.no is No.BUSY and request.busy < BUSY_MAX and may_wait:
            request.put_off(self._context.now + refuse.retry_ms / 1000)
            self.deadlines.put_off(request.next_at + request.wait_s)
            self.answers.mark(self._context.now, source, refuse.text, refuse.no)
            return True
        if refuse.no is No.FULL:
            self._round.note_full(source, refuse.highest_guest)
            if aim is Aim.BETTER and self._context.mapping.measures_round_trips:
                self._optimizer.latencies.was_full(source, refuse.highest_guest, refuse.hints)
                self.look_soon(Aim.BETTER)
        if refuse.no is No.LEAVING:
            self._departures.note(source)
        if aim not in (Aim.NOTHING, Aim.BETTER):
            self._round.consider(refuse.hints, first=refuse.no is not No.FULL or not self._round.is_advised)
            if self._round.may_advise(self._round.root):
                self.ask_adviser(self._round.root)
        self._fail(request, f"refused: {refuse.text}", refuse.no)
        # A proposal by a better standing leaves the present place untouched.
        return request.standing <= self._context.mapping.rank_classes.own

    def on_advice(self, source: Position, advice: Advice) -> bool:
        """A node answered a question; True when the node is a guest, which may move."""
        request, aim = self._take(source, advice.exchange), self._context.state.aim
        if request is None:
            return False
        self.requests.close(request)
        self.prober.found_node(is_seed=source in self.prober.seeds)
        self.answers.mark(self._context.now, source, "has room" if advice.room else "no free slot")
        if aim not in (Aim.NOTHING, Aim.BETTER):
            self._follow_advice(source, advice)
        return aim is Aim.BETTER

    def _follow_advice(self, source: Position, advice: Advice) -> None:
        """Its root knows more, so it is asked before any proposal."""
        home, is_root = self.return_home.elsewhere, self._context.state.aim is Aim.LOWER
        if is_root and home in (source, advice.root) and home and not self.may_return(home):
            return  # a lower root that flaps: this tree stays whole meanwhile
        self._round.take(source, advice)
        if advice.root != source and self._round.may_advise(advice.root):
            self.ask_adviser(advice.root)
            return
        ranks_above = self._context.mapping.may_lead(self._context.position, advice.root)
        is_other = advice.root != source and ranks_above and not self._roster.is_live(advice.root)
        if is_other and self._round.may_contact(advice.root):
            self.prober.add((advice.root,), self._context.now)  # it should follow this node, so let it know of it
            self.look_soon(Aim.LOWER)  # it may know a lower root
        self.advance()

    def sizes(self) -> dict[str, int]:
        """The entries of each table."""
        return {
            "questions": len(self.requests),
            "candidates": len(self._round) + len(self.prober),
            "peers": len(self.peers) + len(self.peers.others),
            "answers": len(self.answers),
            "asked": len(self._context.answer_timeout),
        }
