"""Drawn faults that last, and drawn attacks on time: the steps of lasting.py, judged while they last."""

from __future__ import annotations

from random import Random

from subord.core.settings import PRESETS
from subord.core.view import Position
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Step, folded
from subord.sim.scenario.lasting import Flap, Flip, Image, Link, Replay, Restore, SetBack, Settle

LASTS_S = (10.0, 60.0, 300.0)
HOURS_S = (1800.0, 3600.0, 7200.0)
HOURS_NODES_MAX = 12  # a larger cluster runs for minutes
MINUTES_S = 300.0
SETTLED_POSITION_MAX = 700  # a part without a seed probes the network: beyond, its bound is hours
FLAPS = (3, 10, 30)
PAIRS = (1, 2, 5)


def steady_weather(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Lasting loss and delay everywhere; the tree is whole at some moment meanwhile."""
    loss = chance.choice((0.01, 0.05, 0.1))
    weather = definition.Weather(loss=loss, delay_s=chance.choice((0.0, 0.01)), jitter_s=chance.choice((0.0, 0.01)))
    return [*_calm(), weather, definition.Pass(s=chance.choice(LASTS_S)), *_settled(positions, rests=False)]


def steady_partition(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Two or three lasting parts; each becomes one tree at rest, and all of them afterwards."""
    parts = chance.randint(2, 3)
    shuffled = chance.sample(positions, len(positions)) if chance.random() < 0.5 else positions
    size = -(-len(positions) // parts)
    groups = tuple(folded(shuffled[i : i + size]) for i in range(0, len(positions), size))
    return [
        *_calm(),
        definition.Partition(groups=groups),
        *_settled(positions),
        definition.Mend(),
        *_settled(positions),
    ]


def lossy_links(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Some links, or all of one node, lose a lasting share of datagrams."""
    links: list[Step] = [
        Link(source=str(chance.choice(positions)), target=_other(chance, positions), loss=chance.choice((0.1, 0.3)))
        for _ in range(chance.choice(PAIRS))
    ]
    return [*_calm(), *links, definition.Pass(s=chance.choice(LASTS_S)), *_settled(positions, rests=False)]


def slow_links(chance: Random, positions: list[Position], cluster: Cluster) -> list[Step]:
    """The delay grows with the size of datagrams, but every answer comes in time."""
    answer_s = PRESETS[cluster.timing].answer_s
    links: list[Step] = [
        Link(
            source=str(chance.choice(positions)),
            target=_other(chance, positions),
            delay_s=answer_s * chance.choice((0.01, 0.1, 0.2)),
            per_kb_s=answer_s * chance.choice((0.01, 0.1, 0.2)),
        )
        for _ in range(chance.choice(PAIRS))
    ]
    return [*_calm(), *links, *_settled(positions)]


def small_mtu(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Datagrams longer than the smallest MTU of IPv6 allows are lost everywhere."""
    return [*_calm(), Link(source="all", target="all", mtu=chance.choice((1232, 1400))), *_settled(positions)]


def pairs(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Pairs of nodes that do not reach each other; judged after `mend`."""
    found = _calm()
    for _ in range(chance.choice(PAIRS)):
        one, other = str(chance.choice(positions)), str(chance.choice(positions))
        found += [definition.Block(source=one, target=other), definition.Block(source=other, target=one)]
    return [*found, definition.Pass(s=chance.choice(LASTS_S))]


def flapping(chance: Random, positions: list[Position], cluster: Cluster) -> list[Step]:
    """A node is away repeatedly, for about the time until silence counts as death."""
    silence_s = PRESETS[cluster.timing].leader_silence_s
    node = chance.choice(("root", str(chance.choice(positions)), str(positions[0])))
    return [
        Flap(
            nodes=node,
            away_s=round(silence_s * chance.choice((0.5, 0.9, 1.0, 1.1, 2.0)), 3),
            back_s=round(silence_s * chance.choice((0.1, 0.5, 1.0, 2.0)), 3),
            times=chance.choice(FLAPS),
            how=chance.choice(("cut", "pause")),
        )
    ]


def hours(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """A long run in which a node sometimes dies and returns."""
    for_s = chance.choice(HOURS_S) if len(positions) <= HOURS_NODES_MAX else MINUTES_S
    percent = chance.choice((1.0, 10.0))
    return [definition.Churn(percent_per_min=percent, for_s=for_s, down_s=chance.choice((1.0, 20.0)))]


def replay(chance: Random, _positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Datagrams arrive again, seconds or minutes later."""
    later_s, for_s = chance.choice((2.0, 60.0, 200.0)), chance.choice((5.0, 30.0))
    return [Replay(source="all", target="all", share=chance.choice((0.02, 0.2, 1.0)), later_s=later_s, for_s=for_s)]


def flip(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Bits flip in datagrams that stay readable."""
    source = chance.choice(("all", str(chance.choice(positions))))
    return [Flip(source=source, target="all", share=chance.choice((0.01, 0.1)), for_s=10.0), definition.Pass(s=10.0)]


def set_back(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """The clock of hosts is set back before their daemons restart."""
    some = _few(chance, positions)
    restart = definition.Restart(nodes=some, down_s=chance.choice((0.0, 0.1, 1.0, 20.0)))
    return [SetBack(nodes=some, seconds=chance.choice((1.0, 60.0, 3600.0))), restart]


def old_disk(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """Hosts return with an earlier state of their disks."""
    some = _few(chance, positions)
    away_s = chance.choice((0.1, 5.0, 60.0))
    return [
        Image(nodes=some),
        definition.Pass(s=chance.choice((1.0, 30.0, 120.0))),
        definition.Restart(nodes=some, down_s=0.1),
        definition.Pass(s=chance.choice((1.0, 10.0))),
        definition.Vanish(nodes=some),
        Restore(nodes=some),
        definition.Pass(s=away_s),
        definition.Start(nodes=some),
    ]


def moved(chance: Random, positions: list[Position], _cluster: Cluster) -> list[Step]:
    """A host takes the address of another one, which dies; later both addresses have a host again."""
    one, other = str(chance.choice(positions)), str(chance.choice(positions))
    return [
        definition.Vanish(nodes=one),
        definition.Reuse(nodes=other),
        definition.Pass(s=chance.choice((0.1, 5.0, 60.0))),
        definition.Start(nodes=one),
    ]


def _calm() -> list[Step]:
    """Ends other faults before a judgement."""
    return [definition.Mend(), definition.Resume()]


def _settled(positions: list[Position], *, rests: bool = True) -> list[Step]:
    return [Settle(rests=rests)] if positions[-1] <= SETTLED_POSITION_MAX else [definition.Pass(s=MINUTES_S)]


def _other(chance: Random, positions: list[Position]) -> str:
    return "all" if chance.random() < 0.3 else str(chance.choice(positions))


def _few(chance: Random, positions: list[Position]) -> str:
    return folded(chance.sample(positions, min(len(positions), chance.choice((1, 1, 3, 8)))))
