#!/usr/bin/env python3
"""Measures how leaders divide nodes among classes of work, in the simulation of `subord simulate shares`.

For docs/evaluation/shares.md:

    .venv/bin/python docs/measure_shares.py --json docs/figures/shares.json
    .venv/bin/python docs/measure_shares.py --only reserves --figures 7 --seeds 1 --json docs/figures/shares.json

Rows that the file has already are kept, but for those that are measured again: the same figure and variant.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import measure_growth
import measures
import msgspec

from subord.services.shares.simulation.experiments import FIGURES
from subord.services.shares.simulation.measures import Asked, measured

VARIANTS: dict[str, dict[str, Any]] = {"bank": {}, "skewed": {"is_skewed": True}, "reserves": {"policy": "reserves"}}
ALONE = 3
"""The figure without leaders has one variant."""


def main(words: list[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="shares of classes, figure by figure of the paper")
    parser.add_argument("--only", choices=VARIANTS, nargs="+", default=list(VARIANTS), help="default: all")
    parser.add_argument("--figures", type=int, choices=FIGURES, nargs="+", default=list(FIGURES), metavar="N")
    parser.add_argument("--seeds", type=measures.natural, default=6, metavar="N", help="runs of each figure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    given = parser.parse_args(words)
    runs: list[measures.Row] = []
    if given.json is not None and given.json.exists():
        runs = json.loads(given.json.read_text(encoding="utf-8"))["runs"]
    about = measure_growth.about()
    program = {name: about[name] for name in ("version", "commit", "machine")}
    for figure, variant in ((figure, variant) for variant in given.only for figure in given.figures):
        if figure == ALONE and variant != "bank":
            continue
        found = measured(Asked(figure, range(given.seeds), **VARIANTS[variant]))
        row = {"variant": variant, **msgspec.to_builtins(found), **program}
        runs = [each for each in runs if (each["figure"], each["variant"]) != (figure, variant)]
        measure_growth.add_row({"runs": runs}, row, json.dumps(row), given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
