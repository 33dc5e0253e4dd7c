"""Where an order goes: up to a coordinator, from there down, and again to targets that move.

Inputs are tasks and the tree; outputs are questions. An order climbs until the roster of a node has all targets, at
the latest to the root. That node, the coordinator, splits the targets over its subordinates, and asks again for those
that the roster shows elsewhere later. The issuer looks for another coordinator while it has none. Invariant: only a
coordinator says that a target is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.acting.acting import Acting
from subord.core.carriage.engine.admission import Admission
from subord.core.carriage.engine.asking import Asking
from subord.core.carriage.engine.causes import BUSY, DOWN, LEFT, MOVED, NO_COORDINATOR, SILENT, UNKNOWN, YOUNG_ROOT
from subord.core.carriage.engine.due import Due
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.engine.tasks import Task
from subord.core.carriage.engine.tree import Split, Tree
from subord.core.view import Position

MAY_MOVE = (SILENT, DOWN, MOVED, UNKNOWN, LEFT)
"""Causes of targets that may be found elsewhere."""
MAY_CLIMB = (NO_COORDINATOR, BUSY)
"""What the issuer may lack a coordinator for, and so climbs again."""


class Routing:
    """The ways of all orders of one node."""

    def __init__(self, tree: Tree, asking: Asking, acting: Acting, due: Due) -> None:
        self._tree = tree
        self._asking = asking
        self._acting = acting
        self._due = due
        self.admission = Admission(due, asking.slowness)
        self.pass_targets: Callable[[Task, Ranges], None] = lambda _task, _targets: None
        """Tells the asker the targets of an order for all members; engine.py sets it."""
        asking.climb = self.climb

    def start(self, task: Task, now: float) -> None:
        """A new task, or another attempt of the issuer."""
        task.routed_at = now
        task.lacks, task.coordinates = "", False
        if task.asker is None and not self.admission.enter(task, now):
            return
        if not task.climbs:
            self._distribute(task, self._tree.split(task.remaining), now)
            return
        if task.is_every:
            if not self._tree.is_root:
                self.climb(task, task.remaining, NO_COORDINATOR, now)
                return
            task.is_resolved = True
            task.lacks = "" if self._tree.is_settled(now) else YOUNG_ROOT
            self.pass_targets(task, task.widen(self._tree.every()))
        split = self._tree.split(task.remaining)
        if split.absent and not self._tree.is_root:
            self.climb(task, task.remaining, NO_COORDINATOR, now)
            return
        task.coordinates = True
        self.grow_up(task, now)
        if not split.below or self.admission.enter(task, now):
            self._distribute(task, split, now)

    def grow_up(self, task: Task, now: float) -> None:
        """A root that was young when it passed an order on: once it has settled, it decides whether these targets
        are all. Nodes that come later do not count."""
        if not (task.coordinates and task.lacks == YOUNG_ROOT):
            return
        if not self._tree.is_settled(now):
            if self._tree.is_root and task.young_at == inf:
                self._due.plan(task, "young_at", now + bounds.YOUNG_LOOK_S)
        elif not self._tree.every() - task.targets:
            task.lacks = ""

    def miss_others(self, task: Task) -> None:
        """Name the members that this issuer knows and that the answer does not have. A young root has not left out
        those that are down or have left."""
        task.lacks = task.lacks or NO_COORDINATOR
        task.widen(self._tree.every())
        if task.lacks == YOUNG_ROOT:
            absent = self._tree.split(task.unexplained).absent
            for cause in (DOWN, LEFT):
                task.miss(absent.get(cause, NONE), cause)
        task.miss(task.unexplained, task.lacks)

    def leave(self, tasks: Iterable[Task], now: float) -> None:
        """The tasks are over or have had their time; others that wait have their places."""
        for each in tasks:
            self.admission.leave(each, now)
        while (following := self.admission.following(now)) is not None:
            if following.coordinates and following.is_every:  # its targets are given
                self._distribute(following, self._tree.split(following.remaining), now)
            else:  # a coordinator may no longer list all targets
                self.start(following, now)
            self._asking.touched[following] = None  # it may have no node to ask

    def _distribute(self, task: Task, split: Split, now: float) -> None:
        """Ask the subordinates for their parts, and act here if the node is a target."""
        for cause, nodes in split.absent.items():
            is_known = task.coordinates or cause != UNKNOWN
            task.miss(nodes, cause if is_known else MOVED)
        for subordinate, nodes in split.below.items():
            self._ask(task, subordinate, nodes, now)
        if split.own and not task.acts:
            self._acting.begin(task, now)

    def _ask(self, task: Task, subordinate: Position, nodes: Ranges, now: float) -> None:
        task.sent[subordinate] = task.sent.get(subordinate, NONE) | nodes
        self._asking.ask(task, subordinate, nodes, now)

    # -- up -----------------------------------------------------------------------------------------------

    def climb(self, task: Task, part: Ranges, cause: str, now: float) -> None:
        """Ask the nearest node above that was not asked yet; `cause`: why the last one does not coordinate."""
        above = self._next_above(task)
        if above is None:
            if not self._asking.wait_again(task, now):
                self._stand_in(task, part, cause, now)
            return
        task.tried.add(above)
        self._asking.ask(task, above, part, now, climbs=True, direct=above != self._tree.leader)

    def _stand_in(self, task: Task, part: Ranges, cause: str, now: float) -> None:
        """No coordinator can be reached: ask the nodes of the own branch, and say that there may be others.

        The first attempts do not: a node above that is busy may acknowledge the next one, and then this work is lost.
        """
        task.lacks = cause
        if cause == NO_COORDINATOR and task.attempt < bounds.STAND_IN_ATTEMPT:
            task.miss(part, cause)
            return
        if task.is_every:
            self.pass_targets(task, task.widen(self._tree.every()))
            part = task.remaining
        split = self._tree.split(part)
        absent = Ranges.of_pairs(pair for nodes in split.absent.values() for pair in nodes.pairs)
        self._distribute(task, Split(split.own, split.below, {cause: absent}), now)

    def _next_above(self, task: Task) -> Position | None:
        leader = self._tree.leader
        if leader is not None:
            task.above = tuple(each for each in reversed(self._tree.path) if each != leader)
        elif self._tree.is_root:
            return None
        for each in task.above if leader is None else (leader, *task.above):
            if each not in task.tried and each != self._tree.position:
                return each
        return None

    # -- again --------------------------------------------------------------------------------------------

    def plan_look(self, task: Task, now: float) -> None:
        """Look again later whether targets, or a coordinator, can be found."""
        if not (task.coordinates or task.asker is None):
            return
        movable = self._movable(task)
        search = task.search
        if len(movable) > search.movable and task.attempt < bounds.ATTEMPTS_MAX:
            task.looks, search.wait_until, search.listed_until = 0, now + bounds.SETTLE_S, now + bounds.LISTED_S
        search.movable = len(movable)
        is_done = task.look_at < inf or task.looks >= bounds.LOOKS_MAX
        may_climb = task.lacks in MAY_CLIMB and not task.is_waiting
        if not is_done and (may_climb or movable):
            pause_s = min(bounds.LOOK_S * 2**task.looks, bounds.LOOK_S_MAX)
            self._due.plan(task, "look_at", now + pause_s)

    def look(self, task: Task, now: float) -> None:
        """Ask again for targets that the roster shows elsewhere, or climb again."""
        task.looks += 1
        if task.coordinates:
            self._look_for_targets(task, now)
        elif task.lacks in MAY_CLIMB and not task.is_waiting and task.attempt < bounds.ATTEMPTS_MAX:
            task.attempt += 1
            task.tried.clear()
            self.start(task, now)

    def _look_for_targets(self, task: Task, now: float) -> None:
        movable = self._movable(task)
        split = self._tree.split(movable)
        absent = Ranges.of_pairs(pair for nodes in split.absent.values() for pair in nodes.pairs)
        again = {via: self._moved(task, via, nodes, now) for via, nodes in split.below.items()}
        task.routed_at = now
        for via, nodes in again.items():
            if nodes and task.attempt < bounds.ATTEMPTS_MAX:
                task.attempt += 1
                task.search.asked_again |= nodes
                self._ask(task, via, nodes, now)
        if absent and not self._tree.is_root and self._tree.leader is not None:
            self.climb(task, absent, NO_COORDINATOR, now)

    def _moved(self, task: Task, via: Position, nodes: Ranges, now: float) -> Ranges:
        """Those that `via` was not asked for, that it does not list yet, or that have moved since they were asked
        last."""
        asked = nodes & task.sent.get(via, NONE)
        unlisted = asked & task.missing.get(MOVED, NONE) if now < task.search.listed_until else NONE
        moved = Ranges.of(each for each in asked - unlisted if self._tree.moved_since(each, task.routed_at))
        return (nodes - asked) | (unlisted - task.search.asked_again) | moved

    @staticmethod
    def _movable(task: Task) -> Ranges:
        """Targets without result that may be elsewhere by now."""
        found = NONE
        for cause in MAY_MOVE:
            found |= task.missing.get(cause, NONE)
        return found

    def waits(self, task: Task, now: float) -> bool:
        """Whether a task without open questions may still find some of its targets."""
        if task.is_queued:
            return True
        if task.look_at == inf:
            return False
        if not task.coordinates:
            return task.lacks in MAY_CLIMB
        movable = self._movable(task)
        split = self._tree.split(movable)
        if any(self._moved(task, via, nodes, now) for via, nodes in split.below.items()):
            return True
        if now >= task.search.wait_until:
            return False
        # A row that changes further down is on its way up, or the roster settles after a loss.
        is_settling = self._tree.quiet_s(now) < bounds.SETTLE_S
        return MOVED in task.missing or (is_settling and any(cause != DOWN for cause in split.absent))
