"""What must not be in a record, in words; and the text of records that are made of turns, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec

from netlab.common.results import Record
from netlab.common.tables import aligned
from netlab.experiments.evaluate import is_measured

Faults = Callable[[Record], list[str]]
P = ParamSpec("P")


def of_measured(
    faults_of: Callable[Concatenate[Record, P], list[str]],
) -> Callable[Concatenate[Record, P], list[str]]:
    """Judges runs with figures: of one that failed its failure is what must not be. A record without `fault` is not
    complete yet."""

    @wraps(faults_of)
    def either(record: Record, /, *words: P.args, **options: P.kwargs) -> list[str]:
        failure = record.get("fault")
        return faults_of(record, *words, **options) if failure is None else [str(failure)]

    return either


def faults_of_turns(record: Record, name: str, faults_of_turn: Faults) -> list[str]:
    """Of all turns, each with its name; `name` is the key of that."""
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
