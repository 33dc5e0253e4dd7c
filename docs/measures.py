"""What the scripts that measure several things in the simulator share: options, and rows that are written at once."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import measure_growth

Row = dict[str, Any]
Measure = Callable[[int], Iterator[Row]]  # of a number of seeds


def run(words: list[str], description: str, measures: Mapping[str, Measure], seeds: int, **about: Any) -> int:
    """The exit code. An interrupted run keeps its rows; `about` stands in the head of the file."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", choices=sorted(measures), nargs="+", help="these measures; default: all")
    parser.add_argument("--seeds", type=natural, default=seeds, metavar="N", help="runs of each row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    document: dict[str, Any] = {**measure_growth.about(), "seeds": given.seeds, **about, "runs": []}
    for what in given.only or measures:
        for row in measures[what](given.seeds):
            named = {"what": what, **row}
            measure_growth.add_row(document, named, json.dumps(named), given.json)
    return 0


def over_trees(
    words: list[str],
    description: str,
    sizes: list[int],
    times: tuple[str, int],
    measured: Callable[[int, int, int], Row],
) -> int:
    """The exit code. A row for each fan-out and number of nodes. `times`: the option with the number that `measured`
    gets after these two, and its default."""
    name, default = times
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--nodes", type=natural, nargs="+", default=sizes, metavar="N")
    parser.add_argument("--fanout", type=natural, nargs="+", default=[2, 8], metavar="P")
    parser.add_argument(f"--{name}", type=natural, default=default, metavar="K", help="of each tree")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    document: dict[str, Any] = {**measure_growth.about(), "runs": []}
    for fanout in given.fanout:
        for nodes in given.nodes:
            row = measured(nodes, fanout, getattr(given, name))
            measure_growth.add_row(document, row, json.dumps(row), given.json)
    return 0


def natural(text: str) -> int:
    """A number of at least 1. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)
