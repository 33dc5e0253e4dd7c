"""The part of docs/evaluation/simulator.md on moves and depth in sparse networks, from docs/figures/moves.json.

Each figure of the program is compared with that of the specification's model of the rules; a sentence below the table
names the differences.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

import records
from build_tables import table
from records import Run

from subord.sim.growth import depth_min

NAMES = {
    "dense": "dense",
    "holes": "dense, 5 % dead",
    "thirds": "every third address",
    "random": "random in a /16",
    "blocks": "five blocks in a /16",
    "end": "one block at the end of a /16",
}
MODEL = {
    ("dense", 2): (2.0, 3.0, 7),
    ("holes", 2): (2.3, 3.3, 7),
    ("thirds", 2): (6.8, 4.8, 8),
    ("random", 2): (5.0, 6.2, 8),
    ("blocks", 2): (6.0, 8.2, 10),
    ("end", 2): (12.9, 13.9, 11),
    ("dense", 8): (7.8, 8.8, 3),
    ("holes", 8): (7.4, 8.4, 3),
    ("thirds", 8): (8.1, 8.4, 4),
    ("random", 8): (10.4, 14.7, 5),
    ("blocks", 8): (11.0, 22.2, 4),
    ("end", 8): (12.6, 26.9, 5),
}
"""Moves per death and per return, and depth: the model of the rules in the specification, 200 nodes."""
MODEL_REVERSE = {2: 23}  # "up to", in the sparse layouts
ORDERS = ("ascending", "random", "reverse")


def _document() -> dict[str, Any]:
    found: dict[str, Any] = records.read("moves")
    return found


def _groups(runs: Iterable[Run]) -> dict[tuple[Any, ...], list[Run]]:
    """By layout and fan-out, small fan-out first."""
    ordered = sorted(runs, key=lambda run: (run["fanout"], list(NAMES).index(run["layout"]), run["seed"]))
    return records.in_order(ordered, "layout", "fanout")


def about() -> str:
    """The measurements and their machine."""
    document = _document()
    seeds = sorted({run["seed"] for run in document["runs"]})
    counts = [run["events"]["count"] for run in document["runs"]]
    fewest, most = min(counts), max(counts)
    return (
        f"{document['nodes']} nodes, subord {document['version']} at {document['commit']}, timing"
        f" `{document['timing']}`, network {document['network']}, guest slots as many as the fan-out,"
        f" {1000 * document['gap_s']:g} ms between two starts, one node named in `seeds`.\n"
        f"Layouts, orders and victims were drawn with {len(seeds)} seeds ({', '.join(map(str, seeds))}); with each,"
        f" {_range(fewest, most)} interior nodes of the tree started in {document['events_in']} order died and came"
        f" back, one after the other, each event until no node had moved for {document['quiet_s']:g} s.\n"
    )


def events() -> str:
    """Moves per death and return, compared with the model."""
    head = (
        "layout",
        "p",
        "subordinates of the dead",
        "dies: moves",
        "model",
        "most",
        "most beyond its subordinates",
        "by others",
        "returns: moves",
        "model",
        "most",
        "by others",
    )
    rows = []
    for (layout, fanout), runs in _groups(_document()["runs"]).items():
        died, returned, _ = MODEL[layout, fanout]
        rows.append(
            [
                NAMES[layout],
                str(fanout),
                f"{_mean(runs, 'subordinates'):.1f}",
                f"{_mean(runs, 'died'):.1f}",
                f"{died:.1f}",
                str(_most(runs, "died")),
                str(_most(runs, "died_beyond")),
                f"{_mean(runs, 'died_others'):.2f}",
                f"{_mean(runs, 'returned'):.1f}",
                f"{returned:.1f}",
                str(_most(runs, "returned")),
                f"{_mean(runs, 'returned_others'):.2f}",
            ]
        )
    return table(head, rows) + "\n" + _verdict()


def _verdict() -> str:
    """Where the program moves more than the model, with the digits of the table."""
    worse = [
        f"{NAMES[layout]}, p = {fanout}, {what}"
        for (layout, fanout), runs in _groups(_document()["runs"]).items()
        for what, key, model in zip(("dies", "returns"), ("died", "returned"), MODEL[layout, fanout], strict=False)
        if round(_mean(runs, key), 1) > model
    ]
    return f"More moves than in the model: {'; '.join(worse) or 'nowhere'}.\n"


def _mean(runs: list[Run], key: str) -> float:
    """Over the events of all seeds."""
    return statistics.fmean(
        [run["events"][key]["mean"] for run in runs], weights=[run["events"]["count"] for run in runs]
    )


def _most(runs: list[Run], key: str) -> int:
    found: int = max(run["events"][key]["max"] for run in runs)
    return found


def depths() -> str:
    """Depth by order of start, compared with the model and the least possible."""
    head = ("layout", "p", *ORDERS, "model", "least possible", "most subordinates", "last move after last start, s")
    rows = []
    for (layout, fanout), runs in _groups(_document()["runs"]).items():
        starts = [run["starts"][order] for run in runs for order in ORDERS]
        settled = [start["settled_s"] for start in starts]
        rows.append(
            [
                NAMES[layout],
                str(fanout),
                *(_over(run["starts"][order]["depth"] for run in runs) for order in ORDERS),
                str(MODEL[layout, fanout][2]),
                str(depth_min(_document()["nodes"], fanout)),
                str(max(start["subordinates_max"] for start in starts)),
                f"{min(settled):.1f}..{max(settled):.1f}",
            ]
        )
    deep = "; ".join(f"up to {depth} for p = {fanout}" for fanout, depth in MODEL_REVERSE.items())
    return table(head, rows) + f"\nIn reverse order the model's sparse layouts got deeper: {deep}.\n" + _deeper()


def _deeper() -> str:
    """Where a start of the program made a deeper tree than the model."""
    found = []
    for (layout, fanout), runs in _groups(_document()["runs"]).items():
        model = MODEL[layout, fanout][2]
        deepest = max(run["starts"][order]["depth"] for run in runs for order in ORDERS)
        if deepest > model:
            found.append(f"{NAMES[layout]}, p = {fanout}, by {deepest - model}")
    return f"Deeper than that column in some start: {'; '.join(found) or 'nowhere'}.\n"


def churn() -> str:
    """Depth while nodes die and return continuously."""
    head = ("layout", "p", "depth before", "worst at the end of a minute", "after", "deaths", "moves per death")
    rows = []
    for (layout, fanout), runs in _groups(_document()["runs"]).items():
        found = [run["churn"] for run in runs if "churn" in run]
        if found:
            deaths, moves = sum(each["deaths"] for each in found), sum(each["moves"] for each in found)
            rows.append(
                [
                    NAMES[layout],
                    str(fanout),
                    _over(each["depth_before"] for each in found),
                    str(max(max(each["depths"]) for each in found)),
                    _over(each["depth_after"] for each in found),
                    str(deaths),
                    f"{moves / deaths:.2f}",
                ]
            )
    document = _document()
    return (
        f"{document['minutes']} minutes, in each of which {100 * document['churn_per_min']:g} % of the nodes die,"
        f" the root not spared, and come back {document['churn_away_s']:g} s later.\n\n" + table(head, rows)
    )


def _over(values: Iterable[int]) -> str:
    """Lowest..highest over the seeds."""
    found = list(values)
    return _range(min(found), max(found))


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}"


PARTS: dict[str, Callable[[], str]] = {
    "moves-about": about,
    "moves-events": events,
    "moves-depth": depths,
    "moves-churn": churn,
}
