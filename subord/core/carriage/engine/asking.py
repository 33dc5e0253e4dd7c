"""The questions that a node has open with others: acknowledged, checked, and asked around a node that hangs.

Inputs are targets by the node that leads to them, frames, and ends of links; outputs are frames, and causes for
targets that cannot be asked. A node that does not acknowledge in time is bypassed: the roster knows the nodes below
it, and its subordinates are asked directly for their branches. Invariant: of an answer only those nodes count that
the question was for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import BUSY, DOWN, EXPIRED, MOVED, NO_COORDINATOR, NO_TIME, OLDER, SILENT
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.frames import Ask, Check, End, Resolved, Told
from subord.core.carriage.engine.interface import Link, Opened, Role
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.engine.slowness import Slowness
from subord.core.carriage.engine.tasks import Pending, Stage, Task
from subord.core.carriage.engine.tree import Tree
from subord.core.view import Position

Climb = Callable[[Task, Ranges, str, float], None]
CAUSES_OF_LINKS = frozenset((DOWN, SILENT, OLDER))


class Asking:
    """All open questions of one node. `touched`: tasks for which something has changed."""

    def __init__(self, tree: Tree, links: Links, due: Due) -> None:
        self.climb: Climb = lambda _task, _part, _cause, _now: None
        """Asks the next node above, after one has failed for this cause; routing.py sets it."""
        self.open: dict[int, Pending] = {}
        self.queue: deque[Pending] = deque()
        """For a place among the direct streams."""
        self.direct: dict[Link, LinkState] = {}
        """Streams of its own: questions to one peer share one, as long as it answers in time."""
        self.touched: dict[Task, None] = {}
        self.slowness = Slowness()
        self._tree = tree
        self._links = links
        self._due = due
        self._number = 0

    # -- asking -------------------------------------------------------------------------------------------

    def ask(
        self, task: Task, peer: Position, part: Ranges, now: float, *, climbs: bool = False, direct: bool = False
    ) -> None:
        """Ask `peer` for these targets, over its edge if there is one."""
        self.touched[task] = None
        edge = None if direct else self._links.edge_to(peer, climbs=climbs)
        if edge is not None and not edge.knows_orders:
            self._bypass(task, peer, part, OLDER, now, climbs=climbs)
            return
        is_every = climbs and task.is_every
        for each in (NONE,) if is_every else part.chunks(bounds.PART_BYTES_MAX):
            if len(self.open) >= bounds.OPEN_MAX:
                self._fail(task, each, BUSY, climbs=climbs)
                continue
            self._number += 1
            pending = Pending(self._number, task, peer, each, climbs=climbs)
            self.open[pending.number] = task.pending[pending.number] = pending
            if edge is not None:
                self._send(pending, edge, now)
            elif self._may_call(peer):
                self._call(pending, now)
            else:
                self.queue.append(pending)

    def _send(self, pending: Pending, link: LinkState, now: float, *, opens: bool = False) -> bool:
        """Send the question; False: there is no time left. `opens`: it is the first on a stream of its own."""
        task = pending.task
        left_s = task.until - now - link.margin_s(now)
        if left_s < 0.001:
            self._end(pending)
            self._fail(task, pending.part, NO_TIME, climbs=pending.climbs)
            return False
        part = NONE if pending.climbs and task.is_every else pending.part
        passed = (*task.passed, self._tree.position) if pending.climbs else ()
        left_ms = int(left_s * 1000)
        lease_ms = _lease_ms(task, now)
        body = Ask(pending.number, pending.climbs, task.attempt, left_ms, part.flat(), task.order, passed, lease_ms)
        pending.is_held = True
        pending.stage, pending.link, pending.asked_at = Stage.ASKED, link, now
        pending.sent(now)
        link.asked[pending.number] = pending
        if opens:
            self._links.call(link, body)
        else:
            self._links.send(link, body)
        self._due.plan(pending, "look_at", now + self.slowness.ack_s(link.ack_s, pending.peer, now))
        return True

    def _direct_to(self, peer: Position) -> LinkState | None:
        """A stream of its own that further questions may share."""
        return next((each for each in self.direct.values() if each.peer == peer and not each.is_doubted), None)

    def _may_call(self, peer: Position) -> bool:
        return len(self.direct) < bounds.DIRECT_MAX or self._direct_to(peer) is not None

    def _call(self, pending: Pending, now: float) -> None:
        """Ask over a stream of its own, which other questions to this peer may have opened."""
        link = self._direct_to(pending.peer)
        if link is not None:
            self._send(pending, link, now)
            return
        link = self._links.open(Opened(("ask", pending.number), pending.peer, Role.CALLED))
        if link is None:
            self._end(pending)
            self._fail(pending.task, pending.part, BUSY, climbs=pending.climbs)
        elif self._send(pending, link, now, opens=True):
            self.direct[link.link] = link
        else:
            self._links.close(link.link)

    @staticmethod
    def _fail(task: Task, part: Ranges, cause: str, *, climbs: bool) -> None:
        """The question cannot be asked."""
        task.miss(part, cause)
        if climbs:
            task.lacks = cause

    def _call_next(self, now: float) -> None:
        while self.queue and self._may_call(self.queue[0].peer):
            pending = self.queue.popleft()
            if pending.stage is Stage.WAITING and not pending.task.is_over:
                self._call(pending, now)

    # -- what comes back ----------------------------------------------------------------------------------

    def of(self, link: LinkState, number: int) -> Pending | None:
        """The question that an answer on this link is for; None: the answer is dropped and counted."""
        pending: Pending | None = link.asked.get(number)
        if pending is None:
            self._links.dropped["late" if number <= self._number else "not asked"] += 1
            return None
        self.touched[pending.task] = None
        link.is_doubted = False
        return pending

    def on_ack(self, pending: Pending, now: float) -> None:
        """The peer works at the question."""
        assert pending.link is not None
        delay_s = pending.acknowledged(now)
        if delay_s is not None:
            pending.link.measure(delay_s, now)
            self.slowness.note(delay_s, now, pending.link.quick_ack_s)
        pending.is_heard = pending.is_known = True
        self.slowness.settle(pending.number)
        if pending.is_open:
            self._wait(pending, now)

    def _wait(self, pending: Pending, now: float) -> None:
        """The peer works at the question, also if it was given up: it is waited for, and checked later."""
        pending.stage, pending.is_heard = Stage.ASKED, True
        self._due.plan(pending, "look_at", now + pending.pause_s)

    def on_lost(self, pending: Pending, now: float) -> None:
        """The peer does not hold the question any more: it is asked again, as long as looks are left."""
        pending.is_held = False
        if not pending.is_open:
            return
        task, rest = pending.task, self._rest(pending)
        self._end(pending)
        self._release(pending, now)
        task.looks += 1
        if task.looks > bounds.LOOKS_MAX:
            task.miss(rest, EXPIRED)
        elif pending.climbs:
            self.climb(task, rest, NO_COORDINATOR, now)
        else:
            self.ask(task, pending.peer, rest, now)

    def on_told(self, pending: Pending, told: Told, now: float) -> None:
        """Results of targets, and causes of others."""
        pending.is_heard = pending.is_known = True
        self.slowness.settle(pending.number)
        task = pending.task
        for result, flat in told.groups:
            nodes = self._counted(pending, Ranges.unflat(flat))
            if nodes:
                task.fold.add(result, nodes)
        nodes = self._counted(pending, Ranges.unflat(told.others))
        if nodes:
            task.fold.add_others(nodes)
        for cause, flat in told.missing:
            task.miss(self._asked_for(pending, Ranges.unflat(flat)), cause)
        if told.is_last:
            pending.is_held = False
            if pending.climbs:
                self._told_from_above(pending, told)
            self._end(pending)
            rest = self._rest(pending) & task.unexplained
            if rest:
                self._links.dropped["incomplete"] += 1
                task.miss(rest, EXPIRED)
            self._release(pending, now)

    @staticmethod
    def _told_from_above(pending: Pending, told: Told) -> None:
        """A coordinator has answered, or stood in for one. What only a former one listed is not found again."""
        task = pending.task
        task.lacks = told.lacks
        if task.is_every and not told.lacks:
            task.is_resolved |= bool(pending.part)
            task.miss(task.missing.get(NO_COORDINATOR, NONE) - pending.part, MOVED)

    def on_resolved(self, pending: Pending, resolved: Resolved, now: float) -> Ranges:
        """The targets of an order for all members; returns those that are new here."""
        task, targets = pending.task, Ranges.unflat(resolved.targets)
        if not (pending.climbs and task.is_every):
            self._links.dropped["not asked"] += 1
            return NONE
        if len(task.targets) + len(targets - task.targets) > bounds.TARGETS_MAX:
            self._links.dropped["too many targets"] += 1
            return NONE
        pending.part |= targets
        task.lacks = pending.lacks = resolved.lacks
        task.is_resolved |= not resolved.lacks
        pending.is_heard = True
        if not any(each.climbs for each in task.open):  # nothing else gives the whole answer
            self.wait_again(task, now)
        return task.widen(targets)

    def wait_again(self, task: Task, now: float) -> bool:
        """Wait for a node above that was given up, was heard since, and has given the targets; False: none has."""
        for each in task.pending.values():
            if task.is_every and each.climbs and each.part and each.is_heard and each.is_held and not each.is_open:
                task.lacks = each.lacks
                self._wait(each, now)
                return True
        return False

    def _asked_for(self, pending: Pending, nodes: Ranges) -> Ranges:
        """Without nodes for which the peer was not asked."""
        invented = nodes - pending.part
        if invented:
            self._links.dropped["invented"] += len(invented)
        return nodes & pending.part

    def _counted(self, pending: Pending, nodes: Ranges) -> Ranges:
        asked_for = self._asked_for(pending, nodes)
        new = pending.task.take(asked_for)
        if len(new) < len(asked_for):
            self._links.dropped["twice"] += len(asked_for) - len(new)
        return new

    # -- failures -----------------------------------------------------------------------------------------

    def look(self, pending: Pending, now: float) -> None:
        """An acknowledgement is overdue, or it is time to check whether the peer still works at the question."""
        task, link = pending.task, pending.link
        self.touched[task] = None
        if not pending.is_open or link is None:
            return
        if pending.is_heard:
            self._check(link, pending, now)
            pending.is_heard, pending.asked_at = False, now
            pending.pause_s = min(2 * pending.pause_s, bounds.CHECK_S_MAX)
        is_doubted = pending.stage is Stage.DOUBTED
        slowness, peer = self.slowness, pending.peer
        pause_s = slowness.give_up_s(peer, now) if is_doubted else slowness.ack_s(link.ack_s, peer, now)
        if pending.asked_at + pause_s > now:
            self._due.plan(pending, "look_at", pending.asked_at + pause_s)
        elif is_doubted:
            self._end(pending)
            self._release(pending, now)
        else:
            self._doubt(pending, now)

    def _doubt(self, pending: Pending, now: float) -> None:
        """The peer counts as hung: its branch is asked directly, and it itself is waited for a little longer."""
        assert pending.link is not None
        pending.stage, pending.link.is_doubted = Stage.DOUBTED, True
        is_target = pending.peer in self._rest(pending)
        if is_target and not pending.climbs:
            self.slowness.doubt(pending.number, pending.peer)
            self._due.plan(
                pending, "look_at", max(now, pending.asked_at + self.slowness.give_up_s(pending.peer, now))
            )
        else:
            self._end(pending)
            self._release(pending, now)
        self._bypass(pending.task, pending.peer, self._rest(pending), SILENT, now, climbs=pending.climbs)

    def _bypass(self, task: Task, peer: Position, part: Ranges, cause: str, now: float, *, climbs: bool) -> None:
        """Ask around `peer`, which has no answer."""
        self.touched[task] = None
        if climbs:
            self.climb(task, part, OLDER if cause == OLDER else NO_COORDINATOR, now)
            return
        task.miss(Ranges.of((peer,)) & part, cause)
        rest = part - Ranges.of((peer,))
        if not rest:
            return
        branches = self._tree.split_below(peer, rest)
        for subordinate, nodes in branches.items():
            self.ask(task, subordinate, nodes, now, direct=True)
            rest -= nodes
        task.miss(rest, MOVED)

    def on_closed(self, link: LinkState, cause: str, now: float) -> None:
        """A link has ended, with questions open on it."""
        self.direct.pop(link.link, None)
        for pending in list(link.asked.values()):
            task, rest = pending.task, self._rest(pending)
            was_open, pending.is_held = pending.is_open, False
            is_known = pending.is_known
            self._end(pending)
            link.asked.pop(pending.number, None)
            if not was_open or task.is_over:
                continue
            self.touched[task] = None
            if link.role is Role.CALLED or pending.climbs:
                word = cause if cause in CAUSES_OF_LINKS else (DOWN if is_known else SILENT)
                self._bypass(task, pending.peer, rest, word, now, climbs=pending.climbs)
            else:
                self.ask(task, pending.peer, rest, now, direct=True)
        self._call_next(now)

    # -- leases -------------------------------------------------------------------------------------------

    def renew(self, task: Task, now: float) -> None:
        """Pass a renewal on, also to peers that this node has given up: what they still tell counts."""
        for link, pending in self._held(task):
            self._check(link, pending, now)

    def _check(self, link: LinkState, pending: Pending, now: float) -> None:
        pending.sent(now)
        self._links.send(link, Check(pending.number, _lease_ms(pending.task, now)))

    def _held(self, task: Task) -> list[tuple[LinkState, Pending]]:
        """The questions that peers may still hold."""
        asked = ((each.link, each) for each in task.pending.values() if each.is_held)
        return [(link, each) for link, each in asked if link is not None and link.link in self._links.of]

    # -- ends ---------------------------------------------------------------------------------------------

    @staticmethod
    def _rest(pending: Pending) -> Ranges:
        return pending.part & pending.task.remaining

    def _end(self, pending: Pending) -> None:
        """Nothing is waited for any more."""
        pending.stage = Stage.OVER
        self.slowness.settle(pending.number)
        self._due.plan(pending, "look_at", inf)

    def _release(self, pending: Pending, now: float) -> None:
        """Nothing more is heard of it on a stream of its own."""
        if pending.link is not None and pending.link.link in self.direct:
            self._leave(pending, stops=False)
            self._call_next(now)

    def _leave(self, pending: Pending, *, stops: bool) -> None:
        """The peer no longer works at the question; a stream of its own ends with its last question, which says the
        same."""
        link, is_held = pending.link, pending.is_held
        pending.is_held = False
        if link is None:
            return
        link.asked.pop(pending.number, None)
        ends = link.link in self.direct and not link.asked
        if is_held and link.link in self._links.of and (stops or not ends):
            self._links.send(link, End(pending.number, stops))
        if ends:
            del self.direct[link.link]
            self._links.hang_up(link)

    def forget(self, task: Task, now: float, *, stops: bool) -> None:
        """The task is over: nothing of its questions is kept, here and at the peers. `stops`: as in End."""
        for number, pending in task.pending.items():
            self._end(pending)
            self.open.pop(number, None)
            self._leave(pending, stops=stops)
        task.pending.clear()
        if self.queue:
            self.queue = deque(each for each in self.queue if not each.task.is_over)
        self._call_next(now)


def _lease_ms(task: Task, now: float) -> int:
    return int(task.lease_s(now) * 1000)
