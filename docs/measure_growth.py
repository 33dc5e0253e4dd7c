#!/usr/bin/env python3
"""Measures what a node costs as the cluster grows, in the simulator, for docs/evaluation/simulator.md.

    .venv/bin/python docs/measure_growth.py --json docs/figures/growth.json
    .venv/bin/python docs/measure_growth.py --nodes 1000 --fanout 2,8 --order ascending
    .venv/bin/python docs/measure_growth.py --root-alone --nodes 10000,100000 --fanout 2,8,64

The counts come from subord/sim/growth.py and depend on the seed alone; processor time and memory are this machine's.
Every row is measured in a process of its own, for its memory, and written at once: an interrupted run keeps its rows.

With `--root-alone` only a root is measured (subord/sim/rootload.py): the processor time of its longest steps, in
each part of its load.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

import msgspec

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY) not in sys.path:
    sys.path.insert(0, str(REPOSITORY))

import subord  # noqa: E402 - found by the line above
from subord.sim.growth import STARTED_WITHIN_S, Growth, Order, Start, measure  # noqa: E402
from subord.sim.rootload import LONG_S, Steps, longest_steps  # noqa: E402

SEEDS, SEEDS_UP_TO_NODES = (1, 2, 3), 1000  # larger clusters are measured once
DIGITS = 4


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    if given.root_alone:
        for nodes in given.nodes:
            for fanout in given.fanout:
                steps = longest_steps(nodes, fanout, time.process_time)
                times = ", ".join(f"{part} {1000 * s:.2f} ({what})" for part, (s, what) in steps.longest_of.items())
                long = f"{steps.long} of {steps.steps} above {1000 * LONG_S:g} ms"
                print(f"{nodes:>7} nodes, p = {fanout:<2}: longest steps in ms: {times}; {long}", flush=True)
        return 0
    starts = [
        Start(nodes=nodes, fanout=fanout, order=given.order, seed=seed)
        for nodes in given.nodes
        for fanout in given.fanout
        for seed in (SEEDS if nodes <= SEEDS_UP_TO_NODES else SEEDS[:1])
    ]
    document: dict[str, Any] = {**about(), "order": given.order, "runs": []}
    for start in starts:
        row = _apart(start)
        add_row(document, row, text_of(row), given.json)
    return 0


def add_row(document: dict[str, Any], row: dict[str, Any], text: str, path: Path | None) -> None:
    """Print a row and write the document with it: an interrupted run keeps its rows."""
    document["runs"].append(row)
    print(text, flush=True)
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what a node costs as the cluster grows")
    parser.add_argument("--nodes", type=_numbers, default=[10, 100, 1000, 10_000, 100_000], metavar="N,N,...")
    parser.add_argument("--fanout", type=_numbers, default=[2, 8, 64], metavar="P,P,...")
    parser.add_argument("--order", choices=get_args(Order), default="random", help="of the starts")
    parser.add_argument("--root-alone", action="store_true", help="only the longest steps of a root")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser.parse_args(words)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def about() -> dict[str, Any]:
    """The program, the machine and the parameters of the measurement."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "machine": {
            "cores": os.cpu_count(),
            "memory_gib": round(memory_bytes / (1 << 30), 1),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "version": subord.__version__,
        "commit": _commit(),
        "timing": Start.__struct_defaults__[-1],
        "network": Start.__struct_defaults__[-2],
        "started_within_s": STARTED_WITHIN_S,
    }


def _commit() -> str:
    """The commit of the program; changes outside subord/ do not count."""
    changed = _git("status", "--porcelain", "--", "subord")
    return _git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")


def _git(*words: str) -> str:
    command = ["git", *words]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)  # noqa: S603
    return ran.stdout.strip()


def _apart(start: Start) -> dict[str, Any]:
    """One row, measured in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(row_of, (msgspec.to_builtins(start),))


def row_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Measures in this process. `memory_mib` is its maximal resident memory, including the program."""
    load, began = os.getloadavg()[0], time.process_time()
    steps = Steps(time.process_time)
    growth = measure(msgspec.convert(fields, Start), steps)
    cpu_s = time.process_time() - began
    row = {key: fields[key] for key in ("nodes", "fanout", "seed")} | _rounded(growth)
    row["cpu_s"] = round(cpu_s, 2)
    row["cpu_s_per_s"] = round(cpu_s / growth.lasted_s, DIGITS)
    row["memory_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    row["load"] = round(load, 2)
    row["root_step_ms_max"] = round(1000 * steps.longest[0], DIGITS)
    return row


def _rounded(growth: Growth) -> dict[str, Any]:
    return {
        key: round(value, DIGITS) if isinstance(value, float) else value
        for key, value in msgspec.to_builtins(growth).items()
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as text."""
    return (
        f"{row['nodes']:>7} nodes, p = {row['fanout']:<2}, seed {row['seed']}:"
        f" tree {row['tree_s']:.2f} s, whole {row['whole_s']:.2f} s,"
        f" {row['datagrams_per_node']:.2f} datagrams a node,"
        f" depth {row['depth']}, {row['rest_datagrams_per_node_s']:.3f}/s at rest;"
        f" {row['cpu_s']:.1f} s of CPU for {row['lasted_s']:.0f} s, {row['memory_mib']:.0f} MiB,"
        f" the root's longest step {row['root_step_ms_max']:.2f} ms"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
