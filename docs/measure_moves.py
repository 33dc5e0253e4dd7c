#!/usr/bin/env python3
"""Measures moves per death and return, depth by order of start, and churn, in the simulator.

For docs/evaluation/simulator.md:

    .venv/bin/python docs/measure_moves.py --json docs/figures/moves.json
    .venv/bin/python docs/measure_moves.py --layouts end --fanout 2 --seeds 1 --events 5

The counts come from subord/sim/moves.py and depend on the seed alone. Rows are written at once, seed by seed: an
interrupted run has all layouts with fewer seeds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from pathlib import Path
from typing import Any

import measure_growth
import msgspec

from subord.sim import moves
from subord.sim.moves import LAYOUTS, ORDERS, Case, Happened, MovesRun, Order

EVENTS_IN: Order = "random"  # order of the starts before the deaths
CHURN_FANOUT = 2
DIGITS = 3


def main(words: list[str]) -> int:
    """The exit code."""
    given = _options(words)
    cases = [
        (Case(layout=layout, fanout=fanout, nodes=given.nodes, seed=seed), given.events, given.minutes)
        for seed in given.seeds
        for layout in given.layouts
        for fanout in given.fanout
    ]
    document: dict[str, Any] = {**about(given), "runs": []}
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for row in pool.imap(row_of, cases):
            measure_growth.add_row(document, row, text_of(row), given.json)
    return 0


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="moves when a node dies or returns, and depth of trees")
    parser.add_argument("--nodes", type=int, default=200, metavar="N")
    parser.add_argument("--layouts", type=lambda text: text.split(","), default=list(LAYOUTS), metavar="NAME,...")
    parser.add_argument("--fanout", type=_numbers, default=[2, 8], metavar="P,P,...")
    parser.add_argument("--seeds", type=_numbers, default=[1, 2, 3], metavar="S,S,...")
    parser.add_argument("--events", type=int, default=20, metavar="N", help="interior nodes that die and return")
    parser.add_argument("--minutes", type=int, default=10, metavar="N", help=f"of churn, with p = {CHURN_FANOUT}")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return parser.parse_args(words)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def about(given: argparse.Namespace) -> dict[str, Any]:
    """The program and the parameters of the measurement."""
    program = measure_growth.about()
    return {
        "version": program["version"],
        "commit": program["commit"],
        "timing": moves.TIMING,
        "network": moves.NETWORK,
        "nodes": given.nodes,
        "events": given.events,
        "events_in": EVENTS_IN,
        "minutes": given.minutes,
        "gap_s": moves.GAP_S,
        "quiet_s": moves.QUIET_S,
        "churn_per_min": moves.CHURN_PER_MIN,
        "churn_away_s": moves.CHURN_AWAY_S,
    }


def row_of(words: tuple[Case, int, int]) -> dict[str, Any]:
    """One case: a start in each order, deaths and returns in one of the trees, then churn."""
    case, events, minutes = words
    row: dict[str, Any] = {**msgspec.to_builtins(case), "starts": {}}
    for order in ORDERS:
        run = MovesRun(case, order)
        row["starts"][order] = {
            "depth": run.started.depth,
            "subordinates_max": run.started.subordinates_max,
            "settled_s": round(run.started.settled_s, DIGITS),
        }
        if order == EVENTS_IN:
            row["events"] = counted(moves.happen(run, events))
            if case.fanout == CHURN_FANOUT:
                row["churn"] = msgspec.to_builtins(moves.churn(MovesRun(case, order), minutes))
    return row


def counted(events: list[Happened]) -> dict[str, Any]:
    """Mean and maximum of moves; `beyond` counts moves beyond the subordinates of the dead node."""
    columns = {
        "subordinates": [each.subordinates for each in events],
        "died": [each.died for each in events],
        "died_beyond": [each.died - each.subordinates for each in events],
        "died_others": [each.died_others for each in events],
        "returned": [each.returned for each in events],
        "returned_others": [each.returned_others for each in events],
    }
    return {"count": len(events)} | {
        name: {"mean": round(statistics.fmean(values), DIGITS), "max": max(values)}
        for name, values in columns.items()
    }


def text_of(row: dict[str, Any]) -> str:
    """A row as text."""
    depths = ", ".join(f"{order} {start['depth']}" for order, start in row["starts"].items())
    events, churn = row["events"], row.get("churn")
    return (
        f"{row['layout']:>6}, p = {row['fanout']}, seed {row['seed']}: depth {depths};"
        f" deaths {events['died']['mean']:.2f} (most {events['died']['max']},"
        f" {events['died_beyond']['max']} beyond its subordinates),"
        f" returns {events['returned']['mean']:.2f} (most {events['returned']['max']})"
        + (f"; churn {churn['depth_before']} -> {max(churn['depths'])} -> {churn['depth_after']}" if churn else "")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
