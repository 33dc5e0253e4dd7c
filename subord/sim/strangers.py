"""Members that are not what the others expect: liars, impostors, other settings, other releases, second hosts.

Inputs are steps of a scenario; outputs are changed members of a world, and which of them must start again when faults
end. Invariant: after `mend` every member is as its host was before, with its own key and the common settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec

from subord.core.view import Position
from subord.sim.scenario import definition, lasting
from subord.sim.scenario.definition import Scenario
from subord.sim.world.identities import Identities
from subord.sim.world.later_release import BOTH
from subord.sim.world.lies import wire_of
from subord.sim.world.poses import Poses
from subord.sim.world.twins import Twins
from subord.sim.world.world import World
from subord.wire.codec import WIRE


class Strangers:
    """Those of one world."""

    def __init__(self, world: World, script: Scenario) -> None:
        cluster = script.cluster
        world.identities = Identities(
            world,
            script.seed,
            are_on=cluster.identities != "none",
            known=cluster.identities == "strict",
            strict=cluster.identities == "strict",
            bare=definition.bare_of(cluster),
        )
        self.twins = Twins(world, script.seed)
        self.poses = Poses(world, script.seed)
        self._world = world
        self._seed = script.seed
        self._liars: set[Position] = set()
        self._releases: dict[Position, bool] = {}  # whether it is a later one; effective at the next start

    def lie(self, position: Position, step: lasting.Lie) -> None:
        world = self._world
        self._liars.add(position)
        world.unjudged.add(position)
        chance = Random(f"{self._seed}/{position}")
        world.speak(position, wire_of(step.what, position, tuple(world.boots), chance, world.identities))

    def refit(self, named: Iterable[Position], step: lasting.Refit) -> None:
        """Other settings, effective at the next start."""
        settings = self._world.settings
        wanted = {"fanout": step.fanout, "guest_slots": step.guest_slots, "timing_name": step.timing}
        other = msgspec.structs.replace(settings, **{name: value for name, value in wanted.items() if value})
        self._world.own_settings.update(dict.fromkeys(named if other != settings else (), other))

    def release(self, named: Iterable[Position], step: lasting.Release) -> None:
        self._releases.update(dict.fromkeys(named, step.later))

    def starts(self, position: Position) -> None:
        """A host starts its daemon, of the release that was installed meanwhile."""
        if position in self._releases:
            self._world.wires[position] = BOTH if self._releases.pop(position) else WIRE

    def seize(self, position: Position) -> bool:
        """Another host takes the address; False: it has no identity that could prevent it. It then starts."""
        world = self._world
        if not world.identities.has_identity(position):
            return False
        world.unjudged.add(position)
        world.vanish(position)
        world.identities.seize(position)
        return True

    def mend(self) -> list[Position]:
        """All are as before; returns those that must start again."""
        world = self._world
        self.twins.end()
        wrong = {*self._liars, *world.own_settings, *world.identities.give_back()}
        for position in self._liars:
            world.speak(position, WIRE)
        world.own_settings.clear()
        self._liars.clear()
        return sorted(wrong & world.nodes.keys())
