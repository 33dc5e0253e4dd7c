"""`subord touch FILE NODES`."""

from __future__ import annotations

import argparse
import json

from subord.services.asking import add_ordering, ordered_nodes, shown_coverage


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("touch", help="append to a file on nodes")
    parser.add_argument("file")
    add_ordering(parser)


def run(arguments: argparse.Namespace) -> int:
    payload = json.dumps({"file": arguments.file}).encode()
    found = ordered_nodes(arguments, "touch", payload)
    return shown_coverage(arguments, found, [f"{name}: {n}" for name, n in sorted(found["results"].items())])
