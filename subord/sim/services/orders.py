"""The engine of orders in every node of a simulated cluster: it plays the driver of the daemon.

Inputs are ends of processes and streams (world/observers.py), and orders; outputs are events for the engines, and
what they do for the judge. Times of an engine are those of its node's own clock. Invariant: a tag that a node has
noted is on its disk before it acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from random import Random
from typing import Any, Final, Protocol

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.causes import DOWN, OLDER, SILENT
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Ask, Order, Tag, encode
from subord.core.carriage.engine.interface import (
    Act,
    Acted,
    Action,
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
    PartAction,
    PartEvent,
    Progress,
    Renew,
    Role,
    Stop,
    Transmit,
    Wakeup,
)
from subord.core.carriage.engine.parts import Part
from subord.core.carriage.engine.ranges import Ranges
from subord.core.roster_tree import RosterTree, tree_of
from subord.core.view import Position
from subord.sim.services import words
from subord.sim.services.agents import Agents
from subord.sim.services.judge import Judge
from subord.sim.services.lease_judge import LeaseJudge
from subord.sim.services.lies import Liar
from subord.sim.services.pipes import End, Pipes
from subord.sim.services.truth import LEASED, READ, WRITE, result_of
from subord.sim.world.observers import Carried
from subord.sim.world.world import World

SERVICES: Final = {READ: Offered(), WRITE: Offered(has_effects=True), LEASED: Offered(has_effects=True)}
DISK_S: Final = 0.002
REPLAY_S: Final = 0.5  # after a start: a member asks for what the former life has done
CONNECT_S_MAX: Final = 3.0
TICK_S: Final = 1e-6
WAKEUP: Final = Wakeup()


class Side(Protocol):
    """A part of every engine, and what carries out its actions."""

    @property
    def actions(self) -> tuple[type[PartAction], ...]: ...
    @property
    def sizes_max(self) -> Mapping[str, int]:
        """C4: bounds of the tables of the part, by name."""

    def part_of(self, position: Position, tree: RosterTree) -> Part:
        """Of a life that begins."""

    def lose(self, position: Position) -> None:
        """Another host, with an empty disk, has the address from now on."""

    def carry_out(self, position: Position, engine: Engine, action: Any) -> None: ...
    def handled(self, position: Position) -> None:
        """An event is over; check what must hold at every moment."""


class Orders(Carried):
    """The engines of one world. `older`: nodes of a release without orders. `liars`: by position."""

    is_there = True

    def __init__(self, world: World, judge: Judge, chance: Random) -> None:
        self.engines: dict[Position, Engine] = {}
        self.older: set[Position] = set()
        self.liars: dict[Position, Liar] = {}
        self.act_s: Callable[[Tag], float] = lambda _tag: 0.0
        """How long acting on a tag takes; infinity: it never ends."""
        self.say: Callable[[str], None] | None = None
        self._world = world
        self._judge = judge
        self._ends: dict[Position, dict[Link, End]] = {}
        self._edges: dict[tuple[Position, Position], tuple[End, End]] = {}
        self._links = count(1)
        self._wake_at: dict[Position, float] = {}
        self._disks: dict[Position, dict[Tag, float]] = {}
        self._written: dict[Position, Order] = {}
        """The last order with effects that each node has acted on, in any of its lives."""
        self._sides: list[Side] = []
        """What else rides on the links of orders."""
        self._leased: set[Tag] = set()
        judge.engine_of = self.engines.get
        self.leases = LeaseJudge(world, judge)
        self._agents = Agents(world, self.leases, self.feed)
        self._pipes = Pipes(world, chance, deliver=self._deliver, is_alive=self._is_alive)

    def add(self, side: Side) -> None:
        """A part of every engine that begins from now on."""
        self._sides.append(side)
        self._judge.sizes_max.update(side.sizes_max)

    # -- lives ------------------------------------------------------------------------------------------

    def begin(self, position: Position) -> None:
        self._ends[position] = {}
        self._judge.started(position)
        if position in self.older:
            return
        now = self._world.clock(position)
        over = [(tag, until - self._world.now) for tag, until in self._disks.get(position, {}).items()]
        node, members = self._world.nodes[position], self._world.members
        tree = tree_of(node, None if members is None else members.of[position])
        parts = [each.part_of(position, tree) for each in self._sides]
        self.engines[position] = Engine(tree, SERVICES, over=over, parts=parts, now=now)
        self._wake_at[position] = inf
        if position in self._written:
            self._world.after(REPLAY_S, self._replay, position, self._written[position])

    def end(self, position: Position) -> None:
        self.engines.pop(position, None)
        is_gone = position not in self._world.hosts
        if is_gone:
            self._agents.lose(position, disk=False)
        for end in self._ends.pop(position, {}).values():
            if isinstance(end.link, tuple):  # a stream of its own; edges are closed by the world
                self._pipes.close(end, is_told=not is_gone)

    def lose(self, position: Position) -> None:
        self._disks.pop(position, None)
        self._written.pop(position, None)
        self._judge.replaced(position)
        self._agents.lose(position, disk=True)
        for each in self._sides:
            each.lose(position)

    def resumed(self, position: Position) -> None:
        if position in self.engines:
            self._judge.resumed(position)
            for end in list(self._ends[position].values()):
                self._pipes.pump(end)
            self.wake(position)

    def _is_alive(self, end: End) -> bool:
        return end.engine is not None and self.engines.get(end.position) is end.engine

    # -- streams ----------------------------------------------------------------------------------------

    def opened(self, position: Position, leader: Position) -> None:
        self.closed(position, leader, is_told=True)  # of a former one nothing may be left
        number = next(self._links)
        ends = self._end(position, ("up", number)), self._end(leader, ("down", number))
        self._edges[position, leader] = ends
        self._pipes.join(*ends)
        for end, role in zip(ends, (Role.LEADER, Role.SUBORDINATE), strict=True):
            self._tell_opened(end, role)

    def has_edge(self, position: Position, leader: Position) -> bool:
        """Whether the stream to the leader is open; after many ends a process waits long before the next."""
        return (position, leader) in self._edges

    def measure(self) -> None:
        """The kernels measure all edges again, as each digest on an idle edge lets them."""
        for ends in self._edges.values():
            for end, role in zip(ends, (Role.LEADER, Role.SUBORDINATE), strict=True):
                self._tell_opened(end, role)

    def _end(self, position: Position, link: Link) -> End:
        end = End(position, self.engines.get(position), link)
        self._ends.setdefault(position, {})[link] = end
        return end

    def _tell_opened(self, end: End, role: Role) -> None:
        other = end.other
        assert other is not None
        peer = other.position
        node = self._world.nodes.get(peer)
        opened = Opened(
            end.link,
            peer,
            role,
            0 if node is None else node.context.incarnation,
            other.engine is not None,
            self._pipes.round_trip_s(end.position, peer),
        )
        self._pipes.put(end, opened, 0.0)

    def closed(self, source: Position, target: Position, *, is_told: bool) -> None:
        for pair in ((source, target), (target, source)):
            ends = self._edges.pop(pair, None)
            if ends is None:
                continue
            mine = ends[0] if pair[0] == source else ends[1]
            if mine.is_open:
                self._tell_closed(mine)
            self._forget(mine)
            self._pipes.close(mine, is_told=is_told)

    def _tell_closed(self, end: End) -> None:
        """A process reads that its own stream has ended, a stopped one when it continues."""
        if not self._is_alive(end):
            return
        if end.position in self._world.paused:
            self._world.after(0.1, self._tell_closed, end)
        else:
            self._feed(end.position, Closed(end.link))

    def _forget(self, end: End) -> None:
        self._ends.get(end.position, {}).pop(end.link, None)

    def _deliver(self, end: End, event: Event) -> None:
        if isinstance(event, Closed):
            self._forget(end)
        liar = self.liars.get(end.position)
        if liar is not None and isinstance(event, Arrived):
            liar.hears(event.link, event.data)
        self._feed(end.position, event)

    # -- events and actions -----------------------------------------------------------------------------

    def issue(self, position: Position, order: Order, left_s: float) -> None:
        """A command of a node gives an order."""
        if order.service == LEASED:
            self._leased.add(order.tag)
        self._feed(position, Issue(order, left_s))

    def cancel(self, position: Position, engine: Engine, tag: Tag) -> None:
        """The command of an order ends before its answer."""
        self.feed(position, engine, Cancel(tag))

    def feed(self, position: Position, engine: Engine, event: PartEvent | Cancel | Noted | Acted) -> None:
        """An event, as soon as the process of the engine runs; not if it has ended."""
        if self.engines.get(position) is not engine:
            return
        if position in self._world.paused:
            self._world.after(0.1, self.feed, position, engine, event)
        else:
            self._feed(position, event)

    def wake(self, position: Position) -> None:
        engine = self.engines.get(position)
        if engine is not None and position not in self._world.paused:
            self._feed(position, WAKEUP)

    def _feed(self, position: Position, event: Event) -> None:
        engine = self.engines.get(position)
        if engine is None:
            return
        assert position not in self._world.paused, f"{position} is stopped and takes no {event}"
        now = self._world.clock(position)
        for action in engine.handle(event, now):
            self._carry_out(position, engine, action)
        self._judge.handled(position, engine)
        for each in self._sides:
            each.handled(position)
        self._plan(position, engine)

    def _plan(self, position: Position, engine: Engine) -> None:
        world, deadline = self._world, engine.deadline
        if deadline == inf or self.engines.get(position) is not engine:
            return
        at = world.now + max(TICK_S, deadline - world.clock(position))
        if at < self._wake_at[position] or self._wake_at[position] <= world.now:
            self._wake_at[position] = at
            world.after(at - world.now, self._fire, position, engine, at)

    def _fire(self, position: Position, engine: Engine, at: float) -> None:
        if self.engines.get(position) is not engine or self._wake_at[position] != at:
            return
        self._wake_at[position] = inf
        if position not in self._world.paused:
            if engine.deadline <= self._world.clock(position):
                self._feed(position, WAKEUP)
            else:
                self._plan(position, engine)

    def _carry_out(self, position: Position, engine: Engine, action: Action) -> None:
        if self.say is not None and (text := words.of_action(action)):
            self.say(f"{position}: {text}")
        match action:
            case Transmit():
                self._transmit(position, action)
            case CallDirect():
                self._call(position, action)
            case HangUp():
                self._hang_up(position, action.link)
            case Note():
                self._note(position, engine, action)
            case Act():
                self._act(position, engine, action)
            case Renew():
                self._agents.renew(position, action.tag, action.lease_s)
            case Stop():
                self._agents.stop(position, action.tag)
            case Progress():
                self._judge.progress(position, action.answer)
            case Finished():
                self._judge.finished(position, action.tag, action.answer)
            case PartAction():
                next(each for each in self._sides if isinstance(action, each.actions)).carry_out(
                    position, engine, action
                )

    def _transmit(self, position: Position, action: Transmit) -> None:
        end = self._ends[position].get(action.link)
        assert len(action.data) <= bounds.FRAME_BYTES_MAX
        if end is None:
            return
        liar = self.liars.get(position)
        for data in (action.data,) if liar is None else liar.says(action.link, action.data):
            if end.other is None:
                end.early.append(data)
            else:
                self._send(end, end.other, data)

    def _send(self, end: End, other: End, data: bytes) -> None:
        if self.say is not None:
            self.say(f"{end.position} -> {other.position}  {words.of_data(data)}")
        self._pipes.send(end, Arrived(other.link, data))

    # -- streams of their own -----------------------------------------------------------------------------

    def _call(self, position: Position, action: CallDirect) -> None:
        """Open a stream: three ways through the network, or a refusal."""
        mine = self._end(position, action.link)
        delay_s = 3 * self._pipes.delay_s(position, action.peer)
        self._world.after(delay_s, self._connect, mine, action)

    def _connect(self, mine: End, action: CallDirect) -> None:
        world, peer = self._world, action.peer
        if not self._is_alive(mine) or mine.link not in self._ends[mine.position]:
            return
        weather = world.weather
        reach = weather.is_open(mine.position, peer, stream=True) and weather.is_open(
            peer, mine.position, stream=True
        )
        if not reach or (peer not in world.nodes and peer not in world.hosts):
            world.after(CONNECT_S_MAX, self._fail, mine, SILENT)
        elif peer not in world.nodes:
            self._fail(mine, DOWN)
        elif peer not in self.engines:
            self._fail(mine, OLDER)
        else:
            theirs = self._end(peer, ("in", next(self._links)))
            self._pipes.join(mine, theirs)
            mine.last_at = world.now
            self._tell_opened(theirs, Role.CALLER)
            for data in (action.data, *mine.early):
                self._pipes.put(theirs, Arrived(theirs.link, data), 0.0)
            mine.early.clear()

    def _fail(self, mine: End, cause: str) -> None:
        if self._is_alive(mine) and mine.is_open and mine.link in self._ends[mine.position]:
            if mine.position in self._world.paused:
                self._world.after(CONNECT_S_MAX, self._fail, mine, cause)
                return
            self._forget(mine)
            self._feed(mine.position, Closed(mine.link, cause))

    def _hang_up(self, position: Position, link: Link) -> None:
        end = self._ends[position].pop(link, None)
        if end is not None:
            self._pipes.close(end, is_told=True)

    def _replay(self, position: Position, order: Order) -> None:
        """A member repeats an old order over a stream of its own."""
        others = [each for each in self._world.nodes if each != position]
        if position not in self.engines or not others:
            return
        mine, theirs = End(others[0], None, "replay"), self._end(position, ("in", next(self._links)))
        self._pipes.join(mine, theirs)
        self._tell_opened(theirs, Role.CALLER)
        ask = Ask(1, False, 0, 1000, Ranges.of((position,)).flat(), order)
        incarnation = self._world.nodes[others[0]].context.incarnation
        self._pipes.put(theirs, Arrived(theirs.link, encode(incarnation, 0, ask)), 0.0)

    # -- acting -------------------------------------------------------------------------------------------

    def _note(self, position: Position, engine: Engine, note: Note) -> None:
        if note.tag in self._leased:  # the agent has a journal of its own
            self._world.after(0.0, self.feed, position, engine, Noted(note.tag))
            return
        self._world.after(DISK_S, self._noted, position, engine, note)

    def _noted(self, position: Position, engine: Engine, note: Note) -> None:
        ok = self._world.disks.are_there
        if self.engines.get(position) is not engine:
            return
        if position in self._world.paused:
            self._world.after(0.1, self._noted, position, engine, note)
            return
        if ok:
            self._disks.setdefault(position, {})[note.tag] = self._world.now + note.keep_s
        self._feed(position, Noted(note.tag, ok))

    def _act(self, position: Position, engine: Engine, act: Act) -> None:
        order = act.order
        assert act.lease_s < bounds.LEASE_S + TICK_S, f"{position} has a lease of {act.lease_s} s"
        if order.service == LEASED:
            self._world.after(0.0, self._agents.act, position, engine, act, self.act_s(order.tag))
            return
        self._judge.acts(position, order)
        if order.service == WRITE:
            self._written[position] = order
        after_s = self.act_s(order.tag)
        if after_s < inf:
            acted = Acted(order.tag, Outcome(result_of(order.tag, position)))
            self._world.after(after_s, self.feed, position, engine, acted)
