#!/usr/bin/env python3
"""Measures what the shares of classes cost a leader, by its fan-out, and how close a tree of nodes comes to them.

    .venv/bin/python docs/measure_shares_tree.py [--nodes N] [--fanout P ...] [--classes S ...] [--json FILE]

Fluid nodes of a tree that stands still run the part of shares of the daemon (subord/services/shares/simulation/), all
classes but the last everywhere, the last on 30 % of the nodes. Printed are, for an interior leader with P
subordinates: frames and bytes a second, both ways together, without those of TLS and TCP, the processor time of one
round; and for the whole tree the usage of the last class, whose wanted share is 10 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from math import inf
from pathlib import Path
from typing import Any

import measure_growth
import measures

from subord.core.carriage.shares.plan import Plan, order_of, read
from subord.core.view import Position
from subord.services.shares.simulation.serving import fluid
from subord.services.shares.simulation.tree import SharingNode, SharingTree
from subord.sim.services.still import complete

LEADER: Position = 2
"""The first subordinate of the root, which has P subordinates itself."""
LAST_SHARE = 10_000
WITH_LAST = 0.3
WARM_ROUNDS = 20
ROUNDS = 20


def plan_of(classes: int, round_ms: int) -> Plan:
    """Equal shares for all classes but the last."""
    equal, rest = divmod(100_000 - LAST_SHARE, classes - 1)
    shares = [equal + (place < rest) for place in range(classes - 1)]
    plan = read(order_of(1, 1, round_ms, [(f"c{place}", share) for place, share in enumerate([*shares, LAST_SHARE])]))
    assert plan is not None
    return plan


def measured(nodes: int, fanout: int, classes: int, round_ms: int) -> measures.Row:
    """The figures of one tree."""
    busy = (inf,) * (classes - 1)
    cluster = SharingTree(
        complete(max(nodes, 2 * fanout + 1), fanout),
        lambda position: (*busy, inf if position <= WITH_LAST * nodes else 0.0),
        fluid,
        measures_cpu=True,
    )
    plan = plan_of(classes, round_ms)
    cluster.publish_plan(plan, spread_s=plan.round_s / 2)
    cluster.run(WARM_ROUNDS * plan.round_s)
    leader = cluster.nodes[LEADER]
    assert isinstance(leader, SharingNode)
    before = leader.frames_in + leader.frames_out, leader.bytes_in + leader.bytes_out, leader.cpu_s
    usage = cluster.usage(ROUNDS * plan.round_s)
    after = leader.frames_in + leader.frames_out, leader.bytes_in + leader.bytes_out, leader.cpu_s
    frames, size, cpu_s = ((new - old) / ROUNDS for new, old in zip(after, before, strict=True))
    return {
        "nodes": len(cluster.nodes),
        "fanout": fanout,
        "classes": classes,
        "round_ms": round_ms,
        "frames_per_s": round(frames / plan.round_s, 1),
        "bytes_per_s": round(size / plan.round_s),
        "ms_per_round": round(1000 * cpu_s, 2),
        "last_class": round(usage[-1], 2),
    }


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="what shares cost a leader, by its fan-out")
    parser.add_argument("--nodes", type=measures.natural, default=100, metavar="N")
    parser.add_argument("--fanout", type=measures.natural, nargs="+", default=[2, 4, 8, 10, 16, 32], metavar="P")
    parser.add_argument("--classes", type=measures.natural, nargs="+", default=[3], metavar="S")
    parser.add_argument("--round-ms", type=measures.natural, nargs="+", default=[300], metavar="MS")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    document: dict[str, Any] = {**measure_growth.about(), "runs": []}
    for round_ms in given.round_ms:
        for classes in given.classes:
            for fanout in given.fanout:
                row = measured(given.nodes, fanout, classes, round_ms)
                measure_growth.add_row(document, row, json.dumps(row), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
