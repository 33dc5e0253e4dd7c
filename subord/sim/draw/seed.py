"""Turns a seed into a scenario: the size of the cluster, its positions and settings, and the faults.

Inputs are a seed, a mapping and an aim; output is a Scenario that can be written to a file. The order of the random
calls decides what a seed means: a change of it changes all scenarios.
"""

from __future__ import annotations

from random import Random

import msgspec

from subord.core.mapping.registry import MappingName
from subord.core.settings import NumberingName, TimingName
from subord.core.view import Position
from subord.sim.draw.aim import ANY, FANOUT_MAX, Aim
from subord.sim.draw.clusters import identified, shaped, sparse_positions
from subord.sim.draw.first import with_first_start
from subord.sim.draw.kinds import CLUSTERS, LARGE, OF_SERVICES, USUAL, KindDraw, kinds_of
from subord.sim.draw.measures import measured
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Cluster, Scenario, folded

SIZES = ((0.8, 2, 16), (0.975, 17, 50), (0.995, 51, 150), (0.9995, 151, 500), (1.0, 501, 2000))
"""(up to this share of seeds, smallest, largest): large clusters are slow, and small ones have most edge cases."""
FANOUTS = (2, 2, 2, 3, 3, 4, 8, 16, 64)
TIMINGS: tuple[TimingName, ...] = ("lab", "lab", "lab", "lan", "lan", "wan")
NUMBERINGS: tuple[NumberingName, ...] = ("complete", "complete", "complete", "paper")
SPREAD_MAX = 600  # positions of a sparse network: probing all of them is part of the bound
WIDE = 0.5  # share of the clusters with seeds or announcements that are spread over a /16
WIDE_SIZE = 65_534
CHAIN_MAX = 40  # with one guest slot and no homes the tree is a chain, and a long one heals slowly
NODES_OF_SERVICES = (5, 30)
NODES_OF_ROUNDS = (5, 60)
SETTLED_S = 120.0
EDGE_OF_LEVEL = 0.2  # share of dense clusters whose size is that of full levels, or one off


def draw(seed: int, mapping: MappingName = "ip", aim: Aim = ANY) -> Scenario:
    """The scenario of a seed, the same on every machine. Another mapping adds changes of the measured values."""
    if aim.rounds:
        return _for_rounds(seed, aim)
    script = with_first_start(seed, _drawn(seed, _for_services(aim))) if aim.services else _drawn(seed, aim)
    if mapping == "ip":
        return script
    cluster = msgspec.structs.replace(script.cluster, mapping=mapping)
    steps = measured(Random(f"{seed}/{mapping}"), mapping, definition.positions_of(cluster), script.steps)
    return msgspec.structs.replace(script, cluster=cluster, steps=steps)


def _for_services(aim: Aim) -> Aim:
    """Small clusters, and faults of honest nodes, unless the aim names others."""
    return msgspec.structs.replace(aim, nodes=aim.nodes or NODES_OF_SERVICES, kinds=aim.kinds or OF_SERVICES)


def _for_rounds(seed: int, aim: Aim) -> Scenario:
    """A dense cluster that settles; the faults are drawn while it runs (services/rounds.py)."""
    chance = Random(f"{seed}/rounds")
    size, fanout = chance.randint(*(aim.nodes or NODES_OF_ROUNDS)), aim.fanout or chance.choice((2, 2, 3, 4, 8))
    timing: TimingName = chance.choice(("lab", "lan"))
    cluster = Cluster(nodes=size, fanout=fanout, guest_slots=aim.guest_slots, timing=timing, register=True)
    steps = definition.Start(order="random"), definition.Expect(within_s=SETTLED_S)
    return Scenario(title=f"seed {seed}", seed=seed, cluster=cluster, steps=steps)


