"""Plays a scenario: its steps happen to a world one after the other, watched by the checkers.

Input is a Scenario; output is Played, or a Violation. Steps that take no time, such as `slow` and `babble`, schedule
their events and return. After the last step faults end, and L1 to L10 are demanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from random import Random
from typing import assert_never

import msgspec

from subord.core.events import Performance
from subord.core.messages import Propose, Terms, Wish
from subord.core.settings import Settings
from subord.core.state.states import Phase
from subord.core.view import Position
from subord.sim.checkers import oracle, tight
from subord.sim.checkers.liveness import Healed, complaint, demand_healing, demand_wholeness
from subord.sim.checkers.members import Remembered
from subord.sim.checkers.metrics import MoveMetrics, Seen
from subord.sim.checkers.safety import Checkers
from subord.sim.scenario import definition, lasting
from subord.sim.scenario.definition import Scenario, Step
from subord.sim.scenario.lasting import Lasting
from subord.sim.strangers import Strangers
from subord.sim.violation import Violation
from subord.sim.world.bad_input import datagram
from subord.sim.world.links import Block
from subord.sim.world.members import Members
from subord.sim.world.sealed import Seals
from subord.sim.world.world import World

LOOK_EVERY_S = 0.01
QUIET_S = 1.0  # without moves, else it is not whole yet
LEAVING_S = 0.05
LOOKS_SAVED = 200  # nodes that double the time between two looks
REPLAY_SPARE_S = 10.0  # after the last delay of a replayed datagram
MISFIT_FANOUT = 1  # more than the fan-out of the cluster


def settings_of(cluster: definition.Cluster) -> Settings:
    """The settings that all nodes share. Raises ScenarioError."""
    return Settings(
        network=definition.network_of(cluster),
        fanout=cluster.fanout,
        guest_slots=cluster.guest_slots or cluster.fanout,
        mapping=cluster.mapping,
        numbering_name=cluster.numbering,
        timing_name=cluster.timing,
    )


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a scenario. Times are virtual seconds."""

    seen: tuple[Seen, ...]
    healed: Healed
    shares: dict[str, float]  # of the tight bounds that judge this cluster, by name
    lasted_s: float
    events: int
    datagrams: int


