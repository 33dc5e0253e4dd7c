"""`subord ping`: which nodes answer over the tree, and which do not and why."""

from __future__ import annotations

import argparse

from subord.client.daemon import Document
from subord.client.text import count
from subord.services.asking import add_asking_nodes, asked_nodes, shown_coverage


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "ping",
        help="ask nodes over the tree whether they answer",
        description="Send an order down the tree that each node answers, and print how many nodes answered, and "
        "which did not and why. Without NODES all members are asked, also those that are down.",
    )
    add_asking_nodes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints a line for each level, then the coverage; returns OK if it is whole."""
    found = asked_nodes(arguments, "ping")
    return shown_coverage(arguments, found, map(_level, found["levels"]))


def _level(level: Document) -> str:
    slowest = level["round_trip_ms_max"]
    trip = "" if slowest is None else f", round trip to the leader up to {slowest:g} ms"
    return f"level {level['level']}: {count(level['nodes'], 'node')}{trip}"
