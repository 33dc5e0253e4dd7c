"""Drawn orders of deaths, changes of the root, goodbyes and partitions, after which all nodes must remember the dead.

Output is steps of a scenario whose nodes keep a register of the members (checkers/members.py).
"""

from __future__ import annotations

from random import Random

from subord.core.view import Position
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded
from subord.sim.scenario.lasting import Forget

STEPS = (2, 4, 6)
PAUSES_S = (0.0, 0.5, 5.0, 12.0, 12.0, 45.0)
APART_S = (1.0, 20.0, 60.0)
WHAT = ("kill", "kill", "root", "root", "vanish", "leave", "leave the root", "partition", "restart all", "power")
MORE = (*WHAT, "back", "forget")


def memory(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Some such events, after the cluster has had time to become known."""
    found: list[Step] = [definition.Start(), definition.Pass(s=chance.choice((8.0, 30.0)))]
    for _ in range(chance.choice(STEPS)):
        some = folded(chance.sample(positions, chance.randint(1, max(1, len(positions) // 4))))
        found += _event(chance, positions, some)
        found.append(definition.Pass(s=chance.choice(PAUSES_S)))
    return found


def _event(chance: Random, positions: list[Position], some: str) -> list[Step]:
    what = chance.choice(MORE)
    simple: dict[str, list[Step]] = {
        "kill": [definition.Kill(nodes=some)],
        "root": [definition.Kill(nodes="root")],
        "vanish": [definition.Vanish(nodes=some)],
        "leave": [definition.Leave(nodes=some)],
        "leave the root": [definition.Leave(nodes="root")],
        "power": [definition.Kill(nodes="all"), definition.Pass(s=1.0), definition.Start(nodes=some)],
        "back": [definition.Start(nodes=some)],
        "forget": [Forget(nodes=some)],
    }
    if what == "partition":
        return _partition(chance, positions, some)
    if what == "restart all":
        return [definition.Restart(nodes="all", down_s=chance.choice((0.1, 10.0)))]
    return simple[what]


def _partition(chance: Random, positions: list[Position], some: str) -> list[Step]:
    """One part apart for a while; some nodes may die meanwhile."""
    part = folded(chance.sample(positions, chance.randint(1, len(positions))))
    apart: list[Step] = [definition.Partition(groups=(part,)), definition.Pass(s=chance.choice(APART_S))]
    if chance.random() < 0.5:
        apart += [definition.Kill(nodes=some), definition.Pass(s=chance.choice(APART_S))]
    return [*apart, definition.Mend()]