class Play:
    """One run of a scenario. `say` is called with each step as it begins."""

    def __init__(
        self,
        script: Scenario,
        *,
        checked: bool = True,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.script = script
        self.cluster = script.cluster
        self.settings = settings_of(script.cluster)
        self.world = World(self.settings, script.seed, disk=script.cluster.disk)
        self.world.seeds = definition.seeds_of(script.cluster)
        self.world.multicast = script.cluster.announce
        self._strangers = Strangers(self.world, script)
        if script.cluster.sealed:
            self.world.seals = Seals(self.world, script.seed)
            self.world.members = Members(self.world, looks=False)  # for the rings
        self._remembered = Remembered(self.world) if script.cluster.register else None
        if checked:
            self.world.watcher = Checkers(self.settings)
        self.say = say
        self.on_order: Callable[[definition.Order | definition.Answered], None] | None = None
        """Does the steps of orders; services/scripted.py sets it."""
        self._chance = Random(f"{script.seed}/play")
        self._watch = tight.Watch(self.world)
        self._metrics = MoveMetrics(self.world)
        self._seen: list[Seen] = []
        self.positions = definition.positions_of(script.cluster)
        self._faulty_until = 0.0
        self._vanished: set[Position] = set()

    def trace(self, say: Callable[[str], None]) -> None:
        """Pass a line for each step to `say`."""
        self.say = say

    def run(self) -> Played:
        """All steps, the end of all faults, then L1 to L10. Raises Violation."""
        for number, step in enumerate(self.script.steps, 1):
            self.say(f"step {number}: {_shown(step)}")
            self._do(step)
        self._end_faults()
        start = self._watch.begin()
        healed = demand_healing(self.world, tight.look_s(self.settings, start))
        shares = tight.demand(self.settings, start, self._watch.used(healed), self.world.now)
        if self._remembered is not None:
            self._remembered.demand()
        return Played(
            seen=tuple(self._seen),
            healed=healed,
            shares=shares,
            lasted_s=self.world.now,
            events=self.world.events,
            datagrams=self.world.sent.total(),
        )

    # -- steps --------------------------------------------------------------------------------------------

    def _do(self, step: Step) -> None:  # noqa: PLR0912 - one branch per step
        world, weather = self.world, self.world.weather
        match step:
            case definition.Start():
                self._start(step)
            case definition.Kill():
                self._each(step.nodes, self._crash)
            case definition.Restart():
                self._restart(step)
            case definition.Vanish():
                self._each(step.nodes, self._vanish)
            case definition.Leave():
                self._each(step.nodes, world.leave)
            case definition.Reuse():
                self._each(step.nodes, self._reuse)
            case definition.Pause():
                self._each(step.nodes, self._pause)
            case definition.Resume():
                self._each(step.nodes, self._resume, among=tuple(world.paused))
            case definition.Slow():
                self._each(step.nodes, lambda p: self._slow(p, step, world.now + step.for_s))
            case definition.Jump():
                self._each(step.nodes, lambda p: world.jump(p, step.seconds))
            case definition.Hangup():
                self._each(step.nodes, world.edges.hang_up)
            case definition.Cut():
                self._each(step.nodes, self._cut, among=self.positions)
            case definition.Block():
                self._block(step)
            case definition.Partition():
                weather.partition([self.named(group) for group in step.groups])
            case definition.Weather():
                weather.set(loss=step.loss, delay_s=step.delay_s, jitter_s=step.jitter_s, doubled=step.doubled)
            case definition.Mend():
                self._mend()
            case definition.Babble():
                self._babble(step)
            case definition.Churn():
                self._churn(step)
            case definition.Perform():
                self._perform(step)
            case definition.Dwell():
                weather.site_of.update(dict.fromkeys(self.named(step.nodes), step.site))
            case definition.Pass():
                world.run(step.s)
            case definition.Expect():
                self._expect(step)
            case definition.Order() | definition.Answered():
                self._order(step)
            case _:
                self._do_lasting(step)

    def _order(self, step: definition.Order | definition.Answered) -> None:
        assert self.on_order is not None, "attached when the scenario was read"
        self.on_order(step)

    def _do_lasting(self, step: Lasting) -> None:  # noqa: PLR0912 - one branch per step
        world = self.world
        match step:
            case lasting.Link() | lasting.Replay() | lasting.Flip():
                self._change_on_the_way(step)
            case lasting.Flap():
                self._flap(step)
            case lasting.Settle():
                self._settle(step)
            case lasting.SetBack():
                behind_s = {p: world.set_back_s.get(p, 0.0) + step.seconds for p in self.named(step.nodes)}
                world.set_back_s.update(behind_s)
            case lasting.Image():
                self._each(step.nodes, world.disks.image, among=self.positions)
            case lasting.Restore():
                self._each(step.nodes, world.disks.restore, among=self.positions)
            case lasting.Lie():
                self._each(step.nodes, lambda p: self._strangers.lie(p, step))
            case lasting.Pose():
                until = self._strangers.poses.begin(self.named(step.nodes), step)
                self._faulty_until = max(self._faulty_until, until)
            case lasting.Seize():
                self._each(step.nodes, self._seize)
            case lasting.Refit():
                named = self.named(step.nodes, tuple(world.nodes))
                self._strangers.refit(named, step)
                self._start_again(named)
            case lasting.Release():
                self._strangers.release(self.named(step.nodes), step)
            case lasting.Twin():
                self._each(step.nodes, self._strangers.twins.begin)
            case lasting.Rotate():
                self._rotate(step)
            case lasting.Forget():
                assert self._remembered is not None, "checked when the scenario was read"
                self._remembered.forget(self.named(step.nodes, self.positions))
            case _:
                assert_never(step)

    def _rotate(self, step: lasting.Rotate) -> None:
        world = self.world
        assert world.seals is not None, "checked when the scenario was read"
        named = self.named(step.nodes)
        last_s = world.seals.rings.rotate(step, self._root(), named)
        self._faulty_until = max(self._faulty_until, world.now + last_s)

    def _root(self) -> Position | None:
        return next((p for p in self.world.nodes if self.world.leader_of(p) == 0), None)

    def named(self, selector: str, among: Iterable[Position] | None = None) -> tuple[Position, ...]:
        """The nodes that a selector names, of all or of some."""
        members = self.positions if among is None else among
        return definition.select(selector, self.cluster, among=members, root=self._root())

    def _each(
        self, selector: str, act: Callable[[Position], object], among: Iterable[Position] | None = None
    ) -> None:
        """Call `act` with every named node that runs; a node may end meanwhile."""
        for position in self.named(selector, tuple(self.world.nodes) if among is None else among):
            if among is not None or position in self.world.nodes:
                act(position)

    def _start(self, step: definition.Start) -> None:
        order = [p for p in self.named(step.nodes) if p not in self.world.nodes]
        if step.order == "reverse":
            order.reverse()
        elif step.order == "random":
            self._chance.shuffle(order)
        self.world.hosts.update(order)
        for position in order:
            self._start_one(position)
            self.world.run(step.gap_s)

    def _start_one(self, position: Position) -> None:
        node = self.world.nodes.get(position)
        if node is not None and node.phase is Phase.LEAVING:
            self.world.after(LEAVING_S, self._start_one, position)  # after its goodbyes
        elif node is None:
            self.world.weather.cut.discard(position)
            address = oracle.address_of(self.settings, position)
            found = self.settings.network.position_of(address) or 0
            self.world.numbers[found] = position
            self._strangers.starts(found)
            self.world.start(found)

    def _restart(self, step: definition.Restart) -> None:
        for position in self.named(step.nodes, tuple(self.world.nodes)):
            self._crash(position)
            self.world.after(step.down_s, self._start_one, position)
        self.world.run(step.down_s)

    def _crash(self, position: Position) -> None:
        self._metrics.fault(position)
        self.world.crash(position)

    def _vanish(self, position: Position) -> None:
        self._metrics.fault(position)
        self._vanished.add(position)
        self.world.vanish(position)

    def _reuse(self, position: Position) -> None:
        self._metrics.fault(position)
        self.world.reuse(position)

    def _pause(self, position: Position) -> None:
        self._metrics.fault(position)
        self.world.pause(position)

    def _resume(self, position: Position) -> None:
        self._metrics.resumed(position)
        self.world.resume(position)

    def _cut(self, position: Position) -> None:
        if position in self.world.nodes:
            self._metrics.fault(position)
            self._metrics.exclude(position)
        self.world.weather.cut.add(position)

    def _mend(self) -> None:
        self.world.weather.mend()
        self.world.transit.mend()
        self.world.hosts |= self._vanished
        self._vanished.clear()
        self._start_again(self._strangers.mend())

    def _start_again(self, positions: Iterable[Position]) -> None:
        for position in positions:
            self._crash(position)
            self._start_one(position)

    def _seize(self, position: Position) -> None:
        self._metrics.fault(position)
        if self._strangers.seize(position):
            self._start_one(position)

    def _slow(self, position: Position, step: definition.Slow, until: float) -> None:
        world = self.world
        self._faulty_until = max(self._faulty_until, until)
        if position in world.nodes and position not in world.paused and world.now < until:
            world.pause(position)
            world.slow.add(position)
            world.after(step.stopped_s, self._run_a_while, position, step, until)

    def _run_a_while(self, position: Position, step: definition.Slow, until: float) -> None:
        if position in self.world.paused:
            self.world.resume(position)
        self.world.slow.discard(position)
        self.world.after(max(step.running_s, LOOK_EVERY_S), self._slow, position, step, until)

    def _block(self, step: definition.Block) -> None:
        self.world.weather.block(
            Block(
                sources=frozenset(self.named(step.source)),
                targets=frozenset(self.named(step.target)),
                datagrams=step.protocol in ("all", "udp"),
                streams=step.protocol in ("all", "tcp"),
            )
        )

    def _babble(self, step: definition.Babble) -> None:
        theirs = msgspec.structs.replace(self.settings, fanout=self.settings.fanout + MISFIT_FANOUT)
        misfit = Propose(self._chance.randrange(1 << 40), 1, Terms.of(theirs), Wish.GUEST)
        times = int(step.per_s * step.for_s)  # bounded when the scenario was read
        self._faulty_until = max(self._faulty_until, self.world.now + step.for_s)
        for number in range(times):
            for source in self.named(step.source):
                for target in self.named(step.target):
                    data = datagram(step.what, misfit, self._chance)
                    self.world.after(number / step.per_s, self._inject, source, target, data)

    def _inject(self, source: Position, target: Position, data: bytes) -> None:
        if self.world.weather.is_open(source, target):
            self.world.deliver(source, target, data)

    def _churn(self, step: definition.Churn) -> None:
        world = self.world
        named = self.named(step.nodes)
        if not named:
            world.run(step.for_s)
            return
        pause_s = 60.0 / (len(named) * step.percent_per_min / 100)
        until = world.now + step.for_s
        while world.now < until:
            world.run(min(until - world.now, self._chance.expovariate(1 / pause_s)))
            position, way = self._chance.choice(named), self._chance.choice(step.ways)
            if position in world.nodes and world.now < until:
                {"kill": self._crash, "vanish": self._vanish, "leave": world.leave}[way](position)
                world.after(step.down_s, self._start_one, position)
        world.run(step.down_s)

    def _change_on_the_way(self, step: lasting.Link | lasting.Replay | lasting.Flip) -> None:
        until = inf if isinstance(step, lasting.Link) else self.world.now + step.for_s
        if isinstance(step, lasting.Replay):
            self._faulty_until = max(self._faulty_until, until + step.later_s + REPLAY_SPARE_S)
        elif isinstance(step, lasting.Flip):
            self._faulty_until = max(self._faulty_until, until)
        self.world.transit.add(self.named(step.source), self.named(step.target), until, step)

    def _flap(self, step: lasting.Flap) -> None:
        world = self.world
        for _ in range(step.times):
            named = tuple(p for p in self.named(step.nodes) if p in world.nodes and p not in world.paused)
            for position in named:
                (self._cut if step.how == "cut" else self._pause)(position)
            world.run(step.away_s)
            for position in named:
                if step.how == "cut":
                    world.weather.cut.discard(position)
                elif position in world.paused:
                    self._resume(position)
            world.run(step.back_s)

    def _settle(self, step: lasting.Settle) -> None:
        world = self.world
        world.run(max(0.0, self._faulty_until - world.now) + 2 * self.settings.timing.answer_s)
        if step.rests and step.home:
            demand_healing(world)
        else:
            demand_wholeness(world, home=step.home)

    def _perform(self, step: definition.Perform) -> None:
        for position in self.named(step.nodes):
            jobs = step.jobs * step.spread ** self._chance.random()
            self.world.refit(position, jobs)
            self.world.feed(position, Performance(jobs))

    # -- the end --------------------------------------------------------------------------------------------

    def _expect(self, step: definition.Expect) -> None:
        world = self.world
        began, look_s = world.now, LOOK_EVERY_S * (1 + len(world.nodes) // LOOKS_SAVED)
        if not world.living():
            raise Violation("expect", world.now, "no node lives")
        while True:
            found, at = complaint(world, home=step.home), world.now
            if found is None:
                world.run(QUIET_S)
                if world.moved_at <= at and complaint(world, home=step.home) is None:
                    break
            elif at - began >= step.within_s:
                raise Violation(f"expect within {step.within_s:g} s ({found[0]})", at, found[1])
            else:
                world.run(look_s)
        seen = self._metrics.look(whole_s=at - began)
        self._seen.append(seen)
        allowed = None if step.moved is None else self.named(step.moved)
        wrong = seen.complaint(step, allowed)
        if wrong is not None:
            raise Violation("expect", world.now, wrong)

    def _end_faults(self) -> None:
        """End the faults: mend everything, and resume the stopped processes."""
        world = self.world
        world.run(max(0.0, self._faulty_until - world.now))
        self._mend()
        for position in sorted(world.paused):
            world.resume(position)
        world.run(2 * self.settings.timing.answer_s)
        while any(node.phase is Phase.LEAVING for node in world.nodes.values()):
            world.run(LEAVING_S)
        world.run(2 * LEAVING_S)  # the last delayed starts have happened


def _shown(step: Step) -> str:
    given = msgspec.to_builtins(step)
    return " ".join([given.pop("do"), *(f"{key} {value}" for key, value in given.items())])
