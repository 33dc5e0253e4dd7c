"""What we are looking for, and the candidates who have not answered yet.

Intuition: letters sent, with a note of when to write again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from math import inf

import msgspec

from subord.core.messages import Ask, Propose, Wish
from subord.core.pacing.sliding_window import SlidingWindow
from subord.core.placement.quantize import UNKNOWN
from subord.core.state.context import Context
from subord.core.state.roster import Roster
from subord.core.state.view import Position

REQUESTS_MAX = 128  # open: rows of doors overlap, and others knock in our name
PROPOSALS_MAX = 20  # new ones in any second
HEDGE_PARTS = 4  # of the time for an answer: the next candidate is asked after one of them
ARP_PROPOSALS_MAX = 10  # the same while a walk is under way: each may cost an ARP request, beside those of the walk


class Aim(enum.Enum):
    """What we are looking for."""

    NOTHING = "nothing"  # at home
    FIRST = "first place"
    NEXT = "next place"  # the leader is lost, or leaving
    LOWER = "lower root"  # we are root
    BETTER = "better place"  # we are a guest


class Request(msgspec.Struct, kw_only=True):
    """One candidate who has not answered yet."""

    position: Position
    exchange: int
    wish: Wish | None  # None: we only ask for advice
    next_at: float
    hedge_at: float  # when the next candidate is asked besides
    wait_s: float
    tries: int  # repetitions left
    standing: int = UNKNOWN  # by which we propose to stand
    patient: bool = False  # our home at first start: it may be a moment late
    busy: int = 0
    awaited: bool = True  # False: asked on the off chance, and forgotten when we are awake for something else

    def put_off(self, until: float) -> None:
        """Somebody lives there, and is busy: that is no vain try."""
        self.busy += 1
        self.awaited = True
        self.tries += 1
        self.next_at = until


class Requests:
    """The open questions of one node. Nobody knocks at doors when there are QUESTIONS_MAX."""

    def __init__(self, context: Context, roster: Roster) -> None:
        self._context = context
        self._roster = roster
        self._open: dict[int, Request] = {}
        self._proposals = SlidingWindow(PROPOSALS_MAX, 1.0)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Request]:
        return iter(tuple(self._open.values()))

    def next_at(self, *, has_arp_pending: bool) -> float:
        """When the first of them is overdue on which anything depends, or a new proposal is allowed."""
        now, first_at, free_at = self._context.now, inf, self._free_at(has_arp_pending)
        for request in self._open.values():
            if request.awaited:
                hedge_at = request.hedge_at if request.hedge_at > now else inf
                first_at = min(first_at, request.next_at, hedge_at)
        return min(first_at, free_at) if free_at > now else first_at

    def may_propose(self, *, has_arp_pending: bool) -> bool:
        """Were there not too many new proposals in the last second? Fewer are allowed `has_arp_pending`."""
        return self._context.now >= self._free_at(has_arp_pending)

    def _free_at(self, has_arp_pending: bool) -> float:
        return self._proposals.free_at(events_max=ARP_PROPOSALS_MAX if has_arp_pending else PROPOSALS_MAX)

    def propose(
        self, position: Position, wish: Wish, *, tries: int = 1, patient: bool = False, standing: int | None = None
    ) -> None:
        """`standing`: the class by which we want to stand there; without, as we stand."""
        wait_s = self._context.answer_timeout.answer_s / (4 if patient else 2)
        self._proposals.note(self._context.now)
        own = self._context.mapping.rank_classes.own
        request = self._open_one(position, wish, wait_s, tries, patient)
        request.standing = own if standing is None else standing
        self.put(request)

    def ask(self, position: Position, *, awaited: bool = True) -> None:
        """For advice."""
        request = self._open_one(position, None, self._context.answer_timeout.answer_s, 0, patient=False)
        request.awaited = awaited
        self.put(request)

    def expect(self, positions: tuple[Position, ...]) -> int:
        """Others ask these for advice in our name. The number of the first question; the rest are counted on."""
        wait_s = 2 * self._context.answer_timeout.answer_s  # there is one way more to go
        requests = [self._open_one(position, None, wait_s, 0, patient=False) for position in positions]
        for request in requests:
            request.awaited = False
            request.next_at = self._context.now + wait_s
        return requests[0].exchange

    def _open_one(self, position: Position, wish: Wish | None, wait_s: float, tries: int, patient: bool) -> Request:
        request = Request(
            position=position,
            exchange=self._context.next_number(),
            wish=wish,
            next_at=inf,
            hedge_at=inf,
            wait_s=wait_s,
            tries=tries,
            patient=patient,
        )
        self._open[request.exchange] = request
        return request

    def put(self, request: Request) -> None:
        """Send it, again if it was sent before."""
        context = self._context
        if request.wish is None:
            own = context.mapping.rank_classes.own
            message: Ask | Propose = Ask(
                context.incarnation, request.exchange, context.terms, 0, own, context.performance
            )
        else:
            nodes = self._roster.live
            message = Propose(
                context.incarnation, request.exchange, context.terms, request.wish, nodes, request.standing
            )
        context.send(request.position, message)
        context.answer_timeout.asked(request.position, request.exchange, context.now)
        request.next_at = context.now + context.jittered(request.wait_s)

    def hedge(self) -> None:
        """Time is short: for answers to what is open now the next candidate waits only a part of the usual time."""
        at = self._context.now + self._context.answer_timeout.answer_s / HEDGE_PARTS
        for request in self._open.values():
            request.hedge_at = min(request.hedge_at, at)

    def find(self, source: Position, exchange: int) -> Request | None:
        """The open question that an answer with this number from this node belongs to."""
        request = self._open.get(exchange)
        return request if request is not None and request.position == source else None

    def awaits(self, position: Position) -> bool:
        """Does anything depend on an answer from there?"""
        return any(request.awaited for request in self.about(position))

    def about(self, position: Position) -> list[Request]:
        return [request for request in self._open.values() if request.position == position]

    def prolong(self, position: Position, tries: int) -> bool:
        """Is it asked, and will be again? Then at least so many times more: the same news may come in a shower."""
        for request in self.about(position):
            if request.wish is Wish.HOME and (request.patient or request.tries):
                request.tries = max(request.tries, tries)
                return True
        return False

    def overdue(self) -> list[Request]:
        return [request for request in self._open.values() if request.next_at <= self._context.now]

    def is_open(self, request: Request) -> bool:
        return request.exchange in self._open

    def close(self, request: Request) -> None:
        self._open.pop(request.exchange, None)

    def close_about(self, position: Position) -> None:
        for request in self.about(position):
            self.close(request)

    def put_off(self, until: float) -> None:
        """Nobody is overdue before."""
        for request in self._open.values():
            request.next_at = max(request.next_at, until)

    def clear(self) -> None:
        self._open.clear()