def _drawn(seed: int, aim: Aim) -> Scenario:
    chance = Random(f"{seed}/scenario")
    size = _size(chance)
    fanout = chance.choice(FANOUTS)
    if chance.random() < EDGE_OF_LEVEL and size <= LARGE:
        size = _edge_of_level(chance, fanout, size)
    if aim.nodes is not None:
        size = chance.randint(*aim.nodes)
    fanout = aim.fanout or fanout
    kinds = _kinds(seed, aim)
    shape = Random(f"{seed}/shape")
    positions, network = _layout(chance, size)
    if "sparse" in kinds:
        positions, network = sparse_positions(shape, aim.nodes), "10.0.0.0/16"
        size = len(positions)
    seeds, announce = _meeting(chance, positions)
    if (seeds or announce) and size <= LARGE and chance.random() < WIDE and "sparse" not in kinds:
        positions, network = _wide(chance, size), "10.0.0.0/16"
        seeds, announce = (folded(chance.sample(positions, min(3, size))), announce) if seeds else (seeds, announce)
    guest_slots = min(FANOUT_MAX, chance.choice((1 if size <= CHAIN_MAX else 2, fanout, fanout, fanout, 2 * fanout)))
    cluster = Cluster(
        positions=folded(positions),
        network=network,
        fanout=fanout,
        guest_slots=guest_slots,
        numbering=chance.choice(NUMBERINGS),
        timing=chance.choice(TIMINGS),
        disk=chance.random() < 0.7,
        seeds=seeds,
        announce=announce,
    )
    cluster = shaped(shape, cluster, kinds)
    if aim.fanout or aim.guest_slots:
        slots = aim.guest_slots or cluster.guest_slots
        cluster = msgspec.structs.replace(cluster, fanout=aim.fanout or cluster.fanout, guest_slots=slots)
    cluster = identified(Random(f"{seed}/identities"), cluster)
    steps = KindDraw(chance, positions, cluster, kinds).steps()
    if cluster.seeds:
        # The seeds must live in the end.
        steps.append(definition.Start(nodes=cluster.seeds if cluster.register else "all"))
    return Scenario(title=f"seed {seed}", seed=seed, cluster=cluster, steps=tuple(steps))


def _kinds(seed: int, aim: Aim) -> tuple[str, ...]:
    """Those of the seed, or of the aim; an aim of clusters alone gets the usual faults, too."""
    if not aim.kinds:
        return kinds_of(seed)
    return aim.kinds if not set(aim.kinds) <= set(CLUSTERS) else (*USUAL, *aim.kinds)


def _size(chance: Random) -> int:
    share = chance.random()
    for up_to, smallest, largest in SIZES:
        if share <= up_to:
            return chance.randint(smallest, largest)
    raise AssertionError("shares end with 1")


def _edge_of_level(chance: Random, fanout: int, size: int) -> int:
    """The nodes of all full levels up to `size`, one less, or one more."""
    full, level = 1, 1
    while full + fanout**level <= max(size, fanout + 1):
        full += fanout**level
        level += 1
    return max(2, full + chance.choice((-1, 0, 1)))


def _layout(chance: Random, size: int) -> tuple[list[Position], str]:
    """Positions, and a network that holds them."""
    kind = chance.choice(("dense", "dense", "dense", "holes", "thirds", "blocks", "end", "random", "list"))
    if size > LARGE:
        kind = "dense" if kind != "list" else "list"
    spread = min(SPREAD_MAX, 8 * size + 8)
    match kind:
        case "holes":
            found = sorted(chance.sample(range(1, size + size // 4 + 2), size))
        case "thirds":
            found = list(range(3, 3 * size + 1, 3))
        case "blocks":
            starts = sorted(chance.sample(range(1, max(3, spread // 16)), 2))
            half = size // 2
            found = [16 * starts[0] + i for i in range(half)]
            found += [max(found, default=0) + 16 * (starts[1] - starts[0]) + i for i in range(1, size - half + 1)]
        case "end":
            found = list(range(spread - size + 1, spread + 1))
        case "random":
            found = sorted(chance.sample(range(1, spread + 1), size))
        case _:
            found = list(range(1, size + 1))
    if kind == "list":
        middle = size // 2 + 1
        return found, f"10.1.0.1-10.1.{middle // 256}.{middle % 256},10.0.0.1-10.0.{size // 256}.{size % 256}"
    bits = max(3, (found[-1] + 2).bit_length())
    return found, f"10.0.0.0/{32 - bits}" if chance.random() < 0.8 else "10.0.0.0/16"


def _meeting(chance: Random, positions: list[Position]) -> tuple[str, bool]:
    """How nodes find each other besides probing: (seeds, announcements)."""
    draw = chance.random()
    if draw < 0.2:
        return folded(chance.sample(positions, min(len(positions), chance.randint(1, 3)))), False
    return "", draw < 0.4


def _wide(chance: Random, size: int) -> list[Position]:
    """Positions all over a /16: at random, in five blocks, or at its end."""
    kind = chance.choice(("random", "blocks", "end"))
    if kind == "random" or size < 5:
        return sorted(chance.sample(range(1, WIDE_SIZE + 1), size))
    if kind == "end":
        return list(range(WIDE_SIZE - size + 1, WIDE_SIZE + 1))
    length = size // 5 + 1
    starts = sorted(chance.sample(range(WIDE_SIZE // length - 1), 5))
    return sorted(start * length + i + 1 for start in starts for i in range(length))[:size]
