#!/usr/bin/env python3
"""Measures starts, healing and the cost of the seal in two checkouts, by turns, for docs/evaluation/releases.md.

    .venv/bin/python docs/measure_releases.py --against ../before --repeat 5 --json docs/figures/releases.json

Each checkout has its own .venv (`./dev setup`) and runs its own lab. In each repeat both run the same command, one
right after the other, so that what else the machine does happens to both. An interrupted measurement keeps its runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "netns-lab"), str(REPOSITORY / "docs")]

from measures import natural  # noqa: E402 - found by the line above
from netlab.common import measure, results  # noqa: E402

Run = dict[str, Any]
NOT_STABLE = 3  # exit code of the lab: the figures are there, and a run was not stable
START = ("stable_s", "stable_after_last_start_s", "datagrams_per_node", "cpu_s_per_node", "leader_changes_per_node")
REST = ("rest_packets_per_s", "rest_bytes_per_s", "rest_cpu_percent", "pss_mib_per_node")


def _of_starts(document: Any) -> Iterator[Run]:
    for run in document:
        name = f"start of {run['nodes']}, p = {run['fanout']}"
        yield {"name": name, "stable": run["stable"], **{key: run.get(key) for key in (*START, *REST)}}


def _of_healing(document: Any) -> Iterator[Run]:
    for row in document["rows"]:
        name = f"{row['what']} of the {row['role']}, {document['nodes']} nodes, p = {document['fanout']}"
        figures = ("attached_p50_s", "attached_p99_s", "roster_s_max", "moves_mean", "others")
        yield {"name": name, "stable": row["orphans"] == row["attached"], **{key: row.get(key) for key in figures}}


def _of_sealing(document: Any) -> Iterator[Run]:
    for run in document:
        name = f"rest of {run['nodes']}, p = {run.get('fanout', 8)}, {run['way']}"
        yield {"name": name, "stable": run.get("stable"), **{key: run.get(key) for key in REST}}


MEASURES: dict[str, tuple[tuple[str, ...], Callable[[Any], Iterator[Run]]]] = {
    "start": (("stabilise", "--nodes", "500", "--fanout", "2,8", "--repeat", "1", "--rest", "5"), _of_starts),
    "heal": (("heal", "--nodes", "300", "--fanout", "2", "--times", "2"), _of_healing),
    "sealing": (("evaluate", "sealing", "--nodes", "100", "--repeat", "1"), _of_sealing),
}


def measured(checkout: Path, what: str) -> Iterator[Run]:
    """The figures of one run of the lab. Raises SystemExit when it gave none."""
    words, read = MEASURES[what]
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "figures.json"
        command = [str(checkout / ".venv/bin/python"), str(checkout / "netns-lab/lab"), *words, "--json", str(path)]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode not in (0, NOT_STABLE) or not path.exists():
            raise SystemExit(
                f"{checkout}: lab {' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}"
            )
        yield from read(json.loads(path.read_text(encoding="utf-8")))


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path, required=True, metavar="DIRECTORY", help="the other checkout")
    parser.add_argument("--repeat", type=natural, default=5, metavar="N", help="turns of each measure")
    parser.add_argument("--only", choices=MEASURES, nargs="+", help="these measures; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the runs to this file")
    given = parser.parse_args(words)
    checkouts = {"before": given.against.resolve(), "now": REPOSITORY}
    commits = {name: measure.commit(path) for name, path in checkouts.items()}
    runs: list[Run] = []
    for repeat in range(given.repeat):
        for what in given.only or MEASURES:
            for release, checkout in checkouts.items():
                for run in measured(checkout, what):
                    runs.append({"what": what, "release": release, "repeat": repeat, **run})
                    print(json.dumps(runs[-1]), flush=True)
            if given.json is not None:
                document = {"machine": measure.machine(), "commits": commits, "runs": runs}
                results.write_json(given.json, document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
