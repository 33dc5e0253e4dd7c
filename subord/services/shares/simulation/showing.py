"""A figure as lines for a terminal: what was measured, and beside it what was wanted and what the paper prints."""

from __future__ import annotations

from subord.client.text import columns, count
from subord.services.shares.simulation.actors import PERIOD_S
from subord.services.shares.simulation.experiments import FIGURES, WANTED
from subord.services.shares.simulation.measures import ClassFigures, Recovery, Shares, ThreeClasses

_NAMES = ("class1", "class2", "class3")


def lines(shares: Shares) -> list[str]:
    """The whole output of the command."""
    return [_head(shares), "", *columns(_rows(shares), "  ", right=range(1, 9)), *_more(shares)]


def _head(shares: Shares) -> str:
    figure = FIGURES[shares.figure]
    leaders = "without leaders" if not figure.leaders else f"under {count(figure.leaders, 'leader')}"
    where = "all" if len(figure.with_class3) == figure.nodes else str(len(figure.with_class3))
    times = f", the root decides in each {figure.root_rounds}th round" if figure.root_rounds > 1 else ""
    skew = ", skewed reports" if shares.skewed else ""
    policy = "" if not figure.leaders else f", {shares.policy}"
    return (
        f"figure {shares.figure}: {count(shares.nodes, 'node')} {leaders}, class 3 on {where}{times}{skew}{policy};"
        f" {count(shares.seeds, 'seed')} from {shares.first} on, {shares.rounds} rounds of {PERIOD_S:g} s each"
    )


def _rows(shares: Shares) -> list[list[str]]:
    rows = [["% of all nodes", "mean", "std", "wanted", "static", "paper"]]
    static = shares.static
    for name, wanted in zip(_NAMES, WANTED, strict=True):
        found = _of(shares, name)
        reference = "" if static is None else f"{_of(static, name).mean:.2f}"
        paper = FIGURES[shares.figure].paper if name == _NAMES[-1] else ""
        rows.append([name, f"{found.mean:.2f}", f"{found.std:.2f}", f"{wanted:g}", reference, paper])
    return rows


def _more(shares: Shares) -> list[str]:
    found = []
    if (recoveries := shares.recovery_rounds) is not None:
        found += ["", "rounds until the shares are back after a pause of class 1:"]
        found += [f"  {_recovery('fluid', recoveries.fluid)}", f"  {_recovery('noisy', recoveries.noisy)}"]
    for number, pause in enumerate(shares.pauses or (), 1):
        means = ", ".join(f"{name} {_of(pause, name).mean:.1f}" for name in _NAMES)
        found.append(f"  in pause {number}: {means}")
    if (times := shares.decision_s) is not None:
        one = f"{times.all_nodes * 1000:.2f} ms by one leader of all nodes"
        found += ["", f"a decision takes {times.leader * 1000:.2f} ms by a leader of the tree, {one}"]
    return found


def _of(classes: Shares | ThreeClasses, name: str) -> ClassFigures:
    found: ClassFigures = getattr(classes, name)
    return found


def _recovery(name: str, recovery: Recovery) -> str:
    return f"{name}: {recovery.mean:.1f}, at most {recovery.max}"
