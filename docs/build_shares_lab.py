"""Shares on real daemons (docs/evaluation/shares.md), from the figures of `netns-lab/lab evaluate shares` in
docs/figures/shares-lab.json.

While the file is missing, its parts say so. Runs that did not hold are listed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import records
from build_evaluation import markdown
from build_running import figures, is_held
from records import Run, if_measured, in_order, spread

NAME = "shares-lab"
CLASSES = ("web", "batch", "rest")
CASES = {
    "static": "fixed weights, `rest` on one node",
    "uneven": "shares, `rest` on one node",
    "even": "shares, all classes everywhere",
}
ROLES = ("root", "interior", "leaf")
COSTS = (("packets/s", "packets_per_s", 1), ("bytes/s", "bytes_per_s", 0), ("CPU, % of a core", "cpu_percent", 2))


def runs(part: str) -> list[Run]:
    return [run for run in records.read(NAME) if run["part"] == part]


@if_measured(NAME)
def about() -> str:
    """The machine, the program, and the shape of the labs."""
    found = records.read(NAME)
    shape = f"{found[0]['layout'].capitalize()} addresses, timing `{found[0]['timing']}`.\n"
    return records.about(found, "part", "nodes", "case", "round_s") + shape


@if_measured(NAME)
def missed() -> str:
    """The runs that did not hold."""

    def title(run: Run) -> str:
        case = f", {run['case']}" if run["case"] else ""
        return f"{run['part']}{case}, {run['nodes']} nodes, rounds of {run['round_s']:g} s, run {run['repeat'] + 1}"

    return records.missed(records.read(NAME), title)


def _held(some: Sequence[Run]) -> str:
    return f"{sum(map(is_held, some))} of {len(some)}"


def _shares(some: Sequence[Run]) -> list[str]:
    """Medians of the means, with the medians of the deviations."""
    return [
        f"{spread(figures(some, f'{name}_mean'), 1)} ± {spread(figures(some, f'{name}_std'), 1)}" for name in CLASSES
    ]


def _cases(part: str) -> Iterator[tuple[Any, ...]]:
    """Case, nodes, fan-out, round, and the runs."""
    for values, some in in_order(runs(part), "case", "nodes", "fanout", "round_s").items():
        yield (*values, some)


@if_measured(NAME)
def real() -> str:
    """What the kernel gave to each class."""
    rows = [
        [
            CASES[case],
            "-" if case == "static" else f"{round_s:g}",
            f"{nodes} ({fanout})",
            _held(some),
            *_shares(some),
            spread(figures(some, "used_percent"), 0),
            spread(figures(some, "agent_cpu_percent"), 2),
        ]
        for (case, nodes, fanout, round_s), some in in_order(
            runs("real"), "case", "nodes", "fanout", "round_s"
        ).items()
    ]
    head = ("case", "round, s", "nodes (p)", "runs that held", *(f"{name}, %" for name in CLASSES))
    return markdown([*head, "of the quotas used, %", "agent, CPU, % of a core"], rows)


@if_measured(NAME)
def cluster() -> str:
    """What the played nodes gave to each class."""
    rows = [
        [
            f"{round_s:g}",
            f"{nodes} ({fanout})",
            _held(some),
            *_shares(some),
            spread(figures(some, "followed_s"), 1),
            spread(figures(some, "back_rounds"), 0),
        ]
        for _, nodes, fanout, round_s, some in _cases("cluster")
    ]
    head = ("round, s", "nodes (p)", "runs that held", *(f"{name}, %" for name in CLASSES))
    return markdown([*head, "all obey after, s", "back after a pause, rounds"], rows)


@if_measured(NAME)
def costs() -> str:
    """What a node costs, without and with shares."""
    rows = []
    for _, nodes, _, round_s, some in _cases("cluster"):
        good = [run for run in some if "with" in run]
        rows += [[f"{nodes}", f"{round_s:g}", role, *_costs_of(good, role)] for role in ROLES]
    head = ("nodes", "round, s", "a node", *(cell for title, *_ in COSTS for cell in (f"{title}, without", "with")))
    return markdown(head, rows)


def _costs_of(some: Sequence[Run], role: str) -> Iterator[str]:
    for _, key, digits in COSTS:
        for when in ("without", "with"):
            yield spread([run[when][role][key] for run in some if role in run[when]], digits)


@if_measured(NAME)
def faults() -> str:
    """Each fault of each run."""
    rows = []
    for run in runs("faults"):
        for turn in run.get("turns", ()):
            back = "never" if turn["back_s"] is None else f"{turn['back_s']:.1f}"
            shares = "; ".join("/".join(f"{each:.0f}" for each in part["shares"]) for part in turn["parts"])
            cells = [f"{turn['edge_s']:.1f}", f"{turn['whole_s']:.1f}", back, f"{turn['worst_points']:.1f}", shares]
            rows.append([f"{run['round_s']:g}", f"{run['nodes']}", turn["fault"], *cells])
    head = ("round, s", "nodes", "fault", "last new place, s", "told = asked, s later", "shares back, s later")
    return markdown([*head, "worst, points", "shares since, %"], rows)


Aim = tuple[str, str, str, int, bool]
"""Its name, its bound, what the worst run has, the number of runs, and whether it is met."""


def aims() -> Iterator[Aim]:
    """For the table of all aims; none while nothing is measured."""
    if not records.is_measured(NAME):
        return
    nodes = [run for run in runs("real") if run["case"] == "uneven"]
    what = "shares: a class with work on one real node of four is to have 10 % of all"
    means = figures(nodes, "rest_mean")
    yield _aim(
        what, "8 to 12 %", nodes, _range(means, "%"), is_met=bool(means) and min(means) >= 8 and max(means) <= 12
    )
    many = runs("cluster")
    what = "... the same on 30 of 100 nodes: mean; deviation of a round"
    means, stds = figures(many, "rest_mean"), figures(many, "rest_std")
    found = f"{_range(means, '%')}; {max(stds, default=0.0):.2f} at most"
    is_met = bool(means) and min(means) >= 8.5 and max(means) <= 10.5 and max(stds) <= 0.8
    yield _aim(what, "8.5 to 10.5 %; 0.8", many, found, is_met=is_met)
    backs = [each for run in many for each in run.get("back_rounds", [None])]
    late = [each for each in backs if each is None or each > BACK_ROUNDS]
    found = f"{max((each for each in backs if each is not None), default=0)}, {len(late)} of {len(backs)} later"
    yield _aim(
        "... back after a class has stopped and returned, rounds", f"{BACK_ROUNDS}", many, found, is_met=not late
    )
    turns = [turn for run in runs("faults") for turn in run.get("turns", ())]
    away = [words for run in runs("faults") for words in (run["faults"] if run["fault"] is None else [run["fault"]])]
    what = "... back after a fault of the tree, rounds after the last stream to a new leader"
    found = f"{len(turns) - len(away)} of {len(turns)} faults held"
    yield _aim(what, "3", runs("faults"), found, is_met=not away and bool(turns))


BACK_ROUNDS = 4


def _range(found: Sequence[float], unit: str) -> str:
    return f"{min(found):.1f} to {max(found):.1f} {unit}" if found else "nothing"


def _aim(what: str, bound: str, some: Sequence[Run], found: str, *, is_met: bool) -> Aim:
    return what, bound, found, len(some), is_met and all(run["fault"] is None for run in some)


PARTS: dict[str, Callable[[], str]] = {
    "shares-lab-about": about,
    "shares-lab-missed": missed,
    "shares-lab-real": real,
    "shares-lab-cluster": cluster,
    "shares-lab-costs": costs,
    "shares-lab-faults": faults,
}
