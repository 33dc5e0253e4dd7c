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

from subord.core.discovery.delegation import Errands
from subord.core.discovery.lowest_seen import Hearsay
from subord.core.discovery.peer_cache import Peers
from subord.core.discovery.prober import Walk
from subord.core.discovery.root_referral import Introductions
from subord.core.messages import Accept, Advice, Back, Goodbye, Guidance, No, Refuse, Why, Wish
from subord.core.pacing.backoff import Pause
from subord.core.placement.optimizer import Bettering
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Incarnation, Position
from subord.core.timers import Alarm
from subord.core.uplink.answers import Answers
from subord.core.uplink.deadlines import HOME_RETRY_S_MAX, Patience
from subord.core.uplink.departures import Departures
from subord.core.uplink.leader import Following
from subord.core.uplink.requests import QUESTIONS_MAX, Aim, Question, Questions
from subord.core.uplink.return_home import Homecoming
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
        following: Following,
        bettering: Bettering,
        ends: Ends,
    ) -> None:
        self._context = context
        self._roster = roster
        self._following = following
        self.bettering = bettering
        self._ends = ends
        self.homecoming = Homecoming(context, following)
        self.aim = Aim.NOTHING
        self.exchanges = 0
        self.peers = Peers(context)
        self.seeds: tuple[Position, ...] = ()  # named by the operator
        self.answers = Answers()
        self.hearsay = Hearsay(context)
        self._patience = Patience(context)
        self._walk = Walk(context)
        self._questions = Questions(context, roster)
        self.introductions = Introductions(context, following, self._ask_soon)
        self.errands = Errands(context, roster, self._questions, self._walk)
        self._round = Round(context)
        self._rounds = 0  # repeated because all who answered were full
        self._pause = Pause(context)
        self._departures = Departures(context)

    def look_soon(self, aim: Aim) -> None:
        """Something changed: who looks for this, and rests, looks soon."""
        if self.aim is aim:
            self._pause.shorten(self._context.timing.search_interval_s)

    @property
    def is_brisk(self) -> bool:
        """Do we walk from door to door as one who has just arrived?"""
        return self._walk.next_at < inf and self._walk.is_brisk and not self._is_settling

    def _ask_soon(self, source: Position) -> None:
        """In a moment: it has perhaps just started, and will then have found a lower one itself."""
        self._ask_later(source, self._context.jittered(self._context.timing.answer_s / 4))

    def _ask_later(self, source: Position, seconds: float) -> None:
        if self._following.leader is None and self.aim is not Aim.NOTHING:
            self._walk.add((source,), self._context.now + seconds)

    def _begin_search(self, aim: Aim, known: Iterable[Position]) -> None:
        self.aim, self._rounds = aim, 0
        self._questions.clear()
        self._begin_round(known)

    def _begin_round(self, known: Iterable[Position]) -> None:
        self._round = Round(self._context, known)
        self._pause.end()
        if self.aim is not Aim.LOWER:
            self._pause.length_s = self._context.timing.search_interval_s

    def _advance(self) -> None:
        """Propose to the next who may have room, or see whether the search has ended."""
        if self.aim in (Aim.NOTHING, Aim.BETTER):
            if not self._questions and self.aim is Aim.BETTER and self._pause.until == inf:
                self._pause.begin_longer(self.bettering.rest_s_max)
            return
        awaited = self._awaited()
        if not self._may_propose or any(self._context.now < question.hedge_at for question in awaited):
            return
        leader = self._patience.take_leader()
        may_displace = self._patience.may_displace and not awaited
        if may_displace and leader is None and self._round.is_crowded and self._displaces():
            return
        if (offer := leader or self._round.next_offer(self._departures)) is not None:
            self._propose(offer, patient=leader is not None)
        elif awaited or (may_displace and self._displaces()):
            return
        elif self._patience.nobody_will_do and (self._knows_somebody or self._walk.has_asked(self._patience.near)):
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
        return self._questions.may_propose(is_loud=self._walk.is_loud)

    def _awaited(self) -> list[Question]:
        """The open questions on whose answers all depends."""
        # Two acceptances at once would waste a slot; a round that is broken off begins with the same ones again.
        return [
            question
            for question in self._questions
            if (
                question.awaited and question.position in self._round.advisers
                if question.wish is None
                else not (question.patient and self._patience.guest_will_do)
            )
        ]

    def _is_waiting(self) -> bool:
        """Is an answer awaited, or have we just proposed to many?"""
        return not self._may_propose or bool(self._awaited())

    @property
    def _is_settling(self) -> bool:
        """Has our own tree just changed? Then neighbours come first. To the lowest of the network all come anyway."""
        if self.homecoming.first is None:
            return self._roster.live > 1 or not self._walk.is_brisk
        return self._roster.live > 1 and self._context.now < self._roster.changed_at + self._context.timing.patience_s

    @property
    def _knows_somebody(self) -> bool:
        """Is there any reason to believe that somebody below us lives?"""
        return self._round.heard or self.hearsay.knows_lower

    def _end_round(self) -> None:
        if self.aim is Aim.LOWER and self._knows_somebody:
            self._pause.shorten(self._context.timing.search_interval_s)
        if self.aim is Aim.LOWER or self._pause.until < inf:
            return  # the next one will come
        if self._knows_somebody and self._rounds < ROUNDS_MAX:
            self._rounds += 1  # lower ranks live, but are full just now: we are no root
            self._pause.begin(min(self._rounds, 3) * self._pause.length_s / 2)
        else:
            self._end_alone()

    def _end_alone(self) -> None:
        self.aim = Aim.LOWER
        self._pause.begin(self._pause.length_s)
        self._ends.alone()

    def _look_again(self) -> None:
        """A rest is over."""
        context = self._context
        self._pause.end()
        if self._is_waiting() or any(question.wish is not None for question in self._questions):
            self._pause.begin(context.timing.answer_s)  # perhaps the answer is just coming
        elif self.aim is Aim.LOWER:
            self._begin_round(())
            self._walk.look_again((*self.seeds, *self.peers, *self.peers.others), self._roster.is_live)
            if self.hearsay.knows_lower:
                # Who was heard below us may have no place as yet: soon it will.
                self._pause.length_s = context.timing.search_interval_s / 2
            self._pause.begin_longer(context.timing.search_interval_s_max)
        elif self.aim in (Aim.FIRST, Aim.NEXT):
            # Who has just started like us takes nobody in until it has a place: it is only asked.
            self._begin_round(self.peers if self.aim is Aim.NEXT else ())
            if self.hearsay.knows_lower:
                self._ask_adviser(self.hearsay.lowest)
            self._advance()
        elif self.aim is Aim.BETTER:
            self._round = Round(context)
            for root in self._following.path[:1]:
                self._questions.ask(root)

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
        fitting = self.homecoming.wish_for(position) if wish is None else wish
        self._questions.propose(position, fitting, tries=tries, patient=patient, standing=standing)
        self._hurry()

    def _hurry(self) -> None:
        """An orphan asks the next candidate when the last one is slow to answer: it may have died as well."""
        if self.aim is Aim.NEXT:
            self._questions.hedge()

    def on_alarm(self) -> None:
        """Questions may be overdue, a rest or our patience over, or the next door reached."""
        now = self._context.now
        for question in self._questions.overdue():
            if self._questions.is_open(question):
                self._repeat_or_fail(question, "no answer")
        if self._pause.until <= now:
            self._look_again()
        if self._walk.next_at <= now:
            self._knock()
        self._advance()

    def _knock(self) -> None:
        """At the next doors, unless there is something better to do."""
        if self._round.offers or self._is_waiting() or len(self._questions) >= QUESTIONS_MAX:
            self._walk.pause()
            return
        called = self._walk.next_call()
        if called is not None:
            self._context.send(called, Back(self._context.incarnation, self._context.position))
            return
        known_only = self._is_settling if self.aim is Aim.LOWER else self._knows_somebody or self.aim is Aim.BETTER
        doors = self._walk.step(known_only=known_only)
        if known_only and not doors and (self.homecoming.first is None or self.aim is Aim.BETTER):
            self._walk.stop()
        self.errands.knock(doors, share=self.aim is Aim.LOWER)

    def on_unreachable(self, position: Position) -> None:
        """The host answers that no daemon listens there."""
        for question in self._questions.about(position):
            if question.patient:
                self.answers.mark(self._context.now, position, "no daemon there")
                self._patience.host_is_up()
            else:
                self._fail(question, "no daemon there")

    def _repeat_or_fail(self, question: Question, answer: str) -> None:
        if question.patient and not self._patience.nobody_will_do:
            self.answers.mark(self._context.now, question.position, answer)
            question.wait_s = min(2 * question.wait_s, HOME_RETRY_S_MAX)
            self._questions.put(question)
        elif question.tries > 0 and not question.patient:
            question.tries -= 1
            self._questions.put(question)
        else:
            self._fail(question, answer)

    def _fail(self, question: Question, answer: str) -> None:
        self.answers.mark(self._context.now, question.position, answer)
        self._questions.close(question)
        if question.wish is None:
            self._round.give_up(question.position)
        self._advance()

    def _take(self, source: Position, exchange: int) -> Question | None:
        """The open question that this answers, if any."""
        question = self._questions.find(source, exchange)
        context, is_open = self._context, question is not None
        for notice in context.slowness.answered(source, exchange, context.now, is_open=is_open):
            context.note(notice)
        if question is not None:
            self.exchanges += 1
            self.peers.know((source,))
        return question

    def on_accept(self, source: Position, accept: Accept) -> None:
        """A place. An acceptance that we no longer wait for is given back."""
        question = self._take(source, accept.exchange)
        if question is None or question.wish is None:
            leader = self._following.leader
            # Not while we are just proposing to it: it would take the goodbye for an answer to that.
            asking = any(each.wish is not None for each in self._questions.about(source))
            if not asking and (leader is None or leader.position != source):
                self._context.send(source, Goodbye(self._context.incarnation, Why.MOVED))
            return
        self.answers.mark(self._context.now, source, "accepted")
        self._questions.clear()
        self.bettering.rising.stand(question.standing)
        self.bettering.accepted(source, by_choice=self.aim is Aim.BETTER)
        self.peers.know(accept.guidance.path)
        self._ends.attached(source, accept.incarnation, accept.guidance)

    def on_refuse(self, source: Position, refuse: Refuse) -> bool:
        """No place here, but hints. False when we did not wait for it."""
        question = self._take(source, refuse.exchange)
        if question is None:
            return False
        self._round.heard |= refuse.no in (No.FULL, No.BUSY)
        may_wait = self.aim is not Aim.BETTER and (question.wish is not None or source != self._round.root)
        if refuse.no is No.BUSY and question.busy < BUSY_MAX and may_wait:
            question.put_off(self._context.now + refuse.retry_ms / 1000)
            self._patience.put_off(question.next_at + question.wait_s)
            self.answers.mark(self._context.now, source, refuse.text)
            return True
        if refuse.no is No.FULL:
            self._round.note_full(source, refuse.highest_guest)
            if self.aim is Aim.BETTER and self._context.mapping.by_latency:
                self.bettering.nearness.was_full(source, refuse.highest_guest, refuse.hints)
                self.look_soon(Aim.BETTER)
        if refuse.no is No.LEAVING:
            self._departures.note(source)
        if self.aim not in (Aim.NOTHING, Aim.BETTER):
            self._round.consider(refuse.hints, first=refuse.no is not No.FULL or not self._round.is_advised)
            if self._round.may_advise(self._round.root):
                self._ask_adviser(self._round.root)
        self._fail(question, f"refused: {refuse.text}")
        # Who wanted to rise may still stay where it is, as it is.
        return question.standing <= self._context.mapping.standings.own

    def on_advice(self, source: Position, advice: Advice) -> None:
        """Somebody is there. Its root knows best, so it is asked before anybody is proposed to."""
        question = self._take(source, advice.exchange)
        if question is None:
            return
        self._questions.close(question)
        self._walk.found_somebody(is_seed=source in self.seeds)
        self.answers.mark(self._context.now, source, "has room" if advice.room else "no free slot")
        if self.aim is Aim.BETTER:
            self._weigh(source, advice)
        elif self.aim is not Aim.NOTHING:
            self._follow_advice(source, advice)

    def _may_move_home(self, home: Position) -> bool:
        """Not a guest, or a root, whose home was lost again and again; it rests until it may."""
        until = self.homecoming.damping.hold_until
        if self.aim not in (Aim.BETTER, Aim.LOWER) or self._context.now >= until:
            return True
        self.answers.mark(self._context.now, home, "held: lost too often lately")
        self._pause.until = min(self._pause.until, until)
        return False

    def _follow_advice(self, source: Position, advice: Advice) -> None:
        own, may_lead = self._context.position, self._context.mapping.may_lead
        home = self.homecoming.elsewhere
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
            self._walk.add((advice.root,), self._context.now)  # it should follow us: let it hear that we are here
            self.look_soon(Aim.LOWER)  # it may have found somebody else
        self._advance()

    def _ask_adviser(self, root: Position) -> None:
        self._round.advisers.append(root)
        self._questions.ask(root)
        self._hurry()

    def sizes(self) -> dict[str, int]:
        """How full our tables are."""
        return {
            "questions": len(self._questions),
            "candidates": len(self._round) + len(self._walk),
            "peers": len(self.peers) + len(self.peers.others),
            "answers": len(self.answers),
            "asked": len(self._context.slowness),
        }

    def plan(self) -> None:
        """Set the alarm; whoever gave us something to do calls this afterwards. One that is due stays due."""
        if self._context.agenda.at(Alarm.SEARCH) <= self._context.now:
            return
        is_search = self.aim in (Aim.FIRST, Aim.NEXT)
        patience_ends_at = self._patience.next_at if is_search else inf
        questions_at = self._questions.next_at(is_loud=self._walk.is_loud)
        at = min(self._pause.until, questions_at, self._walk.next_at, patience_ends_at)
        if at == inf and is_search:
            at = self._context.now + self._context.timing.answer_s  # the last address asked has answered by then
        self._context.agenda.plan(Alarm.SEARCH, at)

    @abstractmethod
    def _weigh(self, source: Position, advice: Advice) -> None:
        """A guest hears where else it could stand."""
