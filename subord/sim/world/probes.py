"""Round trips of probes, as the driver of a daemon measures them (runtime/net/probing.py).

Only the two ways count, not the time until the target reads the probe; a stopped or dead target does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from subord.core.events import Measure, Measured
from subord.core.messages import Probe

if TYPE_CHECKING:
    from subord.core.view import Position
    from subord.sim.world.world import World


def send_probe(world: World, position: Position, measure: Measure) -> None:
    """For the node at `position`."""
    probe = Probe(0, measure.number)
    for there_s in world.fate(position, measure.target, probe)[:1]:
        for back_s in world.fate(measure.target, position, probe)[:1]:
            world.after(there_s + back_s, _answer, world, position, measure, there_s + back_s)


def _answer(world: World, position: Position, measure: Measure, seconds: float) -> None:
    there = world.nodes.get(measure.target)
    is_heard = world.seals is None or world.seals.rings.share_a_key(position, measure.target)
    if there is not None and is_heard and measure.target not in world.paused:
        world.feed(position, Measured(measure.target, measure.number, seconds, there.context.performance))
