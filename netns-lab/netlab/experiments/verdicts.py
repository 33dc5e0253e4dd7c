"""Records that are made of turns: what must not be in them, in words, and their text for people.

A run that failed has no turns, and its failure is what must not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.experiments.evaluate import is_measured

Faults = Callable[[Record], list[str]]


def faults_of_turns(record: Record, name: str, faults_of_turn: Faults) -> list[str]:
    """Of all turns, each with its name; `name` is the key of that. A record without `fault` is not complete yet."""
    if record.get("fault") is not None:
        return [str(record["fault"])]
    return [f"{turn[name]}: {words}" for turn in record["turns"] for words in faults_of_turn(turn)]


def table_of_turns(
    records: Iterable[Record],
    faults_of: Faults,
    *,
    title: Callable[[Record], str],
    head: Sequence[str],
    row: Callable[[Record], Sequence[str]],
    left: int,
) -> str:
    """One row for each turn, and whether the run held."""
    lines = []
    for record in records:
        if is_measured(record):
            lines += [title(record), aligned([head, *map(row, record["turns"])], left)]
        lines.append(verdict(faults_of(record)))
    return "\n".join(lines)


def verdict(faults: Sequence[str]) -> str:
    return f"did not hold: {'; '.join(faults)}" if faults else "held"
