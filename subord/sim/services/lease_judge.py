"""What must hold for what runs: C5 of docs/protocol/carriage.md, with arithmetic of its own.

Inputs are runs of leased orders as they begin and end, and the orders that issuers wait for (judge.py); output is a
Violation. Numbers here are written out, not taken from the engine. While the network is disturbed or a process is
stopped, time does not count, nor while a frame of that time may still arrive: it renews a lease late.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from subord.core.carriage.engine.frames import Tag
from subord.core.view import Position
from subord.sim.services.judge import Judge
from subord.sim.violation import Violation
from subord.sim.world.world import World

LOOK_S: Final = 0.25
LEASE_S: Final = 15.0
ALONE_S_MAX: Final = LEASE_S + 1.0
Key = tuple[Position, Tag]


class LeaseJudge:
    """Watches all runs of leased orders of one world."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge
        self.alone_s: dict[Key, float] = {}
        """What runs, and for how long no issuer has waited for it."""
        self.times: Counter[Key] = Counter()
        """How often each node has begun to act on a tag, in all lives of its host."""
        self._is_looking = False
        self._late_until = 0.0
        """Until then a frame may arrive that was sent while the network was disturbed."""

    def began(self, position: Position, tag: Tag) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._world.after(LOOK_S, self._look)
        self.alone_s[position, tag] = 0.0
        self.times[position, tag] += 1

    def ended(self, position: Position, tag: Tag, cause: str) -> None:
        """C5: nothing is cancelled while its issuer waits. A lease may be over, if the issuer cannot be heard."""
        del self.alone_s[position, tag]
        if cause == "cancelled" and self._judge.waits(tag):
            raise Violation("C5", self._world.now, f"{position} cancels {tag.hex()}, though its issuer waits")

    def running(self, tag: Tag) -> set[Position]:
        """The nodes that act on it now."""
        return {position for position, each in self.alone_s if each == tag}

    def _look(self) -> None:
        world = self._world
        if world.paused or world.weather.disturbs:
            self._late_until = max(self._late_until, world.now + world.weather.delay_s + world.weather.jitter_s)
        is_quiet = world.now > self._late_until
        for (position, tag), alone_s in self.alone_s.items():
            waits = self._judge.waits(tag) or not is_quiet
            self.alone_s[position, tag] = 0.0 if waits else alone_s + LOOK_S
            if alone_s > ALONE_S_MAX:
                raise Violation("C5", world.now, f"{position} acts on {tag.hex()}, for which no issuer waits")
        self._is_looking = bool(self.alone_s)
        if self._is_looking:
            world.after(LOOK_S, self._look)
