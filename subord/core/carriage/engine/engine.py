"""The engine of orders: carries orders down the tree and answers up, at one node.

`handle` takes one event (interface.py) and returns the actions that the driver carries out; `deadline` says when to
give Wakeup. It reads no clock and makes no choice by chance. Invariants: docs/protocol/carriage.md.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import assert_never

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting.acting import Acting
from subord.core.carriage.engine.acting.tags import Tags
from subord.core.carriage.engine.asking import Asking
from subord.core.carriage.engine.causes import BUSY, CANCELLED, NO_COORDINATOR, OLDER, REFUSED, TOO_LARGE
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.folding import Fold, Room, told_frames
from subord.core.carriage.engine.frames import (
    Ack,
    Ask,
    Body,
    Check,
    End,
    Lost,
    Order,
    Resolved,
    Tag,
    Told,
    Unreadable,
    decode_body,
    order_fits,
)
from subord.core.carriage.engine.interface import (
    Acted,
    Action,
    Arrived,
    Cancel,
    Closed,
    Event,
    Finished,
    Issue,
    Noted,
    Opened,
    Outcome,
    Overview,
    PartEvent,
    Progress,
    Role,
    Services,
    Wakeup,
    unasked,
)
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.engine.parts import Part, Parts
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.routing import Routing
from subord.core.carriage.engine.tasks import Asker, Pending, Task
from subord.core.carriage.engine.tree import Tree
from subord.core.view import Position

TIMES_OF_TASK = ("until", "flush_at", "look_at", "young_at", "slot_until", "lease_ends_at", "renew_at")


class Engine:
    """The orders of one life of one node, and the parts that ride on the same links."""

    def __init__(
        self,
        tree: Tree,
        services: Services,
        *,
        over: Iterable[tuple[Tag, float]] = (),
        parts: Sequence[Part] = (),
        now: float = 0.0,
    ) -> None:
        """`over`: tags of Note from earlier lives of this node, and for how many seconds to keep them."""
        self._tree = tree
        self._due = Due()
        self._room = Room()
        self._links = Links(tree.incarnation)
        self._asking = Asking(tree, self._links, self._due)
        self._acting = Acting(services, Tags(over, now), self._links.actions, self._tell_own)
        self._routing = Routing(tree, self._asking, self._acting, self._due)
        self._routing.pass_targets = self._pass_targets
        self._tasks: dict[Task, None] = {}
        self.ended: deque[tuple[Overview, float]] = deque(maxlen=bounds.ENDED_MAX)
        """The last orders that ended, newest last, and when."""
        self.parts = Parts(parts, self._links)

    # -- the door -----------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        """When to give Wakeup, unless another event comes before."""
        return min(self._due.deadline, self._acting.tags.deadline, self.parts.deadline)

    @property
    def dropped(self) -> Counter[str]:
        """Input that did not count, by a word."""
        return self._links.dropped

    @property
    def sizes(self) -> dict[str, int]:
        """Entries of everything that could grow; all but `links` and `tags` are 0 when no order is under way."""
        return {
            "orders": len(self._tasks),
            "questions": len(self._asking.open),
            "held": sum(len(each.held) for each in self._links.of.values()),
            "direct": len(self._asking.direct),
            "queue": len(self._asking.queue),
            "admission": len(self._routing.admission),
            "acting": len(self._acting.waiting),
            "noting": len(self._acting.noting),
            "held bytes": self._room.held,
            "links": len(self._links.of),
            "tags": len(self._acting.tags),
        }

    def under_way(self, now: float) -> list[Overview]:
        """The orders that this node holds, oldest first."""
        return [task.overview(now) for task in self._tasks]

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take one event; returns what the driver does now, in this order."""
        self._take(event, now)
        self._wake(now)
        self._settle_all(now)
        self.parts.wake(now)
        actions, self._links.actions[:] = list(self._links.actions), []
        return actions

    def _take(self, event: Event, now: float) -> None:
        match event:
            case Opened():
                self._opened(event, now)
            case Closed():
                self._closed(event, now)
            case Arrived():
                self._arrived(event, now)
            case Issue():
                self._issue(event, now)
            case Cancel():
                self._cancel(event.tag, now)
            case Noted():
                self._acting.noted(event.tag, now, ok=event.ok)
            case Acted():
                self._acting.acted(event.tag, event.outcome, begun=event.begun)
            case Wakeup():
                pass
            case PartEvent():
                self.parts.take(event, now)
            case _:
                assert_never(event)

    def _wake(self, now: float) -> None:
        """Do what is due. What comes late may wait behind other input of this node, so it may not be overdue."""
        self._asking.slowness.note(now - self._due.deadline, now)
        self._acting.expire(now)
        while (due := self._due.take(now)) is not None:
            owner, name = due
            if isinstance(owner, Pending):
                self._asking.look(owner, now)
                continue
            assert isinstance(owner, Task)
            if owner.is_over:
                continue
            if name == "until":
                self._finish(owner, now)
            elif name == "flush_at":
                self._flush(owner, now)
            elif name == "slot_until":
                self._routing.leave((owner,), now)
            elif name == "lease_ends_at":
                self._forget(owner, now)
            elif name == "renew_at":
                self._renew(owner, now)
                self._due.plan(owner, "renew_at", now + bounds.RENEW_S)
            elif name == "young_at":
                self._routing.grow_up(owner, now)
            else:
                self._routing.look(owner, now)
                self._touch(owner)

    def _touch(self, task: Task) -> None:
        self._asking.touched[task] = None

    # -- links --------------------------------------------------------------------------------------------

    def _opened(self, event: Opened, now: float) -> None:
        if event.role is Role.CALLED and event.link not in self._links.of:
            return  # it was hung up meanwhile, so no end of it will come
        old = self._links.replaced(event)
        if old is not None:
            self._closed(Closed(old.link), now)
        state = self._links.open(event)
        if state is None:
            return
        self.parts.opened(state, now)
        if state.role is Role.CALLED and not state.knows_orders:
            self._closed(Closed(state.link, OLDER), now)

    def _closed(self, event: Closed, now: float) -> None:
        state = self._links.close(event.link)
        if state is None:
            return
        held = list(state.held.values())  # nothing can be told to their asker any more
        self._routing.leave(held, now)  # or those that wait would begin with the places of the others
        for task in held:
            self._forget(task, now)
        self._asking.on_closed(state, event.cause, now)
        self.parts.closed(state, now)

    def _arrived(self, event: Arrived, now: float) -> None:
        read = self._links.read(event.link, event.data)
        if read is None:
            return
        try:
            if not self.parts.hear(*read, now):
                self._hear(read[0], decode_body(read[1]), now)
        except Unreadable:
            self._links.dropped["unreadable"] += 1

    def _hear(self, link: LinkState, body: Body, now: float) -> None:
        if isinstance(body, Ask):
            self._asked(link, body, now)
            return
        if isinstance(body, Check | End):
            self._hear_asker(link, body, now)
            return
        pending = self._asking.of(link, body.number)
        if pending is None:
            return
        match body:
            case Ack():
                self._asking.on_ack(pending, now)
            case Lost():
                self._asking.on_lost(pending, now)
            case Told():
                self._asking.on_told(pending, body, now)
            case Resolved():
                self._pass_targets(pending.task, self._asking.on_resolved(pending, body, now))
            case _:
                assert_never(body)

    def _hear_asker(self, link: LinkState, body: Check | End, now: float) -> None:
        """A peer still waits for a question, or no longer."""
        task: Task | None = link.held.get(body.number)
        if isinstance(body, End):
            if task is not None:
                self._forget(task, now, stops=body.stops)
            return
        self._links.send(link, Lost(body.number) if task is None else Ack(body.number))
        until = now + min(body.lease_ms / 1000, bounds.LEASE_S)
        if task is not None and until >= task.lease_ends_at + bounds.RENEW_S_MIN:
            self._lease(task, until)
            self._renew(task, now)

    def _lease(self, task: Task, until: float) -> None:
        task.leased_until = until
        self._due.plan(task, "lease_ends_at", until)

    def _renew(self, task: Task, now: float) -> None:
        """The issuer still waits: tell the nodes that were asked, and what acts here."""
        self._asking.renew(task, now)
        self._acting.renew(task, now)

    # -- new orders ---------------------------------------------------------------------------------------

    def _issue(self, event: Issue, now: float) -> None:
        order, targets = event.order, event.order.targets
        is_full = len(self._tasks) >= bounds.ORDERS_MAX or len(self._own_tags) >= bounds.ORDERS_OF_ONE_MAX
        cause = BUSY if is_full else ("" if order_fits(order) else TOO_LARGE)
        if cause:
            answer = unasked(cause, targets, self._tree.every())
            self._links.actions.append(Finished(order.tag, answer))
            return
        self._begin(order, None, targets, climbs=True, attempt=0, left_s=event.left_s, now=now)

    def _cancel(self, tag: Tag, now: float) -> None:
        """End an order of this node with what is known."""
        task = next((each for each in self._tasks if each.asker is None and each.order.tag == tag), None)
        if task is None:
            return
        if task.is_every and not task.is_resolved:
            task.lacks = CANCELLED
        task.miss(task.unexplained, CANCELLED)
        self._finish(task, now)

    def _asked(self, link: LinkState, ask: Ask, now: float) -> None:
        order, part = ask.order, Ranges.unflat(ask.part)
        targets = order.targets
        if ask.number in link.held:
            self._links.dropped["asked twice"] += 1
            return
        cause = self._refusal(link, ask, part, targets)
        if cause:
            self._links.dropped[cause] += 1
            lacks = cause if ask.climbs else ""
            for each in told_frames(ask.number, Fold(self._room), {cause: part}, lacks):
                self._links.send(link, each)
            return
        self._links.send(link, Ack(ask.number))
        is_every = ask.climbs and targets is None
        self._begin(
            order,
            Asker(link, ask.number),
            None if is_every else part,
            climbs=ask.climbs,
            attempt=ask.attempt,
            left_s=ask.left_ms / 1000,
            now=now,
            passed=ask.passed,
            lease_s=ask.lease_ms / 1000,
        )

    def _refusal(self, link: LinkState, ask: Ask, part: Ranges, targets: Ranges | None) -> str:
        """Why a question is not taken; "": it is."""
        is_wrong_way = link.role is (Role.LEADER if ask.climbs else Role.SUBORDINATE)
        if is_wrong_way or (targets is not None and part - targets):
            return REFUSED
        if self._tree.position in ask.passed or len(ask.passed) >= bounds.PASSED_MAX:
            return NO_COORDINATOR  # it would climb in a circle
        return BUSY if self._is_full(ask.order) else ""

    @property
    def _own_tags(self) -> set[Tag]:
        """Of the orders of commands here."""
        return {each.order.tag for each in self._tasks if each.asker is None}

    def _is_full(self, order: Order) -> bool:
        """Whether there is no place for the order of another node. One of a command here may come back from above."""
        own = self._own_tags
        others = [each.order.issuer for each in self._tasks if each.order.tag not in own]
        if order.tag in own:
            return len(self._tasks) >= bounds.ORDERS_MAX
        return len(others) >= bounds.ORDERS_OF_OTHERS_MAX or others.count(order.issuer) >= bounds.ORDERS_OF_ONE_MAX

    def _begin(
        self,
        order: Order,
        asker: Asker | None,
        part: Ranges | None,
        *,
        climbs: bool,
        attempt: int,
        left_s: float,
        now: float,
        passed: tuple[Position, ...] = (),
        lease_s: float = bounds.LEASE_S,
    ) -> None:
        left_s = min(left_s, bounds.LEFT_MS_MAX / 1000)
        task = Task(
            order,
            asker,
            part,
            climbs=climbs,
            attempt=attempt,
            began_at=now,
            until=now + left_s,
            room=self._room,
            passed=passed,
        )
        self._tasks[task] = None
        if asker is None:
            self._due.plan(task, "renew_at", now + bounds.RENEW_S)
        else:
            asker.link.held[asker.number] = task
            self._lease(task, now + min(lease_s, bounds.LEASE_S))
        self._due.plan(task, "until", now + left_s)
        self._routing.start(task, now)
        self._touch(task)

    # -- answers ------------------------------------------------------------------------------------------

    def _tell_own(self, task: Task, outcome: Outcome) -> None:
        """The node's own outcome."""
        own = Ranges.of((self._tree.position,))
        if outcome.cause:
            task.miss(own, outcome.cause)
        elif task.take(own):
            task.fold.add(outcome.result, own)
        self._touch(task)

    def _pass_targets(self, task: Task, targets: Ranges) -> None:
        """Tell the asker the targets of an order for all members: only with the last part they are all."""
        if task.asker is not None:
            parts = list(targets.chunks(bounds.ITEMS_BYTES_MAX))
            for number, part in enumerate(parts, 1):
                lacks = task.lacks if number == len(parts) else task.lacks or NO_COORDINATOR
                self._links.send(task.asker.link, Resolved(task.asker.number, part.flat(), lacks))

    def _settle_all(self, now: float) -> None:
        """End the tasks that are complete, and plan to pass on what is new of others."""
        touched = self._asking.touched
        while touched:
            task = next(iter(touched))
            del touched[task]
            if task.is_over:
                continue
            self._routing.plan_look(task, now)
            is_told = task.is_resolved and not task.remaining and not (task.is_every and task.lacks)
            if is_told or not (task.is_waiting or self._routing.waits(task, now)):
                self._finish(task, now)
            elif task.has_news and (at := task.next_flush_at(now)) < task.flush_at:
                self._due.plan(task, "flush_at", at)

    def _flush(self, task: Task, now: float) -> None:
        """Pass on the results so far, and the nodes that are gone from here: the coordinator looks for them."""
        task.flushed_at, task.has_news = now, False
        if task.asker is None:
            self._links.actions.append(Progress(task.order.tag, task.answer()))
            return
        gone = task.new_gone
        for each in told_frames(task.asker.number, task.fold, gone, is_last=False):
            self._links.send(task.asker.link, each)
        for nodes in gone.values():
            task.told_gone |= nodes
        task.fold.clear()

    def _finish(self, task: Task, now: float) -> None:
        """Answer for all targets: those without result get a cause."""
        if task.is_queued and (task.unexplained or not task.is_resolved):
            task.lacks = task.lacks or BUSY
            task.miss(task.unexplained, BUSY)
        task.explain()
        self._routing.grow_up(task, now)
        if task.asker is None:
            if task.is_every and (task.lacks or not task.is_resolved):
                self._routing.miss_others(task)
            self._links.actions.append(Finished(task.order.tag, task.answer()))
        else:
            lacks = task.lacks or ("" if task.is_resolved else NO_COORDINATOR)
            for each in told_frames(task.asker.number, task.fold, task.untold_missing, lacks):
                self._links.send(task.asker.link, each)
        self._forget(task, now, stops=task.asker is None)

    def _forget(self, task: Task, now: float, *, stops: bool = False) -> None:
        """Nothing is told of it any more. `stops`: its issuer waits no longer."""
        task.is_over = True
        self.ended.append((task.overview(now), now))
        task.fold.clear()
        if task.asker is not None:
            task.asker.link.held.pop(task.asker.number, None)
        self._due.forget(task, TIMES_OF_TASK)
        self._acting.forget(task, stops=stops)
        self._asking.forget(task, now, stops=stops)
        self._tasks.pop(task, None)
        self._routing.leave((task,), now)
