"""`subord speedup`: the best number of nodes for one program. Arithmetic only; no daemon is asked."""

from __future__ import annotations

import argparse
import json
from typing import TypedDict

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.amdahl import NODES_MAX, Program, best_nodes, fault_of, speedup
from subord.client.errors import CommandError
from subord.client.options import add_json
from subord.client.text import columns, count

SOURCE = "Gankevich, Tipikin, Gaiduchok, HPCS 2015, section Node mapping"
SHOWN_AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)  # times the best number
SHOWN_WITHOUT = (1, 10, 100, 1000, 10_000)


class Point(TypedDict):
    nodes: int
    speedup: float


class Answer(TypedDict):
    """The JSON object of `--json`, but for its version.

    `best`: null when further nodes never make the program slower.
    """

    alpha: float
    beta: float
    gamma: float
    best: Point | None
    points: list[Point]
    source: str


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "speedup",
        help="compute the best number of nodes for one program",
        description="Print the number of nodes on which a program runs fastest: the maximum of "
        f"N / (1 - a + a N + b g N^3). No daemon is asked. Source: {SOURCE}.",
    )
    parser.add_argument("--alpha", type=float, required=True, metavar="A", help="serial portion of the work, 0 to 1")
    parser.add_argument(
        "--beta",
        type=float,
        required=True,
        metavar="B",
        help="diameter: the most nodes that a message passes through",
    )
    parser.add_argument(
        "--gamma", type=float, required=True, metavar="G", help="ratio of the performance of a node to that of a link"
    )
    parser.add_argument("--nodes", type=int, action="append", metavar="N", help="also the speedup on N nodes")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the best number of nodes, and the speedup there and around."""
    program = Program(arguments.alpha, arguments.beta, arguments.gamma)
    fault = fault_of(program)
    if fault is not None:
        raise CommandError(fault, exit_codes.USAGE)
    for nodes in arguments.nodes or ():
        if not 1 <= nodes <= NODES_MAX:
            raise CommandError(f"argument --nodes: from 1 to {NODES_MAX}, not {nodes}", exit_codes.USAGE)
    answer = _answer(program, arguments.nodes or [])
    print(json.dumps({"schema_version": SCHEMA_VERSION, **answer}) if arguments.json else _human(answer))
    return exit_codes.OK


def _answer(program: Program, nodes: list[int]) -> Answer:
    best = best_nodes(program)
    around = SHOWN_WITHOUT if best is None else [max(1, round(best * times)) for times in SHOWN_AROUND]
    shown = sorted({*around, *nodes} if best is None else {*around, *nodes, best})
    return {
        "alpha": program.alpha,
        "beta": program.beta,
        "gamma": program.gamma,
        "best": None if best is None else _point(program, best),
        "points": [_point(program, each) for each in shown],
        "source": SOURCE,
    }


def _point(program: Program, nodes: int) -> Point:
    return {"nodes": nodes, "speedup": speedup(program, nodes)}


def _human(answer: Answer) -> str:
    best, alpha = answer["best"], answer["alpha"]
    if best is not None:
        head = f"best on {count(best['nodes'], 'node')}: {best['speedup']:.4g} times as fast"
    elif alpha == 0:
        head = "no maximum: communication costs almost nothing, and all of the work can be shared"
    else:
        head = f"no maximum: communication costs almost nothing; never more than {1 / alpha:.4g} times as fast"
    points = [(str(each["nodes"]), f"{each['speedup']:.4g}") for each in answer["points"]]
    table = columns([("nodes", "times as fast"), *points], "  ", right=(0,))
    return "\n".join([head, "", *table, "", f"source: {answer['source']}"])
