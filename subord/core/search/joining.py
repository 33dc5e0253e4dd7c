"""When a node searches: why a search begins, how long it rests between rounds, and what its end means.

Inputs are the start, the loss of a leader, news of the home, and time; outputs are rounds (search.py), and a call of
`alone` when no lower node answers. A first search starts at the home, and takes less when a deadline passes; a later
one starts at the alternates. A root or guest begins a round after each rest (docs/protocol.md, section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from subord.core.edges.leader import Leader, Uplink
from subord.core.events import LostCause
from subord.core.placement.optimizer import Optimizer
from subord.core.search.deadlines import HOME_TRIES
from subord.core.search.search import Search
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.states import Aim, State, Trigger
from subord.core.timers import Timer
from subord.core.view import Position

ROUNDS_MAX = 7  # among full lower ranks, before the node becomes root


class Joining:
    """The searches of one node, one after the other."""

    def __init__(
        self, context: Context, roster: Roster, uplink: Uplink, optimizer: Optimizer, alone: Callable[[], None]
    ) -> None:
        self._context = context
        self._roster = roster
        self._uplink = uplink
        self._optimizer = optimizer
        self._alone = alone
        self.search = Search(context, roster, uplink, optimizer, self._end_round)
        self._deadlines, self._rest = self.search.deadlines, self.search.rest
        self._prober, self._requests = self.search.prober, self.search.requests
        self._rounds = 0  # repeated because all lower nodes were full

    def start_first(self, known: tuple[Position, ...] = ()) -> None:
        """Begin the first search; `known` nodes are live, nearest first."""
        context, seeds = self._context, self._prober.seeds
        peers, return_home = self.search.peers, self.search.return_home
        context.follow(Trigger.BEGIN)
        peers.know(known)
        self._begin_search(peers)
        self._prober.begin(seeds, context.now + context.timing.answer_s * (0.25 if seeds else 2))
        if return_home.first is None:
            self.become_root()
        else:
            self._deadlines.begin(peers, return_home.first)
            self._requests.propose(return_home.first, return_home.wish_for(return_home.first), patient=True)

    def start_next(self, lost: Leader, hints: tuple[Position, ...], cause: LostCause | None = None) -> None:
        """The leader is lost (`cause`) or leaving: begin a search, first at `hints`. Its root knows free places."""
        self.search.answers.ended(self._context.now, lost.position, cause)
        told, peers = lost.guidance, self.search.peers
        self._deadlines.end()
        if len(told.path) > 1:  # else the lost leader was the root, and its other subordinates are on the own level
            self._optimizer.rank_change.unsettle()
        self.search.lowest_seen.forget()  # it was heard in the tree that is lost
        self._begin_search((*hints, *told.alternates, *told.siblings, *peers))
        self.search.avoid(lost)
        self._prober.begin_again(lost.position)
        self.search.advance()

    def _begin_search(self, known: Iterable[Position]) -> None:
        self._rounds = 0
        self.search.answers.searching_since = self._context.now
        self._requests.clear()
        self._rest.end()
        self._rest.shorten_next()
        self.search.begin(known)

    def rejoin(self) -> None:
        """The leader does not know the node, as after a restart of the leader: propose to it again."""
        leader = self._uplink.leader
        # Not while another request to it is open, because its answer would not differ.
        if leader is not None and not self._requests.about(leader.position) and self._requests.may_propose:
            self.search.propose(leader.position)

    def on_home_alive(self) -> None:
        """The home is alive: propose to it, with repetitions, even if it refused or did not answer before."""
        home = None if self._context.state is State.LEAVING else self.search.return_home.elsewhere
        if home is None or not self.search.may_return(home):
            return
        # A node without a leader also asks others, one after the other.
        tries = HOME_TRIES if self._context.state.aim in (Aim.BETTER, Aim.LOWER) else 2
        if not self._requests.prolong(home, tries):
            self._requests.close_about(home)
            self.search.propose(home)
            self._requests.prolong(home, tries)

    def settle(self, leader: Position, *, home: bool) -> None:
        """A leader accepted the node. A guest goes on to look for a better place."""
        mapping = self._context.mapping
        is_computed = mapping.ranks_are_positions and leader == mapping.first_of(self._context.position)
        self.stop(greet=self._context.state.aim is Aim.FIRST and not is_computed)
        self._optimizer.settle()
        self.search.begin()
        if not home:
            self._rest.shorten(self._optimizer.first_rest_s)

    def become_root(self) -> None:
        self._rest.begin(self._rest.length_s)
        self._alone()

    def stop(self, *, greet: bool = False) -> None:
        """End the search; `greet`: the nearest neighbours are still probed."""
        self._requests.clear()
        self._prober.stop(greet=greet)
        self._rest.end()

    def look_now(self) -> None:
        """Look for a better place at once: what delayed the search is over."""
        if self._context.state.aim is Aim.BETTER and not self._requests:
            self._begin_round()

    def on_own_sleep(self) -> None:
        """The node slept, so answers may wait in its socket: no question is overdue yet."""
        self._context.answer_timeout.forget()
        soon = self._context.now + self._context.answer_timeout.answer_s
        self._requests.put_off(soon)
        self._deadlines.put_off(soon)

    def on_timer(self) -> None:
        """Handle overdue requests, and the ends of rests and of the pause between probes."""
        self.search.repeat_overdue()
        if self._rest.until <= self._context.now:
            self._begin_round()
        if self._prober.next_at <= self._context.now:
            self.search.probe()
        self.search.advance()

    def _begin_round(self) -> None:
        """The rest is over."""
        aim = self._context.state.aim
        self._rest.end()
        if self.search.is_waiting or self._requests.has_proposal:
            self._rest.begin(self._context.timing.answer_s)  # the answer may be under way
        elif aim is Aim.LOWER:
            self._look_as_root()
        elif aim is Aim.BETTER:
            self._look_as_guest()
        elif aim is not Aim.NOTHING:
            self._look_without_place(aim)

    def _look_as_root(self) -> None:
        """Look for a lower root among known nodes and neighbours."""
        peers = self.search.peers
        self.search.begin()
        self._prober.look_again((*peers, *peers.others), self._roster.is_live)
        self._rest.begin_as_root(hears_lower=self.search.lowest_seen.knows_lower)

    def _look_as_guest(self) -> None:
        """Ask the root for a better place; the rest begins after its answer."""
        self.search.begin()
        for root in self._uplink.path[:1]:
            self._requests.ask(root)

    def _look_without_place(self, aim: Aim) -> None:
        lowest_seen = self.search.lowest_seen
        self.search.begin(self.search.peers if aim is Aim.NEXT else ())
        if lowest_seen.knows_lower:  # it accepts none without a place itself, so it is only asked
            self.search.ask_adviser(lowest_seen.lowest)
        self.search.advance()

    def _end_round(self) -> None:
        """No candidate is left: rest, or become root."""
        aim, is_resting, knows_a_node = self._context.state.aim, self._rest.until < inf, self.search.knows_a_node
        if aim is Aim.LOWER and knows_a_node:
            self.search.look_soon(Aim.LOWER)
        elif aim is Aim.LOWER or is_resting:
            return  # the rest starts the next round
        elif aim is Aim.BETTER:
            self._rest.begin_as_guest()
        elif knows_a_node and self._rounds < ROUNDS_MAX:
            self._rounds += 1  # lower nodes live but are full: this one is no root
            self._rest.begin(min(self._rounds, 3) * self._rest.length_s / 2)
        else:
            self.become_root()

    def plan(self) -> None:
        """Set the search timer after any change; a timer that is due stays due."""
        context, has_no_place = self._context, self._context.state.aim in (Aim.FIRST, Aim.NEXT)
        if context.timers.at(Timer.SEARCH) <= context.now:
            return
        deadline = self._deadlines.next_at if has_no_place else inf
        at = min(self._rest.until, self._requests.next_at, self._prober.next_at, deadline)
        if at == inf and has_no_place:
            at = context.now + context.timing.answer_s  # by then the last target has answered
        context.timers.plan(Timer.SEARCH, at)
