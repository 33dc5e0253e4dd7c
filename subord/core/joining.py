"""Whom do I ask for a place, in which order, and when do I stop? (protocol section 3)

Intuition: a traveller looking for a bed. He first goes to the inn where a room is reserved for him, and
waits a while if it is not open yet. Then he tries the inns that he was told of, nearest first. Only
when he knows of none does he walk from door to door, a few at a time, and the first innkeeper who opens
knows where there are beds. When every inn is full, he asks for the room of somebody younger. And when
nobody opens at all, he is the innkeeper.

A *round* is one such walk. A node that ends a round as root, or as a guest, rests and tries again; the
rest doubles while nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf

from subord.core.agenda import Alarm
from subord.core.answers import Answers
from subord.core.context import Context
from subord.core.damping import Damping
from subord.core.following import Following
from subord.core.messages import Accept, Advice, Ask, Goodbye, Guidance, No, Propose, Refuse, Why, Wish
from subord.core.questions import Aim, Question
from subord.core.view import Incarnation, Position

PEERS_MAX = 16
BUSY_MAX = 8
DISPLACEMENTS_MAX = 4  # tries in one round
ROUNDS_MAX = 8  # among full lower ranks, before we stand alone
HOME_RETRY_S_MAX = 0.5
HOME_TRIES = 10  # repetitions to a home that is said to be alive: two seconds in a lan, longer than ARP needs


class Joining:
    """The search of one node. `attached` and `alone` are told how a round ended."""

    def __init__(
        self,
        context: Context,
        following: Following,
        attached: Callable[[Position, Incarnation, Guidance], None],
        alone: Callable[[], None],
    ) -> None:
        self._context = context
        self._following = following
        self._attached = attached
        self.damping = Damping(context.timing)
        self._alone = alone
        self.aim = Aim.NOTHING
        self.exchanges = 0
        self.peers: list[Position] = []  # lower positions that were alive, latest first
        self.seeds: tuple[Position, ...] = ()  # named by the operator
        self.answers = Answers()
        self._questions: dict[int, Question] = {}
        self._queue: list[Position] = []
        self._visited: set[Position] = set()
        self._walk: Iterator[Position] = iter(())
        self._walk_ended = False
        self._walked = 0
        self._doors: list[Position] = []  # asked before the walk goes on
        self._adviser: Position | None = None  # the root asked in this round
        self._displacements = 0
        self._heard = False  # a lower rank answered in this round
        self._rounds = 0  # repeated because all who answered were full
        self._crowded: tuple[Position, Position] = (0, 0)  # highest guest seen, and its leader
        self._better: Position | None = None
        self._rest_s = 0.0
        self._rest_until = inf
        self._patience_until = -inf
        self._host_patience_until = -inf  # the same, when the host of our home is known to be up

    # -- rounds -----------------------------------------------------------------------------------------

    def start_first(self) -> None:
        """We have just started."""
        context = self._context
        self.aim = Aim.FIRST
        self._rounds = 0
        self._begin_round(self.peers)
        home = context.mapping.home_of(context.position)
        if home is None:
            self._end_alone()
            return
        patience_s = 2 * context.timing.answer_s if self.peers else context.timing.patience_s
        self._patience_until = context.now + patience_s
        self._host_patience_until = -inf if self.peers else context.now + context.timing.host_patience_s
        self._propose(home, patient=True)

    def start_next(self, alternates: Iterable[Position], avoid: Position) -> None:
        """Our leader is lost or leaving."""
        self.aim = Aim.NEXT
        self._rounds = 0
        self._begin_round(alternates)
        self._visited.add(avoid)
        self._advance()

    def know(self, positions: Iterable[Position]) -> None:
        """These may be alive: worth asking in the next round."""
        may_lead, own = self._context.mapping.may_lead, self._context.position
        peers = dict.fromkeys(p for p in (*positions, *self.peers) if may_lead(p, own))
        self.peers = list(peers)[:PEERS_MAX]

    def told_home(self) -> None:
        """Our home is said to be alive: what we asked it in vain before, we ask anew, and more patiently."""
        home = self._home_elsewhere()
        if home is None or not self._may_move_home(home):
            return
        asked = [question for question in self._questions.values() if question.position == home]
        if any(question.patient for question in asked):
            return
        for question in asked:
            del self._questions[question.exchange]
        # Whoever has no leader has others to ask as well, one after the other.
        self._propose(home, tries=HOME_TRIES if self.aim in (Aim.BETTER, Aim.LOWER) else 2)

    def _try_home(self) -> None:
        """Perhaps our home is alive."""
        home = self._home_elsewhere()
        asked = any(q.position == home for q in self._questions.values())
        if home is not None and not asked and self._may_move_home(home):
            self._propose(home)

    def _home_elsewhere(self) -> Position | None:
        """Our computed leader, unless we follow it already."""
        home, leader = self._context.mapping.home_of(self._context.position), self._following.leader
        return None if leader is not None and leader.position == home else home

    def _may_move_home(self, home: Position) -> bool:
        """Not a guest whose home was lost again and again; it rests until it may."""
        until = self.damping.hold_until
        if self.aim is not Aim.BETTER or self._context.now >= until:
            return True
        self._mark(home, "held: lost too often lately")
        self._rest_until = min(self._rest_until, until)
        self._plan()
        return False

    def rejoin(self) -> None:
        """Our leader does not know us (it restarted): propose to it again."""
        leader = self._following.leader
        if leader is not None and all(q.position != leader.position for q in self._questions.values()):
            self._propose(leader.position)

    def on_own_sleep(self) -> None:
        """We slept: the answers may lie in our own letterbox."""
        soon = self._context.now + self._context.timing.answer_s
        for question in self._questions.values():
            question.next_at = max(question.next_at, soon)
        self._patience_until = max(self._patience_until, soon)
        self._plan()

    def stop(self) -> None:
        self.aim = Aim.NOTHING
        self._questions.clear()
        self._rest_until = inf
        self._plan()

    def settle(self, *, home: bool) -> None:
        """We have a place; a guest looks for a better one now and then."""
        self._questions.clear()
        self._queue, self._doors = [], []
        self._visited.clear()
        self.aim = Aim.NOTHING if home else Aim.BETTER
        self._better = None
        self._rest_s = self._context.timing.search_interval_s
        self._rest(inf if home else self._rest_s)

    def _begin_round(self, known: Iterable[Position]) -> None:
        context = self._context
        self._questions.clear()
        self._queue = context.mapping.in_order(context.position, dict.fromkeys(known))
        self._visited = set()
        self._walked = 0
        self._crowded = (0, 0)
        self._heard = False
        self._adviser = None
        self._displacements = 0
        self._rest_until = inf
        if self.aim is not Aim.LOWER or self._walk_ended:
            self._walk = context.mapping.candidates(context.position)
            self._walk_ended = False
        if self.aim is not Aim.LOWER:
            self._rest_s = context.timing.search_interval_s

    def _advance(self) -> None:
        """Ask the next candidate, or end the round."""
        if self.aim in (Aim.NOTHING, Aim.BETTER):
            if not self._questions and self.aim is Aim.BETTER and self._rest_until == inf:
                self._rest_longer(self._context.timing.home_interval_s_max)
            return
        if any(q.wish is not None or q.position == self._adviser for q in self._questions.values()):
            return  # one proposal at a time: two acceptances would waste a slot
        while self._queue:
            position = self._queue.pop(0)
            if position not in self._visited:
                self._propose(position)
                return
        self._walk_on()
        if not self._questions:
            self._end_round()

    def _walk_on(self) -> None:
        """From door to door, a few at a time."""
        timing = self._context.timing
        while len(self._questions) < timing.questions_in_flight_max and self._walked < timing.walk_candidates_max:
            position = self._doors.pop(0) if self._doors else next(self._walk, None)
            if position is None:
                self._walk_ended = True
                return
            if position not in self._visited:
                self._walked += 1
                self._ask(position)

    def _end_round(self) -> None:
        highest, holder = self._crowded
        if highest and self._displacements < DISPLACEMENTS_MAX:
            self._crowded = (0, 0)
            self._displacements += 1
            self._propose(holder, wish=Wish.DISPLACE)
        elif self.aim is Aim.LOWER:
            self._rest_longer(self._context.timing.search_interval_s_max)
        elif self._heard and self._rounds < ROUNDS_MAX:
            self._rounds += 1  # lower ranks live, but are full just now: we are no root
            self._rest(self._rest_s / 4)
        else:
            self._end_alone()

    def _end_alone(self) -> None:
        self.aim = Aim.LOWER
        self._rest(self._rest_s)
        self._alone()

    def _rest(self, seconds: float) -> None:
        self._rest_until = self._context.now + self._context.jittered(seconds) if seconds < inf else inf
        self._plan()

    def _rest_longer(self, seconds_max: float) -> None:
        self._rest(self._rest_s)
        self._rest_s = min(2 * self._rest_s, seconds_max)

    def _look_again(self) -> None:
        """A rest is over."""
        context = self._context
        self._rest_until = inf
        if context.mapping.home_of(context.position) is None:
            return  # the lowest position has nobody to look for
        if any(question.wish is not None for question in self._questions.values()):
            self._rest(context.timing.answer_s)  # perhaps our home is just answering
            return
        if self.aim is Aim.LOWER:
            self._begin_round(())
            self._doors = list(self.peers)
            self._advance()
        elif self.aim in (Aim.FIRST, Aim.NEXT):
            self._begin_round(self.peers)
            self._walked = context.timing.walk_candidates_max  # those who live are known: no door to door
            self._advance()
        elif self.aim is Aim.BETTER:
            self._visited.clear()
            self._try_home()
            for root in self._following.path[:1]:
                self._ask(root)

    # -- questions ----------------------------------------------------------------------------------------

    def _propose(
        self, position: Position, wish: Wish | None = None, *, tries: int = 1, patient: bool = False
    ) -> None:
        home = self._context.mapping.home_of(self._context.position)
        fitting = Wish.HOME if position == home else Wish.GUEST
        wait_s = self._context.timing.answer_s / (4 if patient else 2)
        self._question(position, fitting if wish is None else wish, wait_s, tries=tries, patient=patient)

    def _ask(self, position: Position) -> None:
        self._question(position, None, self._context.timing.answer_s, tries=0)

    def _question(
        self, position: Position, wish: Wish | None, wait_s: float, *, tries: int, patient: bool = False
    ) -> None:
        question = Question(
            position=position,
            exchange=self._context.next_number(),
            wish=wish,
            next_at=inf,
            wait_s=wait_s,
            tries=tries,
            patient=patient,
        )
        self._visited.add(position)
        self._questions[question.exchange] = question
        self._put(question)

    def _put(self, question: Question) -> None:
        context = self._context
        if question.wish is None:
            context.send(question.position, Ask(context.incarnation, question.exchange, context.terms))
        else:
            context.send(
                question.position,
                Propose(context.incarnation, question.exchange, context.terms, question.wish),
            )
        question.next_at = context.now + context.jittered(question.wait_s)
        self._plan()

    def on_alarm(self) -> None:
        """Questions may be overdue, or a rest over."""
        now = self._context.now
        for question in [q for q in self._questions.values() if q.next_at <= now]:
            if question.exchange in self._questions:
                self._repeat_or_fail(question, "no answer")
        if self._rest_until <= now:
            self._look_again()
        self._plan()

    def on_unreachable(self, position: Position) -> None:
        """The host answers that no daemon listens there."""
        for question in [q for q in self._questions.values() if q.position == position]:
            if question.patient:
                self._mark(position, "no daemon there")
                self._patience_until = max(self._patience_until, self._host_patience_until)
            else:
                self._fail(question, "no daemon there")

    def _repeat_or_fail(self, question: Question, answer: str) -> None:
        if question.patient and self._context.now < self._patience_until:
            self._mark(question.position, answer)
            question.wait_s = min(2 * question.wait_s, HOME_RETRY_S_MAX)
            self._put(question)
        elif question.tries > 0 and not question.patient:
            question.tries -= 1
            self._put(question)
        else:
            self._fail(question, answer)

    def _fail(self, question: Question, answer: str) -> None:
        self._mark(question.position, answer)
        self._questions.pop(question.exchange, None)
        self._advance()

    def _take(self, source: Position, exchange: int) -> Question | None:
        """The open question that this answers, if any."""
        question = self._questions.get(exchange)
        if question is None or question.position != source:
            return None
        self.exchanges += 1
        self.know((source,))
        return question

    # -- answers --------------------------------------------------------------------------------------------

    def on_accept(self, source: Position, accept: Accept) -> None:
        """A place. An acceptance that we no longer wait for is given back."""
        question = self._take(source, accept.exchange)
        if question is None or question.wish is None:
            leader = self._following.leader
            # Not while we are just proposing to it: it would take the goodbye for an answer to that.
            asking = any(q.position == source and q.wish is not None for q in self._questions.values())
            if not asking and (leader is None or leader.position != source):
                self._context.send(source, Goodbye(self._context.incarnation, Why.MOVED))
            return
        self._mark(source, "accepted")
        self._questions.clear()
        self.know(accept.guidance.path)
        self._attached(source, accept.incarnation, accept.guidance)

    def on_refuse(self, source: Position, refuse: Refuse) -> bool:
        """No place here, but hints. False when we did not wait for it."""
        question = self._take(source, refuse.exchange)
        if question is None:
            return False
        self._heard = self._heard or refuse.no in (No.FULL, No.BUSY)
        if refuse.no is No.BUSY and question.busy < BUSY_MAX:
            question.busy += 1
            question.tries += 1  # to be put off is no vain try
            question.next_at = self._context.now + refuse.retry_ms / 1000
            self._patience_until = max(self._patience_until, question.next_at + question.wait_s)
            self._mark(source, refuse.text)
            self._plan()
            return True
        if refuse.no is No.FULL and refuse.highest_guest > self._context.position:
            self._crowded = max(self._crowded, (refuse.highest_guest, source))
        self._consider(refuse.hints)
        self._fail(question, f"refused: {refuse.text}")
        return True

    def on_advice(self, source: Position, advice: Advice) -> None:
        """Somebody is there. Its root knows best, so it is asked before anybody is proposed to."""
        question = self._take(source, advice.exchange)
        if question is None:
            return
        del self._questions[question.exchange]
        self._mark(source, "has room" if advice.room else "no free slot")
        if self.aim is Aim.BETTER:
            self._weigh(source, advice)
            return
        own, may_lead = self._context.position, self._context.mapping.may_lead
        self._heard = True
        self._forget_walk()
        self._consider((*advice.hints, source) if advice.room else advice.hints)
        self._visited.discard(source)
        if advice.highest_guest > own:
            self._crowded = max(self._crowded, (advice.highest_guest, source))
        if may_lead(advice.root, own) and advice.root != source and self._adviser is None:
            self._adviser = advice.root
            self._ask(advice.root)
        else:
            self._advance()

    def _consider(self, positions: Iterable[Position]) -> None:
        context = self._context
        if self.aim not in (Aim.NOTHING, Aim.BETTER):
            self._queue = context.mapping.in_order(context.position, dict.fromkeys((*self._queue, *positions)))

    def _forget_walk(self) -> None:
        """The first answer ends the walk."""
        for exchange in [e for e, q in self._questions.items() if q.wish is None]:
            self._visited.discard(self._questions.pop(exchange).position)

    def _weigh(self, source: Position, advice: Advice) -> None:
        """A guest moves when a much nearer place was free twice in a row."""
        context, leader = self._context, self._following.leader
        offers = context.mapping.in_order(context.position, (*advice.hints, source) if advice.room else advice.hints)
        best = offers[0] if offers else None
        if best is None or leader is None or not context.mapping.much_nearer(context.position, best, leader.position):
            self._better = None
        elif best == self._better:
            self._better = None
            self._propose(best)
        else:
            self._better = best
        self._advance()

    # -- records ----------------------------------------------------------------------------------------------

    def _mark(self, position: Position, answer: str) -> None:
        self.answers.mark(position, answer, self._context.now)

    def sizes(self) -> dict[str, int]:
        """How full our tables are."""
        return {
            "questions": len(self._questions),
            "candidates": len(self._queue) + len(self._visited) + len(self._doors),
            "peers": len(self.peers),
            "answers": len(self.answers),
        }

    def _plan(self) -> None:
        ends = (question.next_at for question in self._questions.values())
        self._context.agenda.plan(Alarm.SEARCH, min(self._rest_until, min(ends, default=inf)))
