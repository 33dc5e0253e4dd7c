#!/usr/bin/env python3
"""Measures orders among real, sealed daemons: `ping` of all nodes, also around a node that hangs, for
docs/evaluation/orders.md.

    .venv/bin/python docs/measure_orders.py --repeat 20 --json docs/figures/orders.json
    .venv/bin/python docs/measure_orders.py --nodes 100 --fanout 8 --repeat 5

Each lab is started once. The time is that of the order in the asked daemon, from the request to the document; the
processor time is that of the root, by the kernel, over all orders of a row.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "docs")]

from measures import natural  # noqa: E402 - found by the line above
from netlab.common import measure, results  # noqa: E402
from netlab.common.waiting import wait_until  # noqa: E402
from netlab.lab import Lab  # noqa: E402

Run = dict[str, Any]
STABLE_S_MAX = 120.0
ANSWER_S_MAX = 15.0
INTERIOR = 3
TARGET = "/v1/ping?budget=8"


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="times of orders to all nodes")
    parser.add_argument("--nodes", type=natural, nargs="+", default=[100, 300, 500])
    parser.add_argument("--fanout", type=natural, nargs="+", default=[2, 8])
    parser.add_argument("--repeat", type=natural, default=20, metavar="N", help="orders of each row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    about = {"machine": measure.machine(), "commit": measure.commit(), "repeat": given.repeat}
    runs: list[Run] = []
    for nodes in given.nodes:
        for fanout in given.fanout:
            for run in of_lab(nodes, fanout, given.repeat):
                print(json.dumps(run), flush=True)
                runs.append(run)
                if given.json is not None:
                    results.write_json(given.json, {**about, "runs": runs})
    return 0


def of_lab(nodes: int, fanout: int, repeat: int) -> Iterator[Run]:
    """The rows of one cluster: asked at the root, at the last node, and while an interior node is stopped."""
    with Lab(nodes=nodes, fanout=fanout) as lab:
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        wait_until(lambda: all_edges_are_open(lab), STABLE_S_MAX, 0.5)
        about = {"nodes": nodes, "fanout": fanout}
        yield {**about, **row(lab, repeat, "all answer", 1)}
        yield {**about, **row(lab, repeat, "all answer", nodes)}
        lab.kill(INTERIOR, signal.SIGSTOP)
        yield {**about, **row(lab, 1, "an interior node is stopped", 1)}


def all_edges_are_open(lab: Lab) -> bool:
    """Each level but the root's knows the round trips of its edges."""
    levels = lab.document(1, TARGET, ANSWER_S_MAX)["levels"]
    return all(each["round_trip_ms_max"] for each in levels if each["level"])


def row(lab: Lab, repeat: int, what: str, position: int) -> Run:
    """So many orders one after the other."""
    found, before = [], cpu_s(lab)
    for _ in range(repeat):
        found.append(lab.document(position, TARGET, ANSWER_S_MAX))
        time.sleep(0.05)
    taken_s = sorted(each["oldest_ms"] / 1000 for each in found)
    return {
        "what": what,
        "asked_at": "root" if position == 1 else "last node",
        "orders": repeat,
        "told_least": min(each["told"] for each in found),
        "missing": sorted({each["cause"] for one in found for each in one["missing"]}),
        "p50_s": taken_s[len(taken_s) // 2],
        "most_s": taken_s[-1],
        "root_cpu_ms_per_order": round((cpu_s(lab) - before) / repeat * 1000, 1),
    }


def cpu_s(lab: Lab) -> float:
    """The processor time of the root."""
    used: dict[str, float] = lab.processes("cpu_s")["cpu_s"]
    return used[lab.address(1)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
