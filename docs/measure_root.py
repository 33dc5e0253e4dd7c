"""What an order to all members costs the root of a tree, by the number of nodes.

    .venv/bin/python docs/measure_root.py [--nodes N ...] [--fanout P ...] [--orders K] [--json FILE]

The root of a complete tree that stands still gives the order, in the simulator (subord/sim/services/still.py), with
the engine of the daemon at each node. Printed are, for the root and one order: the frames and bytes that it gets, the
bytes that it sends, its processor time in the engine, and that to look up all members in its roster.
"""

from __future__ import annotations

import statistics
import sys
import time
from secrets import token_bytes
from types import SimpleNamespace
from typing import Any

from measures import over_trees

from subord.core.carriage.engine import bounds
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.interface import Issue
from subord.core.claims import Claim
from subord.core.messages import Change
from subord.core.roster_tree import RosterTree
from subord.sim.services.still import PING, Still, complete

LEFT_S = 30.0
LOOKS = 5


def measured(nodes: int, fanout: int, orders: int) -> dict[str, Any]:
    """The medians of one tree."""
    cluster = Still(complete(nodes, fanout), interval_s=1.0, measures_cpu=True)
    root = cluster.nodes[1]
    found = []
    for _ in range(orders):
        before = root.frames_in, root.bytes_in, root.bytes_out, root.cpu_s
        cluster.feed(1, Issue(order_of(token_bytes(bounds.TAG_BYTES), PING, b"", None, 1), LEFT_S))
        cluster.run(LEFT_S)
        after = root.frames_in, root.bytes_in, root.bytes_out, root.cpu_s
        found.append([now - then for now, then in zip(after, before, strict=True)])
        assert cluster.answers[-1].told == nodes, cluster.answers[-1].missing
    frames, came, went, cpu_s = map(statistics.median, zip(*found, strict=True))
    return {
        "nodes": nodes,
        "fanout": fanout,
        "orders": orders,
        "frames_in": round(frames),
        "bytes_in": round(came),
        "bytes_out": round(went),
        "cpu_ms": round(1000 * cpu_s, 2),
        "roster_ms": round(roster_ms(nodes, fanout), 2),
    }


def roster_ms(nodes: int, fanout: int) -> float:
    """The root's look at the rows of all members, once for each order (core/roster_tree.py); the least of several."""
    leaders = complete(nodes, fanout)
    via = {each: each for each, leader in leaders.items() if leader == 1}
    rows = {}
    for position, leader in list(leaders.items())[1:]:
        via.setdefault(position, via.get(leader, 0))
        rows[position] = via[position], Claim(Change(position, leader, 1, 1, 0, 0), 0.0)
    roster, downlink = (
        SimpleNamespace(rows=rows, rivals={}),
        SimpleNamespace(slots=SimpleNamespace(taken=set(via.values()))),
    )
    tree = RosterTree(SimpleNamespace(context=SimpleNamespace(position=1), roster=roster, downlink=downlink))  # type: ignore[arg-type]
    taken = []
    for _ in range(LOOKS):
        began = time.process_time()
        split = tree.split(tree.every())
        taken.append(time.process_time() - began)
    assert sum(map(len, split.below.values())) == nodes - 1
    return 1000 * min(taken)


def main(words: list[str]) -> int:
    """The exit code."""
    sizes = [100, 300, 500, 1_000, 10_000, 100_000]
    return over_trees(words, "what an order costs the root", sizes, ("orders", 5), measured)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
