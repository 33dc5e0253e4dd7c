"""`subord linger FILE NODES`."""

from __future__ import annotations

import argparse
import json

from subord.services.asking import add_ordering, ordered_nodes, shown_coverage


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("linger", help="act on nodes until Ctrl-C")
    parser.add_argument("file")
    add_ordering(parser)


def run(arguments: argparse.Namespace) -> int:
    found = ordered_nodes(arguments, "linger", json.dumps({"file": arguments.file}).encode())
    return shown_coverage(arguments, found, [])
