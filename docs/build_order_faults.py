"""What orders name while nodes, agents or the order itself are at fault (docs/evaluation/order-faults.md), from
docs/figures/agents.json and order-faults.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import records
from build_evaluation import markdown

UNTOLD = ("start", "expect", "pass", "answered", "resume", "mend")
"""Steps of a scenario that are no fault."""
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


def orders() -> str:
    """One row for each step `answered` that was played: all runs together. The last one of a run may have failed."""
    rows = []
    for some in records.groups(records.read("order-faults")["scenarios"], "scenario").values():
        played = [list(_waits(each)) for each in some]
        for number, (what, _) in enumerate(max(played, key=len)):
            waits = [each[number] for each in played if len(each) > number]
            seen = [found for _, found in waits if found is not None]
            rows.append(
                [
                    what,
                    records.spread([each["orders"] for each in seen], 0),
                    _causes([each["missing"] for each in seen]),
                    records.spread([each["took_s_max"] for each in seen], 2),
                    f"{len(seen)} of {len(waits)}",
                ]
            )
    return markdown(["what was done", "orders", "missing, of all together", "all answered after, s", "held"], rows)


def _waits(scenario: Turn) -> Iterator[tuple[str, Turn | None]]:
    """What was done before each `answered`, and what was seen then; None: it failed."""
    words: list[str] = []
    for each in scenario["steps"]:
        step = each["step"]
        if step["do"] == "answered":
            yield ", ".join(words), each["seen"]
            words = []
        elif step["do"] not in UNTOLD:
            words.append(_in_words(step))
    if "(answered)" in (scenario["failure"] or ""):
        yield ", ".join(words), None


def _in_words(step: Turn) -> str:
    nodes = step.get("nodes") or ", ".join(step.get("groups", ()))
    times = f", {step['times']} each" if step.get("times", 1) > 1 else ""
    return f"{step['do']} {nodes}{times}"


def _causes(missing: list[dict[str, int]]) -> str:
    """Lowest and highest number of each cause."""
    causes = sorted({cause for each in missing for cause in each})
    cells = []
    for cause in causes:
        numbers = [each.get(cause, 0) for each in missing]
        low, high = min(numbers), max(numbers)
        cells.append(f"{low:,} `{cause}`" if low == high else f"{low:,} to {high:,} `{cause}`")
    return ", ".join(cells) or ("none" if missing else "-")


def orders_about() -> str:
    machine = records.read("order-faults")["machine"]
    return f"Machine: {records.box(machine)}; load of the minute before the last result {machine['load']:.1f}.\n"


PARTS: dict[str, Callable[[], str]] = {
    "agents-about": agents_about,
    "agents-table": agents,
    "order-faults-about": orders_about,
    "order-faults-table": orders,
}
