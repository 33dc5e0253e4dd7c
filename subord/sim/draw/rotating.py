"""Drawn changes of keys in a sealed cluster, with restarts between their steps.

Each `rotate` is the step that follows from the root's ring, so the steps have the documented order whatever a seed
draws between them.
"""

from __future__ import annotations

from random import Random

from subord.core.view import Position
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded
from subord.sim.scenario.lasting import Rotate

STEPS = (1, 3, 3, 4)
PAUSES_S = (0.05, 1.0, 5.0, 20.0)
GAPS_S = (0.0, 0.02, 0.5)
AWAY_S = (0.1, 3.0, 30.0)


def rotation(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Some steps of a change of keys, by the root or by files; some nodes restart, or are away for a step."""
    found: list[Step] = []
    for _ in range(chance.choice(STEPS)):
        some = folded(chance.sample(positions, min(len(positions), chance.choice((1, 1, 3, 8)))))
        rotate: Step = Rotate(nodes=chance.choice(("root", "root", "all")), gap_s=chance.choice(GAPS_S))
        match chance.choice(("nothing", "nothing", "restart", "away", "leave", "crash the root")):
            case "restart":
                found += [definition.Restart(nodes=some, down_s=0.1), rotate]
            case "away":
                found += [definition.Kill(nodes=some), rotate, definition.Pass(s=chance.choice(AWAY_S))]
                found += [definition.Start(nodes=some)]
            case "leave":
                found += [rotate, definition.Leave(nodes=some)]
            case "crash the root":
                found += [rotate, definition.Kill(nodes="root")]
            case _:
                found.append(rotate)
        found.append(definition.Pass(s=chance.choice(PAUSES_S)))
    return found
