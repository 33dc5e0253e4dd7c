"""The open questions and proposals of a node, and their pace (docs/protocol.md, section 3).

Inputs are questions and proposals to make, answers, and time; outputs are messages, and the requests that are
overdue. The pace of proposals has a bound of its own, apart from that of probes (discovery/prober.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from subord.core.discovery.prober import Prober
from subord.core.messages import Ask, Propose, Wish
from subord.core.pacing.sliding_window import SlidingWindow
from subord.core.quantize import UNKNOWN
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.states import Aim
from subord.core.view import Position

REQUESTS_MAX = 128  # open: rows of probes overlap, and delegates probe in the node's name
PROPOSALS_MAX = 20  # new ones in any second
HEDGE_PARTS = 4  # parts of the wait for an answer: after one of them the next candidate is asked as well
ARP_PROPOSALS_MAX = 10  # the same while ARP requests of probes may be under way


class Request(msgspec.Struct, kw_only=True):
    """An unanswered question or proposal to one candidate."""

    position: Position
    exchange: int
    wish: Wish | None  # None: a question for advice
    next_at: float = inf
    hedge_at: float = inf  # when the next candidate is asked as well
    wait_s: float
    tries: int  # repetitions left
    standing: int = UNKNOWN  # the class by which the proposer will stand
    patient: bool = False  # repeated until the deadline of the search: the candidate may be starting
    busy: int = 0
    awaited: bool = True  # False: a probe, which no timer waits for

    def put_off(self, until: float) -> None:
        """The candidate is busy: repeat at `until`, without using up a try."""
        self.busy += 1
        self.awaited = True
        self.tries += 1
        self.next_at = until


class Requests:
    """The open requests of one node; the prober pauses at REQUESTS_MAX."""

    def __init__(self, context: Context, roster: Roster, prober: Prober) -> None:
        self._context = context
        self._roster = roster
        self._prober = prober
        self._open: dict[int, Request] = {}
        self._proposals = SlidingWindow(PROPOSALS_MAX, 1.0)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._open.values()))

    @property
    def next_at(self) -> float:
        """When the next awaited request is overdue, or a new proposal is allowed."""
        now, first_at, free_at = self._context.now, inf, self._free_at
        for request in self._open.values():
            if request.awaited:
                hedge_at = request.hedge_at if request.hedge_at > now else inf
                first_at = min(first_at, request.next_at, hedge_at)
        return min(first_at, free_at) if free_at > now else first_at

    @property
    def may_propose(self) -> bool:
        """Whether the pace allows a new proposal."""
        return self._context.now >= self._free_at

    @property
    def _free_at(self) -> float:
        if self._proposals.is_idle(self._context.now):
            return -inf
        most = ARP_PROPOSALS_MAX if self._prober.has_arp_pending else PROPOSALS_MAX
        return self._proposals.free_at(events_max=most)

    @property
    def has_proposal(self) -> bool:
        return any(request.wish is not None for request in self._open.values())

    def propose(
        self, position: Position, wish: Wish, *, tries: int = 1, patient: bool = False, standing: int | None = None
    ) -> None:
        """`standing`: the class by which the node will stand; None: as it stands."""
        wait_s = self._context.answer_timeout.answer_s / (4 if patient else 2)
        self._proposals.note(self._context.now)
        own = self._context.mapping.rank_classes.own
        request = self._open_one(position, wish, wait_s, tries, patient)
        request.standing = own if standing is None else standing
        self.put(request)

    def ask(self, position: Position, *, awaited: bool = True) -> None:
        """Ask for advice."""
        request = self._open_one(position, None, self._context.answer_timeout.answer_s, 0, patient=False)
        request.awaited = awaited
        self.put(request)

    def expect(self, positions: tuple[Position, ...]) -> int:
        """Expect answers to questions of a delegate. Returns the number of the first; the rest count on."""
        wait_s = 2 * self._context.answer_timeout.answer_s  # the question goes by way of the delegate
        requests = [self._open_one(position, None, wait_s, 0, patient=False) for position in positions]
        for request in requests:
            request.awaited = False
            request.next_at = self._context.now + wait_s
        return requests[0].exchange

    def _open_one(self, position: Position, wish: Wish | None, wait_s: float, tries: int, patient: bool) -> Request:
        number = self._context.next_number()
        request = Request(position=position, exchange=number, wish=wish, wait_s=wait_s, tries=tries, patient=patient)
        self._open[number] = request
        return request

    def put(self, request: Request) -> None:
        """Send the request, again if it was sent before."""
        context = self._context
        head, own = (context.incarnation, request.exchange, context.terms), context.mapping.rank_classes.own
        if request.wish is None:
            context.send(request.position, Ask(*head, 0, own, context.performance))
        else:
            context.send(request.position, Propose(*head, request.wish, self._roster.live, request.standing))
        context.answer_timeout.asked(request.position, request.exchange, context.now)
        request.next_at = context.now + context.jittered(request.wait_s)

    def hedge(self) -> None:
        """An orphan asks the next candidate before these time out: both may have died with the leader."""
        if self._context.state.aim is not Aim.NEXT:
            return
        at = self._context.now + self._context.answer_timeout.answer_s / HEDGE_PARTS
        for request in self._open.values():
            request.hedge_at = min(request.hedge_at, at)

    def take(self, source: Position, exchange: int) -> Request | None:
        """The open request that this answers, if any."""
        context, request = self._context, self._open.get(exchange)
        found = request if request is not None and request.position == source else None
        for notice in context.answer_timeout.answered(source, exchange, context.now, is_open=found is not None):
            context.note(notice)
        return found

    def awaits(self, position: Position) -> bool:
        """Whether an awaited request to `position` is open."""
        return any(request.awaited for request in self.about(position))

    def about(self, position: Position) -> list[Request]:
        return [request for request in self._open.values() if request.position == position]

    def prolong(self, position: Position, tries: int) -> bool:
        """Raise the tries of a repeated proposal to the home; False: there is none. Several nodes may send `Back`."""
        for request in self.about(position):
            if request.wish is Wish.HOME and (request.patient or request.tries):
                request.tries = max(request.tries, tries)
                return True
        return False

    def overdue(self) -> Iterator[Request]:
        """The overdue requests, without those that close meanwhile."""
        for request in self:
            if request.next_at <= self._context.now and request.exchange in self._open:
                yield request

    def close(self, request: Request) -> None:
        self._open.pop(request.exchange, None)

    def close_about(self, position: Position) -> None:
        for request in self.about(position):
            self.close(request)

    def put_off(self, until: float) -> None:
        """No request is overdue before `until`."""
        for request in self._open.values():
            request.next_at = max(request.next_at, until)

    def clear(self) -> None:
        self._open.clear()
