"""The parts of docs/evaluation/shares.md, from docs/figures/shares.json, which docs/measure_shares.py writes.

Each row is held against the aim of its figure; a row that misses it stays, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import records
from build_tables import table
from records import Run, one

from subord.services.shares.simulation.experiments import BACK_WITHIN, FIGURES, STARTUP_ROUNDS

CLASSES = ("class1", "class2", "class3")
NAMES = {"bank": "bank", "skewed": "bank, skewed reports", "reserves": "cluster reserves"}


def runs() -> list[Run]:
    """By figure and variant."""
    order = list(NAMES)
    found: list[Run] = records.read("shares")["runs"]
    return sorted(found, key=lambda run: (run["figure"], order.index(run["variant"])))


def about() -> str:
    """The program, and how much was played."""
    programs = sorted({f"{run['version']} at {run['commit']}" for run in runs()})
    machines = sorted({f"{run['machine']['cores']} cores, Python {run['machine']['python']}" for run in runs()})
    return f"subord {', '.join(programs)}; times of decisions on {'; '.join(machines)}.\n"


def usage() -> str:
    """Each figure and variant: mean and deviation of each class, the references, and the aim."""
    head = ("figure", "nodes", "policy", "seeds", *CLASSES, "static, class3", "paper, class3", "aim, class3", "holds")
    rows = []
    for run in runs():
        figure = FIGURES[run["figure"]]
        static = run["static"]["class3"] if run["static"] else None
        aim, holds = _aim(run)
        rows.append(
            [
                str(run["figure"]),
                f"{figure.nodes} under {figure.leaders}" if figure.leaders else str(figure.nodes),
                NAMES[run["variant"]] if figure.leaders else "ideal",
                str(run["seeds"]),
                *(_mean_and_std(run[name]) for name in CLASSES),
                _mean_and_std(static) if static else "-",
                figure.paper,
                aim,
                "yes" if holds else "**no**",
            ]
        )
    return table(head, rows)


def _mean_and_std(found: Run) -> str:
    return f"{found['mean']:.2f} ± {found['std']:.2f}"


def _aim(run: Run) -> tuple[str, bool]:
    """Of class 3, in words, and whether it is met."""
    mean, std = run["class3"]["mean"], run["class3"]["std"]
    if run["figure"] == 3:
        static = run["static"]["class3"]["mean"]
        return "10 ± 0.3, static 2.5 ± 0.1", abs(mean - 10) <= 0.3 and abs(static - 2.5) <= 0.1
    if run["figure"] == 4:
        return "10 ± 1.5, std < 3.6", abs(mean - 10) <= 1.5 and std < 3.6
    if run["figure"] == 5:
        return "8.5 to 10.5, std < 0.8", 8.5 <= mean <= 10.5 and std < 0.8
    if run["figure"] == 8:
        rounds = run["recovery_rounds"]
        return "back in 3 rounds, 4 with noise", rounds["fluid"]["max"] <= 3 and rounds["noisy"]["max"] <= 4
    (fifth,) = one(runs(), figure=5, variant=run["variant"])
    if run["figure"] == 6:
        return "within 0.5 of figure 5", abs(mean - fifth["class3"]["mean"]) <= 0.5
    return "std below figure 5", std < fifth["class3"]["std"]


def recovery() -> str:
    """Figure 8: rounds until the shares are back, and what the classes get in the pauses."""
    head = ("policy", "as a fluid", "by lottery: mean", "worst", "first pause: class2, class3", "second pause")
    rows = []
    for run in one(runs(), figure=8):
        fluid, noisy = run["recovery_rounds"]["fluid"], run["recovery_rounds"]["noisy"]
        pauses = [f"{each['class2']['mean']:.1f}, {each['class3']['mean']:.1f}" for each in run["pauses"]]
        row = [NAMES[run["variant"]], f"{fluid['max']}", f"{noisy['mean']:.1f}", f"{noisy['max']}", *pauses]
        rows.append(row)
    return f"Back: all classes within {BACK_WITHIN:g} percent of the wanted shares.\n\n" + table(head, rows)


def decisions() -> str:
    """How long a decision takes, by the number of branches."""
    return table(("policy", "branches", "ms"), _decisions())


def _decisions() -> Iterator[list[str]]:
    for variant in ("bank", "reserves"):
        for number in (4, 5, 7):
            for run in (each for each in runs() if (each["figure"], each["variant"]) == (number, variant)):
                yield [NAMES[variant], str(run["nodes"]), f"{1000 * run['decision_s']['all_nodes']:.2f}"]


def rounds() -> str:
    """How long each figure is played."""
    kept = sorted({(figure.nodes, figure.rounds) for number, figure in FIGURES.items() if number != 8})
    words = ", ".join(f"{count} with {nodes} nodes" for nodes, count in kept)
    return f"The first {STARTUP_ROUNDS} rounds of each seed are dropped; the next {words} count.\n"


PARTS: dict[str, Callable[[], str]] = {
    "shares-about": about,
    "shares-rounds": rounds,
    "shares-usage": usage,
    "shares-recovery": recovery,
    "shares-decisions": decisions,
}
