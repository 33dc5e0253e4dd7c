"""The agents of a simulated cluster: they carry out orders of a leased service, and outlive their daemons.

Inputs are actions of the engines for such orders; outputs are outcomes, for the engine that waits then, and what the
judge of leases sees. The lease itself is that of the daemon's agent (core/carriage/engine/acting/lease.py).
Invariant: an agent acts at most once on a tag; an agent that ended while it acted does not act again.
"""

from __future__ import annotations

from collections.abc import Callable

from subord.core.carriage.engine.acting.lease import Lease
from subord.core.carriage.engine.causes import OUTCOME_UNKNOWN
from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import Order, Tag
from subord.core.carriage.engine.interface import Act, Acted, Outcome
from subord.core.view import Position
from subord.sim.services.lease_judge import LeaseJudge
from subord.sim.services.truth import result_of
from subord.sim.world.world import World

Tell = Callable[[Position, Engine, Acted], None]
Key = tuple[Position, Tag]


class Run:
    """An order that an agent carries out. `engine`: of the daemon that waits for it."""

    def __init__(self, order: Order, lease: Lease, done_at: float, engine: Engine) -> None:
        self.order = order
        self.lease = lease
        self.done_at = done_at
        self.engine = engine


class Agents:
    """`tell` gives an outcome to an engine, if it still lives."""

    def __init__(self, world: World, judge: LeaseJudge, tell: Tell) -> None:
        self._world = world
        self._judge = judge
        self._tell = tell
        self._runs: dict[Key, Run] = {}
        self._outcomes: dict[Key, Outcome] = {}

    def act(self, position: Position, engine: Engine, act: Act, takes_s: float) -> None:
        """A daemon gives an order, maybe again after its restart."""
        key, now = (position, act.order.tag), self._world.now
        if key in self._outcomes:
            self._tell(position, engine, Acted(act.order.tag, self._outcomes[key]))
        elif key in self._runs:
            self._runs[key].engine = engine
            self.renew(position, act.order.tag, act.lease_s)
        else:
            done_at = now + takes_s
            self._runs[key] = Run(act.order, Lease(act.lease_s, now), done_at, engine)
            self._judge.began(position, act.order.tag)
            self._look_at_end(key)

    def renew(self, position: Position, tag: Tag, lease_s: float) -> None:
        run = self._runs.get((position, tag))
        if run is not None:
            run.lease.renew(lease_s, self._world.now)

    def stop(self, position: Position, tag: Tag) -> None:
        run = self._runs.get((position, tag))
        if run is not None:
            run.lease.cancel(self._world.now)
            self._look((position, tag))

    def lose(self, position: Position, *, disk: bool) -> None:
        """The host dies. `disk`: another one, with an empty disk, has the address."""
        for key in [each for each in self._runs if each[0] == position]:
            del self._runs[key]
            self._judge.ended(*key, "")
            self._outcomes[key] = Outcome(cause=OUTCOME_UNKNOWN)
        if disk:
            for key in [each for each in self._outcomes if each[0] == position]:
                del self._outcomes[key]

    def _look_at_end(self, key: Key) -> None:
        run = self._runs[key]
        self._world.after(max(0.0, min(run.done_at, run.lease.until) - self._world.now), self._look, key)

    def _look(self, key: Key) -> None:
        """The service may be done, or its lease over."""
        run, now = self._runs.get(key), self._world.now
        if run is None:
            return
        cause = run.lease.cause(now)
        if now < run.done_at and not cause:
            self._look_at_end(key)
            return
        del self._runs[key]
        outcome = Outcome(result_of(key[1], key[0])) if now >= run.done_at else Outcome(cause=cause)
        self._outcomes[key] = outcome
        self._judge.ended(*key, outcome.cause)
        self._tell(key[0], run.engine, Acted(key[1], outcome))
