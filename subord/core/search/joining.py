"""The search of a node for its leader, from the reasons for a search to its ends (docs/protocol.md, section 3).

A first search starts at the home, and takes less when a deadline passes; a later one starts at the alternates. Then
follow nodes that others name, and probes. A node that finds all leaders full displaces a guest, and a node that hears
of no lower one is root. A guest goes on to look for its home or a better place. search.py does the single steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.messages import Advice
from subord.core.placement.rank_change import Move
from subord.core.search.deadlines import HOME_TRIES
from subord.core.search.requests import Aim
from subord.core.search.rounds import Round
from subord.core.search.search import SEEDS_MAX, Search
from subord.core.view import Position


class Joining(Search):
    def start_first(self, known: tuple[Position, ...] = ()) -> None:
        """Begin the first search; `known` nodes are live, nearest first."""
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
        """The leader is lost or leaving: begin a search. The root, first of `path`, knows free places."""
        self._deadlines.end()
        if len(path) > 1:  # else the lost leader was the root, and its other subordinates are on the own level
            self.optimizer.rank_change.unsettle()
        self.lowest_seen.forget()  # it was heard in the tree that is lost
        self._begin_search(Aim.NEXT, alternates)
        self._round.root = next((root for root in path[:1] if root != avoid), self._context.position)
        self._round.visited.add(avoid)
        if self._uplink.leader is not None:  # it is leaving, and answers for a while only
            self._departures.note(avoid)
        self._prober.begin_again(avoid)
        self._advance()

    def rejoin(self) -> None:
        """The leader does not know the node, as after a restart of the leader: propose to it again.

        Further refusals wait for the next beat, because its answer would not differ.
        """
        leader = self._uplink.leader
        if leader is not None and not self._requests.about(leader.position) and self._may_propose:
            self._propose(leader.position)

    def on_own_sleep(self) -> None:
        """The node slept, so answers may wait in its socket: no question is overdue yet."""
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
        """The node has a place. A guest goes on to look for a better one."""
        self._requests.clear()
        self._prober.stop(greet=self.aim is Aim.FIRST and not home)
        self.optimizer.settle()
        self._round = Round(self._context)
        self.aim = Aim.NOTHING if home else Aim.BETTER
        self._rest.end()
        if not home:
            self._rest.shorten(self.optimizer.first_rest_s)

    def look_now(self) -> None:
        """Look for a better place at once: what delayed the search is over."""
        if self.aim is Aim.BETTER and not self._requests:
            self._look_again()

    def withdraw(self) -> None:
        """Close open proposals, which name a standing that is no longer valid."""
        for request in self._requests:
            if request.wish is not None:
                self._requests.close(request)
                self._round.visited.discard(request.position)

    def on_home_alive(self) -> None:
        """The home is alive: propose to it, with repetitions, even if it refused or did not answer before."""
        home = self.return_home.elsewhere
        if home is None or not self._may_move_home(home):
            return
        # A node without a leader also asks others, one after the other.
        tries = HOME_TRIES if self.aim in (Aim.BETTER, Aim.LOWER) else 2
        if not self._requests.prolong(home, tries):
            self._requests.close_about(home)
            self._propose(home, tries=tries)

    def on_heard(self, source: Position) -> None:
        """Note a message from `source`."""
        if self._uplink.leader is None:
            self.lowest_seen.heard(source)

    def on_seeds(self, positions: tuple[Position, ...]) -> None:
        """Take the seeds of the operator, and ask them while the node looks for a lower root."""
        self.seeds = positions[:SEEDS_MAX]
        if self.aim in (Aim.FIRST, Aim.LOWER):
            self._prober.add(self.seeds, self._context.now + self._context.timing.knock_s)

    def on_asked(self, source: Position) -> None:
        """A node that ranks below this one asked: it may know a lower root, so ask it in turn."""
        if self._context.mapping.may_lead(source, self._context.position) and not self._requests.awaits(source):
            self._ask_soon(source)

    def call_subordinates(self) -> None:
        """A new root sends `Back` to its computed subordinates, one by one: absent ones cost ARP requests."""
        below = self._context.mapping.at_home_below(self._context.position)
        self._prober.call(p for p in below if not self._roster.is_live(p))

    def on_announce(self, source: Position) -> None:
        """A node without a leader announced itself: a meeting place exists. If it is the lowest heard, ask it."""
        self._prober.slow_down()
        if source == self.lowest_seen.lowest:
            # All nodes hear it at the same moment, so each waits a random time.
            self._ask_later(source, self._context.chance.uniform(0, self._context.timing.answer_s))

    def _consider_move(self, source: Position, advice: Advice) -> None:
        """Advice for a guest: move home or to a better place, or refer two roots to each other."""
        home, may_lead = self.return_home.elsewhere, self._context.mapping.may_lead
        if home is not None and (home in advice.hints or (source == home and advice.room)):
            self.on_home_alive()
        elif source in self._uplink.path[:1] and not advice.wanted and may_lead(advice.root, source):
            self._requests.ask(advice.root)  # the root has lost that role
        elif self._prober.is_beside(source) and self.referral.refer(advice.root):
            pass
        elif self._context.mapping.has_homes or source in self._uplink.path[:1]:
            move = self.optimizer.choose(advice)
            if move is not None:
                self._move(move)
            elif self.optimizer.looks_soon(advice):
                self._rest.length_s = self._context.timing.search_interval_s
        self._advance()

    def _move(self, move: Move) -> None:
        """Move by choice; the old place is kept until the new leader accepts."""
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
        """Measured round trips may have named a nearer leader."""
        move = self.optimizer.take_chosen()
        if move is not None and self.aim is Aim.BETTER and not any(each.wish is not None for each in self._requests):
            self._move(move)
