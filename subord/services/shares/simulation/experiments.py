"""The figures of the paper as experiments: which nodes have which work, which leaders decide, and how long.

Inputs are the number of a figure, a seed and a policy; output is a Run: the usage of each round that counts. The
wanted shares are those of the paper, 60/30/10. Invariant: equal inputs give equal runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Final, NamedTuple

from subord.core.carriage.shares.interface import Row
from subord.services.shares.policy import Policy
from subord.services.shares.simulation.actors import Node
from subord.services.shares.simulation.playing import Cluster, skewed, together
from subord.services.shares.simulation.serving import fluid, lottery

WANTED: Final[Row] = (60.0, 30.0, 10.0)
IDEAL: Final[Row] = (40.0, 20.0, 40.0)
"""Of the one node with class 3 in figure 3: then all four nodes together use the wanted shares."""
STARTUP_ROUNDS: Final = 30
"""They are dropped ("after the startup the period")."""
PAUSE_ROUNDS: Final = 5
"""1.5 s, in figure 8."""
PAUSES: Final = (60, 100)
MODEST_LOAD: Final = 8.0
"""Requests of class 2 for each node and round in the second pause ("a smaller potential workload")."""
BACK_WITHIN: Final = 3.0
"""Shares are back when each is as close to the wanted one: three times the spread of class 1 on 100 nodes."""


class Figure(NamedTuple):
    """An experiment of the paper."""

    nodes: int
    leaders: int
    with_class3: range
    """Other nodes get no requests of class 3."""
    rounds: int
    """That count."""
    paper: str
    """Mean and standard deviation of class 3, as the paper prints them."""
    root_rounds: int = 1


FIGURES: Final = {
    3: Figure(4, 0, range(3, 4), 400, "2.5 static, 10 ideal"),
    4: Figure(4, 2, range(3, 4), 400, "10.5, std 2.8"),
    5: Figure(100, 10, range(30), 200, "8.9, std 0.58"),
    6: Figure(100, 10, range(30), 200, "marginally below figure 5", root_rounds=5),
    7: Figure(900, 30, range(300), 100, "below figure 5, std too"),
    8: Figure(100, 10, range(100), 110, "back in 3 rounds"),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The usage of each class in the rounds that count, and in figure 8 what the pauses did."""

    usage: list[list[float]]
    recovery_rounds: tuple[int, ...] = ()
    """For each pause the first round after it in which the shares are back, from 1 on."""
    pauses: tuple[list[list[float]], ...] = ()


def play(number: int, seed: int, policy: Policy, *, is_skewed: bool = False, is_fluid: bool = False) -> Run:
    """Figure 4 to 8."""
    figure, rng = FIGURES[number], Random(seed)
    cluster = _cluster(figure, [WANTED] * figure.nodes, rng, is_fluid=is_fluid)
    if is_skewed:
        times = skewed(figure.nodes, figure.leaders, rng, figure.root_rounds)
    else:
        times = together(figure.nodes, figure.leaders, figure.root_rounds)
    cluster.lead(figure.leaders, WANTED, policy, times)
    if number == 8:
        return _with_pauses(cluster.play(STARTUP_ROUNDS + figure.rounds, _change))
    return Run(usage=cluster.play(STARTUP_ROUNDS + figure.rounds)[STARTUP_ROUNDS:])


def play_static(number: int, seed: int, *, is_fluid: bool = False) -> Run:
    """The reference without leaders: each node has the wanted shares for ever."""
    figure = FIGURES[number]
    return Run(usage=_without_leaders(figure, [WANTED] * figure.nodes, seed, is_fluid=is_fluid))


def play_ideal(seed: int, *, is_fluid: bool = False) -> Run:
    """Figure 3: what a global division could reach."""
    figure = FIGURES[3]
    rows = [IDEAL if place in figure.with_class3 else WANTED for place in range(figure.nodes)]
    return Run(usage=_without_leaders(figure, rows, seed, is_fluid=is_fluid))


def _without_leaders(figure: Figure, rows: Sequence[Row], seed: int, *, is_fluid: bool) -> list[list[float]]:
    return _cluster(figure, rows, Random(seed), is_fluid=is_fluid).play(figure.rounds)


def _cluster(figure: Figure, rows: Sequence[Row], rng: Random, *, is_fluid: bool) -> Cluster:
    loads = [(inf, inf, inf if place in figure.with_class3 else 0.0) for place in range(figure.nodes)]
    return Cluster(loads, rows, fluid if is_fluid else lottery(rng))


def _change(number: int, nodes: Sequence[Node]) -> None:
    """Class 1 stops twice; in the second pause there is less of class 2."""
    first, second = PAUSES
    loads = {first: (0.0, inf, inf), second: (0.0, MODEST_LOAD, inf)}
    loads |= {pause + PAUSE_ROUNDS: (inf, inf, inf) for pause in PAUSES}
    if number in loads:
        for node in nodes:
            node.load(loads[number])


def _with_pauses(usage: list[list[float]]) -> Run:
    starts = [pause + PAUSE_ROUNDS for pause in PAUSES]
    ends = [*PAUSES[1:], len(usage)]
    recovered = [_recovery(usage[start:end]) for start, end in zip(starts, ends, strict=True)]
    steady = list(usage[STARTUP_ROUNDS : PAUSES[0]])
    for start, end, rounds in zip(starts, ends, recovered, strict=True):
        steady += usage[start + rounds - 1 : end]
    paused = tuple(usage[pause : pause + PAUSE_ROUNDS] for pause in PAUSES)
    return Run(usage=steady, recovery_rounds=tuple(recovered), pauses=paused)


def _recovery(usage: Sequence[Row]) -> int:
    """One more than there are rounds if the shares never come back."""
    for number, row in enumerate(usage, 1):
        if all(abs(each - share) <= BACK_WITHIN for each, share in zip(row, WANTED, strict=True)):
            return number
    return len(usage) + 1
