"""Whom do I ask for a place, in which order, and when do I stop? (protocol section 3)

Intuition: a traveller looking for a bed. He first goes to the inn where a room is reserved for him, and waits a while
if it is not open yet. Then he tries the inns that he was told of, best first. While he knows of none he walks from
door to door (discovery/prober.py), and the first who opens knows the office where all vacant beds are listed. When
every inn is full, he asks for the room of somebody younger. And when nobody opens at all, he is the innkeeper. A
guest goes on looking, too: for his home, or for a bed nearer the top (placement/depth_rule.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.messages import Advice
from subord.core.placement.rank_change import Move
from subord.core.state.view import Position
from subord.core.uplink.deadlines import HOME_TRIES
from subord.core.uplink.requests import Aim
from subord.core.uplink.rounds import Round
from subord.core.uplink.search import SEEDS_MAX, Search


class Joining(Search):
    """The search of one node, from its beginnings to its ends."""

    def start_first(self, known: tuple[Position, ...] = ()) -> None:
        """We have just started; these are `known` to live, nearest first."""
        self.peers.know(known)
        self._begin_search(Aim.FIRST, self.peers)
        self._prober.begin(
            self.seeds, self._context.now + self._context.timing.answer_s * (0.25 if self.seeds else 2)
        )
        if self.return_home.first is None:
            self._end_alone()
            return
        self._deadlines.begin(self.peers, self.return_home.first)
        self._requests.propose(
            self.return_home.first, self.return_home.wish_for(self.return_home.first), patient=True
        )

    def start_next(self, alternates: Iterable[Position], avoid: Position, path: tuple[Position, ...]) -> None:
        """Our leader is lost or leaving; the root, where `path` begins, knows where else there is room."""
        self._deadlines.end()
        if len(path) > 1:  # else it was the root: whoever follows it stands on our level
            self.optimizer.rank_change.unsettle()
        self.lowest_seen.forget()  # it came from the tree that we lost
        self._begin_search(Aim.NEXT, alternates)
        self._round.root = next((root for root in path[:1] if root != avoid), self._context.position)
        self._round.visited.add(avoid)
        if self._uplink.leader is not None:  # it has said goodbye, and answers only for a while
            self._departures.note(avoid)
        self._prober.begin_again(avoid)
        self._advance()

    def rejoin(self) -> None:
        """Our leader does not know us (it restarted): propose to it again.

        If it says so after each proposal, not at once: the answer to the next beat will be the same.
        """
        leader = self._uplink.leader
        if leader is not None and not self._requests.about(leader.position) and self._may_propose:
            self._propose(leader.position)

    def on_own_sleep(self) -> None:
        """We slept: the answers may lie in our own letterbox."""
        self._context.answer_timeout.forget()
        soon = self._context.now + self._context.answer_timeout.answer_s
        self._requests.put_off(soon)
        self._deadlines.put_off(soon)

    def stop(self) -> None:
        self.aim = Aim.NOTHING
        self._requests.clear()
        self._prober.stop()
        self._rest.end()

    def settle(self, *, home: bool) -> None:
        """We have a place; a guest looks for a better one now and then."""
        self._requests.clear()
        self._prober.stop(greet=self.aim is Aim.FIRST and not home)
        self.optimizer.settle()
        self._round = Round(self._context)
        self.aim = Aim.NOTHING if home else Aim.BETTER
        self._rest.end()
        if not home:
            self._rest.shorten(self.optimizer.first_rest_s)

    def look_now(self) -> None:
        """What a better place waited for may have happened."""
        if self.aim is Aim.BETTER and not self._requests:
            self._look_again()

    def withdraw(self) -> None:
        """Whoever accepts us now would take in somebody else than we are."""
        for request in self._requests:
            if request.wish is not None:
                self._requests.close(request)
                self._round.visited.discard(request.position)

    def told_home(self) -> None:
        """Our home is said to be alive: what we asked it in vain before, we ask anew, and more patiently."""
        home = self.return_home.elsewhere
        if home is None or not self._may_move_home(home):
            return
        # Whoever has no leader has others to ask as well, one after the other.
        tries = HOME_TRIES if self.aim in (Aim.BETTER, Aim.LOWER) else 2
        if not self._requests.prolong(home, tries):
            self._requests.close_about(home)
            self._propose(home, tries=tries)

    def on_heard(self, source: Position) -> None:
        """Anybody spoke to us."""
        if self._uplink.leader is None:
            self.lowest_seen.heard(source)

    def on_seeds(self, positions: tuple[Position, ...]) -> None:
        """Named by the operator, and asked at once while we look for a place."""
        self.seeds = positions[:SEEDS_MAX]
        if self.aim in (Aim.FIRST, Aim.LOWER):
            self._prober.add(self.seeds, self._context.now + self._context.timing.knock_s)

    def on_asked(self, source: Position) -> None:
        """Anybody asked us something: who ranks below us may know where we belong."""
        if self._context.mapping.may_lead(source, self._context.position) and not self._requests.awaits(source):
            self._ask_soon(source)

    def call_home(self) -> None:
        """We came up, and nobody above us could tell those below; one by one, as absent ones cost ARP requests."""
        below = self._context.mapping.at_home_below(self._context.position)
        self._prober.call(p for p in below if not self._roster.is_live(p))

    def on_announce(self, source: Position) -> None:
        """A root is there; if it ranks above us it hears our own announcement."""
        self._prober.slow_down()
        if source == self.lowest_seen.lowest:
            # Everybody hears it at the same moment: each asks it in a moment of its own.
            self._ask_later(source, self._context.chance.uniform(0, self._context.timing.answer_s))

    def _weigh(self, source: Position, advice: Advice) -> None:
        """A guest hears where else it could stand."""
        home, may_lead = self.return_home.elsewhere, self._context.mapping.may_lead
        if home is not None and (home in advice.hints or (source == home and advice.room)):
            self.told_home()
        elif source in self._uplink.path[:1] and not advice.wanted and may_lead(advice.root, source):
            self._requests.ask(advice.root)  # our root is none any more
        elif self._prober.is_beside(source) and self.referral.introduce(advice.root):
            pass
        elif self._context.mapping.has_homes or source in self._uplink.path[:1]:
            move = self.optimizer.choose(advice)
            if move is not None:
                self._move(move)
            elif self.optimizer.is_in_haste(advice):
                self._rest.length_s = self._context.timing.search_interval_s
        self._advance()

    def _move(self, move: Move) -> None:
        """By choice; the old place is kept until the new one is sure."""
        if move.leader:
            self._propose(move.leader, move.wish, standing=move.standing)
            return
        root = self._uplink.path[0]
        self.optimizer.budget.spend(self._context.now)
        self.optimizer.rank_change.stand(move.standing)
        self._requests.clear()
        self._end_alone()
        self._ask_soon(root)

    def on_measured(self) -> None:
        """The measuring of distances may have found somebody nearer."""
        move = self.optimizer.take_chosen()
        if move is not None and self.aim is Aim.BETTER and not any(each.wish is not None for each in self._requests):
            self._move(move)
