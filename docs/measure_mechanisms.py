#!/usr/bin/env python3
"""Measures what single mechanisms of the core earn, by taking each out, for docs/architecture.md.

    .venv/bin/python docs/measure_mechanisms.py --json docs/figures/mechanisms.json
    .venv/bin/python docs/measure_mechanisms.py --only scattered --seeds 3

Every row is a run of the simulator with the same seeds, once with the whole core and once without a mechanism.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest import mock

import measures
from measures import Measure, Row

from subord.core.address.network import Network
from subord.core.search.delegation import Delegation
from subord.core.search.root_referral import RootReferral
from subord.core.search.rounds import Round
from subord.core.settings import Settings
from subord.core.vacancies.vacancies import Vacancies
from subord.sim.checkers.liveness import complaint
from subord.sim.moves import Case, MovesRun
from subord.sim.world.world import World

TIMING = "lan"
WITHIN_S = 1200.0
LOOK_S = 1.0
APART_S = 300.0  # both roots probe slowly by then
SCATTERED = (("10.0.0.0/20", 60), ("10.0.0.0/16", 500))  # networks, and nodes in them

Mechanism = tuple[type, str, Callable[..., Any]]


def _probe_alone(self: Delegation, targets: tuple[int, ...], *, share: bool) -> None:
    """As `Delegation.probe`, but no row goes to a delegate."""
    del share
    PROBE(self, targets, share=False)


PROBE = Delegation.probe
MECHANISMS: dict[str, tuple[Mechanism, ...]] = {
    "": (),
    "delegation": ((Delegation, "probe", _probe_alone),),
    "root referral": ((RootReferral, "refer", lambda _self, _other: False),),
    "displacement": ((Round, "take_displacement", lambda _self: None),),
    "swaps": ((Vacancies, "swap", lambda _self, _node, _level: 0),),
}
"""Mechanisms by name, and what stands in their place when they are taken out."""


def main(words: list[str]) -> int:
    """The exit code."""
    return measures.run(words, "what single mechanisms earn", MEASURES, 5)


def without(name: str) -> ExitStack:
    """Take a mechanism out until the end of the block."""
    stack = ExitStack()
    for owner, method, instead in MECHANISMS[name]:
        stack.enter_context(mock.patch.object(owner, method, instead))
    return stack


def scattered(seeds: int) -> Iterator[Row]:
    """Nodes at random addresses, without seeds and multicast: the time until they are one tree."""
    for network, nodes in SCATTERED:
        for name in ("", "delegation", "root referral"):
            with without(name):
                runs = [_scattered(network, nodes, seed) for seed in range(seeds)]
            yield {
                "network": network,
                "nodes": nodes,
                "without": name,
                "whole_s": [round(whole_s, 1) for whole_s, _ in runs],
                "median_s": round(statistics.median(whole_s for whole_s, _ in runs), 1),
                "datagrams_per_node_s": round(statistics.median(rate for _, rate in runs), 2),
            }


def _scattered(network: str, nodes: int, seed: int) -> tuple[float, float]:
    """Seconds until the cluster is whole, and datagrams per node and second until then."""
    settings = Settings(network=Network.parse(network), fanout=8, guest_slots=8, timing_name=TIMING)
    world = World(settings, seed=seed)
    for position in Random(seed).sample(range(1, settings.network.size + 1), nodes):
        world.start(position)
    while world.now < WITHIN_S and complaint(world) is not None:
        world.run(LOOK_S)
    return world.now, world.sent.total() / nodes / world.now


def between(seeds: int) -> Iterator[Row]:
    """Two trees side by side that do not know each other; a node starts between them."""
    for name in ("", "root referral"):
        with without(name):
            runs = [_between(seed) for seed in range(seeds)]
        yield {"without": name, "whole_s": [round(each, 1) for each in runs], "median_s": statistics.median(runs)}


def _between(seed: int) -> float:
    """Seconds from the start of the node until there is one tree."""
    settings = Settings(network=Network.parse(SCATTERED[1][0]), fanout=8, guest_slots=8, timing_name=TIMING)
    world = World(settings, seed=seed)
    far, right, left, middle = 29_000, range(30_002, 30_010), range(29_990, 30_001), 30_001
    world.seeds = (far,)
    world.weather.partition([(far, *right, middle), left])
    for position in (far, *right):
        world.start(position)
    world.seeds = ()
    for position in left:
        world.start(position)
    world.run(APART_S)
    world.weather.mend()
    began = world.now
    world.start(middle)
    while world.now < began + WITHIN_S and complaint(world) is not None:
        world.run(LOOK_S / 10)
    return world.now - began


def filled(seeds: int) -> Iterator[Row]:
    """Every third address, started in random order, so that all are guests: the depth of the tree at rest."""
    for fanout in (2, 8):
        for name in ("", "displacement", "swaps"):
            with without(name):
                runs = [
                    MovesRun(Case(layout="thirds", fanout=fanout, nodes=200, seed=seed), "random").started
                    for seed in range(1, seeds + 1)
                ]
            yield {
                "fanout": fanout,
                "nodes": 200,
                "without": name,
                "depth": [run.depth for run in runs],
                "settled_s": round(statistics.median(run.settled_s for run in runs), 1),
            }


MEASURES: dict[str, Measure] = {"scattered": scattered, "between": between, "filled": filled}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
