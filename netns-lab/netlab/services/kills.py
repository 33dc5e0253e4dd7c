"""The same order by turns: with all daemons alive, and with the death of one that leads others in its midst.

Inputs are the tree, and a function that gives the order; output is a record of each turn. A daemon that is killed is
started again before the next turn, so all turns begin with the same tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Any

from netlab.common.results import Record
from netlab.common.tables import Column
from netlab.errors import LabError
from netlab.experiments.verdicts import Faults
from netlab.lab import Lab
from netlab.services.console import Done
from netlab.services.ready import bring_back

Give = Callable[[str, int | None], Record]
"""Give the order of this name, and kill this daemon, if any, while it is carried out; a record with `took_s`."""
COLUMNS = (
    Column("whole_s", "none killed, s", 2),
    Column("killed_s", "one killed, s", 2),
    Column("later_s", "later, s", 2),
)
"""Of `figures`."""


def victims(lab: Lab, count: int, client: int) -> list[int]:
    """Leaders of others, neither root nor the node of the operator, evenly from all. Raises LabError."""
    cluster = lab.look()
    roots = {root.address for root in cluster.roots()}
    interior = sorted(set(map(lab.position, set(cluster.subordinates()) - roots)) - {client})
    if not interior:
        raise LabError("No node but the root leads others: take more --fault-nodes, or a lower --fanout.")
    return [interior[number * len(interior) // count] for number in range(count)]


def by_turns(lab: Lab, count: int, client: int, give: Give) -> list[Record]:
    """So many turns of each kind."""
    turns = []
    for number, victim in enumerate(victims(lab, count, client)):
        lab.progress(f"turn {number + 1} of {count}")
        turns.append({"victim": None, **give(f"whole-{number}", None)})
        below = len(lab.look().subordinates()[lab.address(victim)])
        found = give(f"killed-{number}", victim)
        turns.append({"victim": lab.address(victim), "subordinates": below, **found})
    return turns


def figures(turns: list[Record]) -> Record:
    """How long they took, and how much later than the median without a death the others were."""
    whole = [turn["took_s"] for turn in turns if turn["victim"] is None]
    killed = [turn["took_s"] for turn in turns if turn["victim"] is not None]
    later = [took_s - median(whole) for took_s in killed]
    return {"turns": turns, "whole_s": whole, "killed_s": killed, "later_s": later}


def answer(done: Done) -> dict[str, Any]:
    """The document with the coverage, which `--json` prints last. Raises LabError."""
    try:
        found: dict[str, Any] = json.loads(done.out.splitlines()[-1])
    except (IndexError, ValueError):
        raise LabError(f"The command printed no answer, and ended with {done.code}: {done.err.strip()}") from None
    return found


def missing(found: dict[str, Any]) -> dict[str, list[str]]:
    """Addresses by cause."""
    return {each["cause"]: each["addresses"] for each in found["missing"]}


def recover(lab: Lab, victim: int | None) -> None:
    if victim is not None:
        bring_back(lab, victim)


def faults_of_answer(turn: Record) -> list[str]:
    """Nodes that live, and that the answer lacks; and an answer that is not true to its exit code."""
    strangers = {
        cause: [address for address in addresses if address != turn["victim"]]
        for cause, addresses in turn["missing"].items()
    }
    found = [f"missing as {cause}: {', '.join(some)}" for cause, some in strangers.items() if some]
    wrong = bool(turn["code"]) != bool(turn["missing"])
    return found + ([f"exit code {turn['code']} with {len(turn['missing'])} causes"] if wrong else [])


def faults_of_turns(record: Record, faults_of_turn: Faults) -> list[str]:
    """Each with the node that was killed."""
    return [
        f"{turn['victim'] or 'none'} killed: {words}"
        for turn in record["turns"]
        for words in (*faults_of_answer(turn), *faults_of_turn(turn))
    ]
