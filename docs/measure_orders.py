#!/usr/bin/env python3
"""Measures orders among real, sealed daemons: `ping` and `errors` of all nodes, also around a node that hangs, for
docs/evaluation/orders.md.

    .venv/bin/python docs/measure_orders.py --repeat 20 --json docs/figures/orders.json
    .venv/bin/python docs/measure_orders.py --nodes 100 --fanout 8 --repeat 5
    .venv/bin/python docs/measure_orders.py --only errors --before DIR --json docs/figures/errors.json
    .venv/bin/python docs/measure_orders.py --only row --nodes 100 --repeat 10000 --json docs/figures/orders-row.json

Each lab is started once. The time is that from the request to the document: of a ping as the asked daemon tells it,
of errors as the client sees it. The processor time is that of the root, by the kernel, over all orders of a row, and
the bytes are those on its link. With --before each cluster is measured with the daemons of another release or
checkout, too. A row are pings of 1 KiB, one after the other; printed is the memory of root and last node meanwhile.
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
PAUSE_S = 0.05
TARGET = "/v1/ping?budget=8"
ERRORS = "/v1/errors?budget=8"
LOOKS = 10
"""At memory, while a row of orders is given."""
ROW = f"{TARGET}&payload={'x' * 1024}"


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="times of orders to all nodes")
    parser.add_argument("--nodes", type=natural, nargs="+", default=[100, 300, 500])
    parser.add_argument("--fanout", type=natural, nargs="+", default=[2, 8])
    parser.add_argument("--repeat", type=natural, default=20, metavar="N", help="orders of each row")
    parser.add_argument("--only", choices=("ping", "errors", "row"), help="measure this question alone")
    parser.add_argument("--before", metavar="DIR", help="errors also of daemons of this directory or wheel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    about = {"machine": measure.machine(), "commit": measure.commit(), "repeat": given.repeat}
    runs: list[Run] = []
    for nodes in given.nodes:
        for fanout in given.fanout:
            for run in (*of_lab(nodes, fanout, given), *of_before(nodes, fanout, given)):
                print(json.dumps(run), flush=True)
                runs.append(run)
                if given.json is not None:
                    results.write_json(given.json, {**about, "runs": runs})
    return 0


def of_lab(nodes: int, fanout: int, given: argparse.Namespace) -> Iterator[Run]:
    """The rows of one cluster: asked at the root, at the last node, and while an interior node is stopped."""
    with Lab(nodes=nodes, fanout=fanout) as lab:
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        wait_until(lambda: all_edges_are_open(lab), STABLE_S_MAX, 0.5)
        about = {"nodes": nodes, "fanout": fanout}
        if given.only == "row":
            yield from ({**about, **look} for look in memory_in_a_row(lab, given.repeat, nodes))
            return
        kinds = [given.only] if given.only else ["ping", "errors"]
        for kind in kinds:
            yield {**about, **row(lab, given.repeat, "all answer", 1, kind)}
            yield {**about, **row(lab, given.repeat, "all answer", nodes, kind)}
        for kind in kinds:
            lab.kill(INTERIOR, signal.SIGSTOP)
            yield {**about, **row(lab, 1, "an interior node is stopped", 1, kind)}
            lab.kill(INTERIOR, signal.SIGCONT)
            lab.wait_stable(STABLE_S_MAX)


def of_before(nodes: int, fanout: int, given: argparse.Namespace) -> Iterator[Run]:
    """The same for the errors of other daemons."""
    if given.before is None:
        return
    with Lab(nodes=nodes, fanout=fanout, previous=given.before, old=range(1, nodes + 1)) as lab:
        lab.start_all()
        lab.wait_stable(STABLE_S_MAX)
        about = {"nodes": nodes, "fanout": fanout, "before": True}
        yield {**about, **row(lab, given.repeat, "all answer", 1, "errors")}
        yield {**about, **row(lab, given.repeat, "all answer", nodes, "errors")}
        lab.kill(INTERIOR, signal.SIGSTOP)
        yield {**about, **row(lab, 1, "an interior node is stopped", 1, "errors")}


def all_edges_are_open(lab: Lab) -> bool:
    """Each level but the root's knows the round trips of its edges."""
    levels = lab.document(1, TARGET, ANSWER_S_MAX)["levels"]
    return all(each["round_trip_ms_max"] for each in levels if each["level"])


def row(lab: Lab, repeat: int, what: str, position: int, kind: str) -> Run:
    """So many orders one after the other."""
    before, bytes_before = cpu_s(lab), root_bytes(lab)
    asked = [ask(lab, position, kind) for _ in range(repeat)]
    taken_s = sorted(seconds for seconds, _, _ in asked)
    return {
        "kind": kind,
        "what": what,
        "asked_at": "root" if position == 1 else "last node",
        "orders": repeat,
        "told_least": min(told for _, told, _ in asked),
        "missing": sorted({cause for _, _, causes in asked for cause in causes}),
        "p50_s": taken_s[len(taken_s) // 2],
        "most_s": taken_s[-1],
        "root_cpu_ms_per_order": round((cpu_s(lab) - before) / repeat * 1000, 1),
        "root_bytes_per_order": round((root_bytes(lab) - bytes_before) / repeat),
    }


def memory_in_a_row(lab: Lab, repeat: int, last: int) -> Iterator[Run]:
    """The memory of two nodes, at the start and after each LOOKS-th part of the orders."""
    done, told_least = 0, last
    began = time.monotonic()
    for look in range(LOOKS + 1):
        while done < look * repeat // LOOKS:
            found = lab.document(1, ROW, ANSWER_S_MAX)
            told_least, done = min(told_least, found["told"]), done + 1
        used = lab.processes("private_mib")["private_mib"]
        yield {
            "kind": "row",
            "orders": done,
            "told_least": told_least,
            "root_mib": round(used[lab.address(1)], 2),
            "last_node_mib": round(used[lab.address(last)], 2),
            "took_s": round(time.monotonic() - began, 1),
        }


def ask(lab: Lab, position: int, kind: str) -> tuple[float, int, list[str]]:
    """The seconds of one order, how many nodes answered, and the causes of the others."""
    time.sleep(PAUSE_S)
    began = time.monotonic()
    found = lab.document(position, ERRORS if kind == "errors" else TARGET, ANSWER_S_MAX)
    took_s = time.monotonic() - began
    if kind == "ping":
        return found["oldest_ms"] / 1000, found["told"], [each["cause"] for each in found["missing"]]
    coverage = found.get("coverage")
    if coverage is None:  # of daemons before orders
        return took_s, found["nodes"], ["silent"] * bool(found["silent_nodes"])
    return took_s, coverage["told"], [each["cause"] for each in coverage["missing"]]


def cpu_s(lab: Lab) -> float:
    """The processor time of the root."""
    used: dict[str, float] = lab.processes("cpu_s")["cpu_s"]
    return used[lab.address(1)]


def root_bytes(lab: Lab) -> int:
    """Sent and brought, on the link of the root so far."""
    ports = lab.ports()
    return int(ports["sent"][lab.address(1)][0] + ports["brought"][lab.address(1)][0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
