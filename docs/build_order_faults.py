"""What orders name while agents or the order itself are at fault (docs/evaluation/order-faults.md), from
docs/figures/agents.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import records
from build_evaluation import markdown

Turn = dict[str, Any]


def agents_about() -> str:
    return records.about(records.read("agents"), "nodes")


def agents() -> str:
    """One row for each fault of the agents: all runs together."""
    runs = records.read("agents")
    turns: dict[str, list[Turn]] = {}
    for run in runs:
        for turn in run.get("turns", ()):
            turns.setdefault(turn["harm"], []).append(turn)
    rows = [
        [
            harm,
            "; ".join(sorted({_missing(map(_in_ranges, _first(turn))) for turn in some})),
            records.spread([_longest(_first(turn)) for turn in some], 2),
            records.spread([_longest(_again(turn)) for turn in some], 2),
            f"{sum(run.get('faults') == [] for run in runs)} of {len(runs)}",
        ]
        for harm, some in turns.items()
    ]
    return markdown(["fault", "missing", "answered after, s", "the same order again, s", "runs that held"], rows)


def _first(turn: Turn) -> list[Turn]:
    return list(turn["answers"][::2])


def _again(turn: Turn) -> list[Turn]:
    return list(turn["answers"][1::2])


def _longest(answers: Iterable[Turn]) -> float:
    return max(float(each["took_s"]) for each in answers)


def _in_ranges(answer: Turn) -> Counter[str]:
    """Nodes by cause."""
    return Counter({cause: sum(map(_size, text.split(","))) for cause, text in answer["missing"].items()})


def _size(text: str) -> int:
    first, _, last = text.partition("-")
    return int(last or first) - int(first) + 1


def _missing(counts: Iterable[Counter[str]]) -> str:
    found = sum(counts, Counter[str]())
    return ", ".join(f"{number:,} `{cause}`" for cause, number in sorted(found.items())) or "none"


PARTS: dict[str, Callable[[], str]] = {
    "agents-about": agents_about,
    "agents-table": agents,
}
