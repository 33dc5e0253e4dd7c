"""Random changes of measured values: steps inserted between the drawn ones (seed.py)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from subord.core.mapping.registry import MappingName
from subord.core.view import Position
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Step, folded

OFTEN = 0.4  # share of the steps that a change follows
SITES_MAX = 5
JOBS = (1.0, 10.0, 15.0, 20.0, 40.0, 160.0)
SPREADS = (1.0, 1.3, 4.0, 16.0)


def measured(
    chance: Random, mapping: MappingName, positions: Sequence[Position], steps: Sequence[Step]
) -> tuple[Step, ...]:
    """The steps, with changes of performance or distance among them."""
    if mapping == "performance":
        found: list[Step] = [_perform(chance, positions) for _ in range(chance.randint(0, 2))]
    else:
        sites = chance.randint(2, SITES_MAX)
        of_site = [[p for p in positions if p % sites == site] for site in range(sites)]
        found = [definition.Dwell(nodes=folded(some), site=site) for site, some in enumerate(of_site) if some]
    for step in steps:
        found.append(step)
        if chance.random() < OFTEN:
            found.append(_change(chance, mapping, positions))
    return tuple(found)


def _change(chance: Random, mapping: MappingName, positions: Sequence[Position]) -> Step:
    if mapping == "performance":
        return _perform(chance, positions)
    return definition.Dwell(nodes=_some(chance, positions), site=chance.randrange(SITES_MAX))


def _perform(chance: Random, positions: Sequence[Position]) -> Step:
    return definition.Perform(nodes=_some(chance, positions), jobs=chance.choice(JOBS), spread=chance.choice(SPREADS))


def _some(chance: Random, positions: Sequence[Position]) -> str:
    draw = chance.random()
    if draw < 0.3:
        return "all"
    if draw < 0.6:
        return str(chance.choice(positions))
    return folded(chance.sample(positions, chance.randint(1, len(positions))))
