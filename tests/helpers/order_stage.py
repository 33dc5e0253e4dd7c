"""A few engines of orders on a stage: a given tree, a network of one millisecond, and every frame as a line of text.

The tree is what the stage says, at all nodes at once. A stopped node takes nothing until it continues; a killed one
loses all, and its streams end. Nodes act at once unless the stage makes them slow.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import count
from math import inf

from subord.core.carriage.engine.causes import CANCELLED, DOWN, OLDER, UNKNOWN
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Action,
    Answer,
    Arrived,
    CallDirect,
    Cancel,
    Closed,
    Event,
    Finished,
    HangUp,
    Issue,
    Link,
    Note,
    Noted,
    Offered,
    Opened,
    Outcome,
    Role,
    Stop,
    Transmit,
    Wakeup,
)
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.engine.tree import Split
from subord.core.view import Position
from subord.sim.services import words

DELAY_S = 0.001
SERVICES = {"read": Offered(), "write": Offered(has_effects=True)}


class StageTree:
    """The tree of the stage as one node sees it."""

    def __init__(self, stage: Stage, position: Position) -> None:
        self._stage = stage
        self.position = position
        self.incarnation = stage.lives[position]

    @property
    def leader(self) -> Position | None:
        return self._stage.leaders.get(self.position) or None

    @property
    def is_root(self) -> bool:
        return self.leader is None

    @property
    def path(self) -> tuple[Position, ...]:
        return tuple(reversed(self._stage.above(self.position)))

    def quiet_s(self, now: float) -> float:
        return now - self._stage.changed_at

    def is_settled(self, now: float) -> bool:
        return self.is_root and now >= self._stage.young_until

    def every(self) -> Ranges:
        listed = (each for each in self._stage.leaders if self._via(each) or each == self.position)
        return Ranges.of((*listed, *self._down))

    @property
    def _down(self) -> set[Position]:
        return self._stage.down.get(self.position, set())

    def _via(self, position: Position) -> Position | None:
        """The own subordinate whose branch has it."""
        chain = [position, *self._stage.above(position)]
        return chain[chain.index(self.position) - 1] if self.position in chain[1:] else None

    def split(self, targets: Ranges) -> Split:
        below, absent = defaultdict[Position, list[Position]](list), defaultdict[str, list[Position]](list)
        for each in targets:
            via = self._via(each)
            if each in self._stage.missing | self._down:
                absent[DOWN].append(each)
            elif each in self._stage.unlisted.get(self.position, ()):
                absent[UNKNOWN].append(each)
            elif via is not None:
                below[via].append(each)
            elif each != self.position:
                absent[UNKNOWN].append(each)
        shared = {via: Ranges.of(nodes) for via, nodes in below.items()}
        return Split(self.position in targets, shared, {cause: Ranges.of(nodes) for cause, nodes in absent.items()})

    def split_below(self, top: Position, targets: Ranges) -> Mapping[Position, Ranges]:
        below = defaultdict[Position, list[Position]](list)
        for each in targets:
            chain = [each, *self._stage.above(each)]
            if top in chain[1:]:
                below[chain[chain.index(top) - 1]].append(each)
        return {via: Ranges.of(nodes) for via, nodes in below.items()}

    def moved_since(self, position: Position, at: float) -> bool:
        chain = (position, *self._stage.above(position))
        return any(self._stage.moved_at.get(each, -inf) >= at for each in chain)


class Stage:
    """`leaders`: by subordinate; 0: none. `older`: nodes that know no orders."""

    def __init__(
        self, leaders: dict[Position, Position], *, older: frozenset[Position] = frozenset(), acks: bool = False
    ) -> None:
        self.leaders = leaders
        self.older = older
        self.now = 0.0
        self.changed_at = -inf
        self.young_until = -inf
        """Until when a root may not know all members."""
        self.moved_at: dict[Position, float] = {}
        self.missing: set[Position] = set()
        self.unlisted: dict[Position, set[Position]] = {}
        """By node: those below it that it has not heard of yet."""
        self.down: dict[Position, set[Position]] = {}
        """By node: those that its register has as down, and that no roster lists."""
        self.stopped: dict[Position, list[tuple[Position, Event]]] = {}
        self.lives = dict.fromkeys(leaders, 1)
        self.act_s: dict[Position, float] = {}
        self.twice: set[Position] = set()
        """Nodes whose answers arrive twice."""
        self.lines: list[str] = []
        self.answers: list[Answer] = []
        self.answers_to = defaultdict[Position, list[Answer]](list)
        self.acted: list[tuple[Position, bytes]] = []
        self.engines: dict[Position, Engine] = {}
        self._acks = acks
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = count()
        self._links: dict[tuple[Position, Link], tuple[Position, Link]] = {}
        self._opening: dict[tuple[Position, Link], list[bytes]] = {}
        """Streams of their own that are not open yet, and what was sent on them meanwhile."""
        self._number = count(1)
        for each in leaders:
            if each not in older:
                self.engines[each] = Engine(StageTree(self, each), SERVICES)
        for each, leader in leaders.items():
            if leader:
                self.join(each, leader)

    def above(self, position: Position) -> list[Position]:
        """The leaders above, the nearest first."""
        found: list[Position] = []
        while leader := self.leaders.get(position, 0):
            found.append(leader)
            position = leader
        return found

    # -- the tree -----------------------------------------------------------------------------------------

    def join(self, position: Position, leader: Position) -> None:
        """Open an edge."""
        number = next(self._number)
        up, down = ("up", number), ("down", number)
        self._links[position, up], self._links[leader, down] = (leader, down), (position, up)
        for each, link, peer, role in (
            (position, up, leader, Role.LEADER),
            (leader, down, position, Role.SUBORDINATE),
        ):
            self.feed(each, Opened(link, peer, role, self.lives[peer], peer in self.engines, 2 * DELAY_S))

    def part(self, position: Position, peer: Position) -> None:
        """Close the edges between two nodes."""
        for (mine, link), (other, far) in list(self._links.items()):
            if (mine, other) == (position, peer):
                del self._links[mine, link], self._links[other, far]
                self.feed(mine, Closed(link))
                self.feed(other, Closed(far))

    def move(self, position: Position, leader: Position) -> None:
        """A node changes its leader."""
        self.part(position, self.leaders[position])
        self.leaders[position] = leader
        self.moved_at[position] = self.changed_at = self.now
        self.missing.discard(position)
        if leader:
            self.join(position, leader)

    def kill(self, position: Position) -> None:
        """A process dies; the tree goes on to list those below it below it, until they move."""
        self.engines.pop(position, None)
        for each in [each for each in self.leaders if self.leaders[each] == position] + [self.leaders[position]]:
            if each:
                self.part(position, each)
        for (mine, link), (other, far) in list(self._links.items()):
            if mine == position:
                self._links.pop((mine, link), None)
                self._links.pop((other, far), None)
                self.at(DELAY_S, lambda other=other, far=far: self.feed(other, Closed(far)))
        self.missing.add(position)

    def stop(self, position: Position) -> None:
        self.stopped[position] = []

    def go_on(self, position: Position) -> None:
        for target, event in self.stopped.pop(position):
            self.feed(target, event)
        self.feed(position, Wakeup())

    # -- events -------------------------------------------------------------------------------------------

    def issue(self, position: Position, targets: Ranges | None, service: str = "read", left_s: float = 5.0) -> None:
        tag = b"%016d" % next(self._number)
        self._last = position, Cancel(tag)
        authority = b"signed" if SERVICES[service].has_effects else b""
        self.feed(position, Issue(order_of(tag, service, b"", targets, position, authority=authority), left_s))

    def cancel(self) -> None:
        """The command of the last order ends."""
        self.feed(*self._last)

    def at(self, after_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + after_s, next(self._tie), act))

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            deadline, position = min(
                ((e.deadline, p) for p, e in self.engines.items() if p not in self.stopped), default=(inf, 0)
            )
            at = self._heap[0][0] if self._heap else inf
            if min(at, deadline) > until:
                break
            if at <= deadline:
                self.now = max(self.now, at)
                heapq.heappop(self._heap)[2]()
            else:
                self.now = max(self.now, deadline)
                self.feed(position, Wakeup())
        self.now = until

    def feed(self, position: Position, event: Event) -> None:
        if position in self.stopped:
            self.stopped[position].append((position, event))
            return
        engine = self.engines.get(position)
        for action in engine.handle(event, self.now) if engine is not None else ():
            self._carry_out(position, action)

    def _say(self, text: str) -> None:
        self.lines.append(f"{self.now:.3f} {text}")

    def _carry_out(self, position: Position, action: Action) -> None:
        match action:
            case Transmit():
                self._transmit(position, action)
            case CallDirect():
                self._say(f"{position} => {action.peer}  {words.of_data(action.data)}")
                self._opening[position, action.link] = []
                self.at(3 * DELAY_S, lambda: self._connect(position, action))
            case HangUp():
                self.at(DELAY_S, lambda: self._hung_up(position, action.link))
            case Note():
                self.at(0.0, lambda: self.feed(position, Noted(action.tag)))
            case Act():
                self.acted.append((position, action.order.tag))
                after_s = self.act_s.get(position, 0.0)
                self.at(after_s, lambda: self.feed(position, Acted(action.order.tag, Outcome(b"ok"))))
            case Stop():
                self._say(f"{position} {words.of_action(action)}")
                self.at(0.0, lambda: self.feed(position, Acted(action.tag, Outcome(cause=CANCELLED))))
            case _:
                self._say(f"{position} {words.of_action(action)}")
                if isinstance(action, Finished):
                    self.answers.append(action.answer)
                    self.answers_to[position].append(action.answer)

    def _transmit(self, position: Position, action: Transmit) -> None:
        opening = self._opening.get((position, action.link))
        if opening is not None:
            opening.append(action.data)
        far = self._links.get((position, action.link))
        if far is None:
            return
        text = words.of_data(action.data)
        if self._acks or not text.startswith("ack"):
            self._say(f"{position} -> {far[0]}  {text}")
        for _ in range(1 + (position in self.twice and text.startswith("told"))):
            self.at(DELAY_S, lambda: self._arrive(position, action.link, far, action.data))

    def _arrive(self, source: Position, link: Link, far: tuple[Position, Link], data: bytes) -> None:
        if self._links.get((source, link)) == far:
            self.feed(far[0], Arrived(far[1], data))

    def _hung_up(self, position: Position, link: Link) -> None:
        """What was sent before has arrived."""
        far = self._links.pop((position, link), None)
        if far is not None:
            self._links.pop(far, None)
            self.feed(far[0], Closed(far[1]))

    def _connect(self, position: Position, action: CallDirect) -> None:
        peer, waiting = action.peer, self._opening.pop((position, action.link))
        if peer not in self.engines:
            self.feed(position, Closed(action.link, OLDER if peer in self.older else DOWN))
            return
        link = ("in", next(self._number))
        self._links[position, action.link], self._links[peer, link] = (peer, link), (position, action.link)
        self.feed(peer, Opened(link, position, Role.CALLER, self.lives[position]))
        for data in (action.data, *waiting):
            self.feed(peer, Arrived(link, data))
