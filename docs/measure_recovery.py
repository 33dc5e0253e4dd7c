#!/usr/bin/env python3
"""Measures departures, orphans, loss, and starts on several sites in the simulator (docs/evaluation/simulator.md).

    .venv/bin/python docs/measure_recovery.py --json docs/figures/recovery.json
    .venv/bin/python docs/measure_recovery.py --only orphans --seeds 3

The parameters and the seed decide each row, except for processor time, which is this machine's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from random import Random

import measures
from measures import Measure, Row

from subord.core.address.network import Network
from subord.core.events import LeaderLost, Notice
from subord.core.mapping.registry import MappingName
from subord.core.messages import Message
from subord.core.settings import Settings
from subord.core.state.states import Phase
from subord.core.view import Position
from subord.sim.checkers.liveness import complaint
from subord.sim.world.world import World

TIMING = "lan"
NETWORK = "10.0.0.0/16"
DIGITS = 3
LOOK_S = 0.02
SETTLED_S = 40.0  # from the start until the cluster is at rest
WITHIN_S = 60.0
LOSS, LOSS_LASTS_S = 0.1, 300.0
SITES, SITE_NODES, SITE_START_S = 4, 200, 20.0


def main(words: list[str]) -> int:
    """The exit code."""
    return measures.run(words, "costs of departures, deaths, loss and distance", MEASURES, 20, network=NETWORK)


def started(
    nodes: int, fanout: int, seed: int, *, guest_slots: int | None = None, mapping: MappingName = "ip"
) -> World:
    """A dense cluster at rest."""
    settings = Settings(
        network=Network.parse(NETWORK),
        fanout=fanout,
        guest_slots=guest_slots or fanout,
        mapping=mapping,
        timing_name=TIMING,
    )
    world = World(settings, seed=seed)
    for position in range(1, nodes + 1):
        world.start(position)
    world.run(SETTLED_S)
    return world


def departures(_seeds: int) -> Iterator[Row]:
    """Nodes from the top of a tree with one guest slot leave at once."""
    for nodes, leaving in ((72, 9), (300, 9), (1000, 9), (300, 73)):
        world = started(nodes, 8, 1, guest_slots=1)
        began, proposed = world.now, world.sent["Propose"]
        for position in range(1, leaving + 1):
            world.leave(position, grace_s=WITHIN_S)
        while world.now < began + WITHIN_S and not _is_whole(world, nodes - leaving):
            world.run(LOOK_S)
        yield {
            "nodes": nodes,
            "leaving": leaving,
            "whole_s": round(world.now - began, DIGITS) if _is_whole(world, nodes - leaving) else None,
            "proposals": world.sent["Propose"] - proposed,
        }


def _is_whole(world: World, nodes: int) -> bool:
    return len(world.living()) == nodes and complaint(world) is None


def orphans(seeds: int) -> Iterator[Row]:
    """The time without a leader after the death of hosts, or of processes on hosts that do not answer."""
    for nodes, fanout, dead, how in ((73, 8, 1, "vanish"), (63, 2, 1, "vanish"), (120, 8, 36, "silent")):
        lasted: list[float] = []
        for seed in range(seeds):
            world, chance = started(nodes, fanout, seed), Random(seed)
            world.run(5 * chance.random())
            among = range(2, fanout + 2) if dead == 1 else range(1, nodes + 1)
            lasted += _orphaned(world, frozenset(chance.sample(among, dead)), how)
        lasted.sort()
        yield {
            "nodes": nodes,
            "fanout": fanout,
            "dead": dead,
            "how": how,
            "orphans": len(lasted),
            **{name: round(_share(lasted, share), DIGITS) for name, share in SHARES.items()},
        }


SHARES = {"p50_s": 0.5, "p99_s": 0.99, "most_s": 1.0}


def _share(ascending: list[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def _orphaned(world: World, dead: frozenset[Position], how: str) -> list[float]:
    """The seconds without a leader of each orphan."""
    waiting = {p for p in world.living() if p not in dead and world.leader_of(p) in dead}
    began, lasted = world.now, list[float]()
    for position in dead:
        world.vanish(position) if how == "vanish" else world.crash(position)
        world.hosts.discard(position)
    while waiting and world.now < began + WITHIN_S:
        world.run(LOOK_S)
        found = {p for p in waiting if _has_a_place(world, p)}
        lasted += [world.now - began] * len(found)
        waiting -= found
    return lasted + [WITHIN_S] * len(waiting)


def _has_a_place(world: World, position: Position) -> bool:
    leader = world.leader_of(position)
    return leader in world.nodes if leader else world.nodes[position].phase is Phase.ROOT


def loss(_seeds: int) -> Iterator[Row]:
    """Steady loss: which nodes give up a living leader."""
    for nodes, fanout in ((73, 8), (63, 2)):
        world, lost = started(nodes, fanout, 1), list[Position]()

        def note(position: Position, notice: Notice, lost: list[Position] = lost) -> None:
            lost.extend([position] if isinstance(notice, LeaderLost) else [])

        sent = world.sent.total()
        world.run(LOSS_LASTS_S)
        rest = world.sent.total() - sent
        world.on_notice = note
        world.weather.set(loss=LOSS, delay_s=0.0, jitter_s=0.0, doubled=0.0)
        sent = world.sent.total()
        world.run(LOSS_LASTS_S)
        yield {
            "nodes": nodes,
            "fanout": fanout,
            "lost": len(lost),
            "rest_datagrams_per_node_s": round(rest / nodes / LOSS_LASTS_S, DIGITS),
            "datagrams_per_node_s": round((world.sent.total() - sent) / nodes / LOSS_LASTS_S, DIGITS),
        }


def sites(_seeds: int) -> Iterator[Row]:
    """A start on four sites in a row with round trips of 20 ms between neighbours, and the datagrams between."""
    mapping: MappingName
    for mapping in ("ip", "latency"):
        settings = Settings(
            network=Network.parse(NETWORK), fanout=8, guest_slots=8, mapping=mapping, timing_name=TIMING
        )
        world, crossed = World(settings, seed=1), [0]
        site_of = world.weather.site_of = {p: (p - 1) % SITES for p in range(1, SITE_NODES + 1)}

        def count(
            source: Position,
            target: Position,
            _message: Message,
            _copies: int,
            crossed: list[int] = crossed,
            site_of: dict[Position, int] = site_of,
        ) -> None:
            crossed[0] += target in site_of and site_of[source] != site_of[target]

        world.on_message = count
        began = time.process_time()
        for position in site_of:
            world.start(position)
        world.run(SITE_START_S)
        row = {"mapping": mapping, "events": world.events, "cpu_s": round(time.process_time() - began, DIGITS)}
        for name, seconds in (("minute_1", 60.0), ("between", 480.0), ("minute_10", 60.0)):
            crossed[0] = 0
            world.run(seconds)
            row[f"{name}_crossing_per_s"] = round(crossed[0] / seconds, DIGITS)
        leaders = {p: world.leader_of(p) for p in world.nodes}
        row["edges_between_sites"] = sum(bool(up) and site_of[p] != site_of[up] for p, up in leaders.items())
        row["depth"] = max(len(node.uplink.path) for node in world.nodes.values())
        yield row


MEASURES: dict[str, Measure] = {
    "departures": departures,
    "orphans": orphans,
    "loss": loss,
    "sites": sites,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
