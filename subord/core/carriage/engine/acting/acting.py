"""The node's own part of an order: it acts at most once on a tag, and every question gets the outcome.

Inputs are orders that are for this node, and what disk and service say; outputs are Note, Act, and outcomes for the
tasks that wait. Invariants: a service with effects is acted on only after its tag is on the disk; an order gets
the outcome of no other order, though it has the same tag.
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting.service_orders import digest_of
from subord.core.carriage.engine.acting.tags import Step, Tags
from subord.core.carriage.engine.causes import CANCELLED, EXPIRED, NO_JOURNAL, NOT_OFFERED
from subord.core.carriage.engine.frames import Tag
from subord.core.carriage.engine.interface import Act, Action, Note, Outcome, Renew, Services, Stop
from subord.core.carriage.engine.tasks import Task

Tell = Callable[[Task, Outcome], None]


class Acting:
    """The services of one node. `tell` takes the node's own outcome for a task."""

    def __init__(self, services: Services, tags: Tags, actions: list[Action], tell: Tell) -> None:
        self.tags = tags
        self.waiting: dict[Tag, list[Task]] = {}
        self.noting: dict[Tag, Task] = {}
        self._services = services
        self._actions = actions
        self._tell = tell

    def begin(self, task: Task, now: float) -> None:
        """The order of the task is for this node, too."""
        order = task.order
        service = self._services.get(order.service)
        if service is None:
            self._tell(task, Outcome(cause=NOT_OFFERED))
            return
        if now >= task.until:  # this node is late
            self._tell(task, Outcome(cause=EXPIRED))
            return
        step, outcome = self.tags.begin(order.tag, digest_of(order), task.until, has_effects=service.has_effects)
        if step is Step.TELL:
            self._tell(task, outcome)
            return
        task.acts = True
        self.waiting.setdefault(order.tag, []).append(task)
        if step is Step.WAIT:
            self.renew(task, now)
        elif service.has_effects:
            self.noting[order.tag] = task
            self._actions.append(Note(order.tag, task.until - now + bounds.TAG_KEEP_S))
        else:
            self._act(task, now)

    def _act(self, task: Task, now: float) -> None:
        lease_s = max(each.lease_s(now) for each in (task, *self.waiting.get(task.order.tag, ())))
        self._actions.append(Act(task.order, max(0.0, task.until - now), task.source, lease_s))

    def renew(self, task: Task, now: float) -> None:
        """The issuer still waits."""
        tag = task.order.tag
        if task.acts and tag not in self.noting and self._services[task.order.service].has_effects:
            self._actions.append(Renew(tag, task.lease_s(now)))

    def noted(self, tag: Tag, now: float, *, ok: bool) -> None:
        """The disk has the tag, or has refused it."""
        task = self.noting.pop(tag, None)
        if task is None:
            return
        if ok:
            self._act(task, now)
        else:
            self.acted(tag, Outcome(cause=NO_JOURNAL))

    def acted(self, tag: Tag, outcome: Outcome, *, begun: bool = True) -> None:
        """The service has ended; or, unless it has `begun`, refused the order."""
        outcome = self.tags.end(tag, outcome)
        if not begun:
            self.tags.free(tag)
        for task in self.waiting.pop(tag, ()):
            task.acts = False
            self._tell(task, outcome)

    def forget(self, task: Task, *, stops: bool) -> None:
        """The task is over; what runs goes on, and its outcome is kept for a later question. `stops`: it goes on only
        if another task waits for it."""
        tag = task.order.tag
        waiting = self.waiting.get(tag)
        if waiting is None or task not in waiting:
            return
        waiting.remove(task)
        if waiting:
            return
        del self.waiting[tag]
        if not stops:
            return
        if self.noting.pop(tag, None) is not None:
            self.acted(tag, Outcome(cause=CANCELLED))
        elif self._services[task.order.service].has_effects:
            self._actions.append(Stop(tag))

    def expire(self, now: float) -> None:
        """Drop what is kept no longer."""
        self.tags.expire(now)
        for tag in [each for each in self.noting if each not in self.tags]:
            del self.noting[tag]
