"""Faults that hit a large share of a cluster, as steps that the lab can play as well."""

from __future__ import annotations

from random import Random
from typing import Literal

from subord.core.view import Position
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded

SHARES = (0.2, 0.3, 0.5, 0.8, 0.95, 1.0)
AWAY_S = (0.2, 1.0, 5.0, 20.0)
RACKS = (4, 8, 16, 40)
ROLLINGS = (3, 8, 8, 16)  # nodes of one rolling restart, three steps each
ROLLING_LARGE = 3  # the same in a large cluster, where each step is expensive
LARGE = 50
ORDERS: tuple[Literal["ascending", "reverse", "random"], ...] = ("ascending", "reverse", "random")


def many(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """20 to 100 % of the nodes at once, at random positions, often back some time later."""
    hit = _share(chance, positions)
    match chance.choice(("kill", "vanish", "pause", "restart", "reuse")):
        case "kill":
            first: Step = definition.Kill(nodes=hit)
        case "vanish":
            first = definition.Vanish(nodes=hit)
        case "pause":
            return [
                definition.Pause(nodes=hit),
                definition.Pass(s=chance.choice(AWAY_S)),
                definition.Resume(nodes=hit),
            ]
        case "restart":
            return [definition.Restart(nodes=hit, down_s=chance.choice((0.0, 0.1, 0.5, 3.0)))]
        case _:
            return [definition.Reuse(nodes=hit)]
    return [first, *_back(chance, hit)]


def rack(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Neighbours by address lose power, or their switch."""
    size = min(len(positions), chance.choice(RACKS))
    start = chance.randrange(len(positions) - size + 1)
    hit = folded(positions[start : start + size])
    match chance.choice(("vanish", "kill", "partition", "cut")):
        case "vanish":
            return [definition.Vanish(nodes=hit), *_back(chance, hit)]
        case "kill":
            return [definition.Kill(nodes=hit), *_back(chance, hit)]
        case "partition":
            return [
                definition.Partition(groups=(hit,)),
                definition.Pass(s=chance.choice(AWAY_S)),
                definition.Mend(),
            ]
        case _:
            return [definition.Cut(nodes=hit), definition.Pass(s=chance.choice(AWAY_S)), definition.Mend()]


def power(chance: Random, _positions: list[Position], _cluster: Cluster) -> list[Step]:
    """All hosts lose power at once and boot later; disks hold what was saved last."""
    return [
        definition.Vanish(nodes="all"),
        definition.Pass(s=chance.choice(AWAY_S)),
        definition.Start(order=chance.choice(ORDERS), gap_s=chance.choice((0.0, 0.002, 0.05))),
    ]


def rolling(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """One node after the other is stopped and started, as in an upgrade of all hosts."""
    count = chance.choice(ROLLINGS) if len(positions) <= LARGE else ROLLING_LARGE
    start = chance.randrange(max(1, len(positions) - count + 1))
    row = positions[start : start + count]
    order = chance.choice(ORDERS)
    if order == "reverse":
        row.reverse()
    elif order == "random":
        chance.shuffle(row)
    is_graceful = chance.random() < 0.7
    down_s, gap_s = chance.choice((0.1, 0.5, 3.0)), chance.choice((0.0, 0.2, 1.0, 5.0))
    found: list[Step] = []
    for position in row:
        one = str(position)
        stop: Step = definition.Leave(nodes=one) if is_graceful else definition.Kill(nodes=one)
        found += [stop, definition.Pass(s=down_s), definition.Start(nodes=one)]
        if gap_s:
            found.append(definition.Pass(s=gap_s))
    return found


def exodus(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Many nodes leave at once: the lowest, neighbours, or at random positions."""
    if chance.random() < 0.4:
        hit = folded(positions[: chance.randint(1, min(len(positions), 16))])
    else:
        hit = _share(chance, positions)
    return [definition.Leave(nodes=hit), *_back(chance, hit)]


def _share(chance: Random, positions: list[Position]) -> str:
    count = max(1, round(chance.choice(SHARES) * len(positions)))
    return folded(chance.sample(positions, count))


def _back(chance: Random, hit: str) -> list[Step]:
    if chance.random() < 0.3:
        return []
    start = definition.Start(nodes=hit, order=chance.choice(ORDERS), gap_s=chance.choice((0.0, 0.002)))
    return [definition.Pass(s=chance.choice(AWAY_S)), start]
