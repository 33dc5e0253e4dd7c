"""The numbers of a figure, over all seeds, as the document of `subord simulate shares --json`.

Inputs are the number of a figure, the seeds, and the policy; output is a Shares document. A mean and its standard
deviation are over all rounds of all seeds that count. Invariant: but for `decision_s`, equal inputs give equal
documents on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import inf
from random import Random
from statistics import fmean, pstdev
from time import process_time
from typing import Final, Literal, NamedTuple

import msgspec

from subord.api.models.document import Document
from subord.core.carriage.shares.interface import Branch, Decision, Row
from subord.services.shares.bank import Bank
from subord.services.shares.policy import Policy
from subord.services.shares.reserves import Reserves
from subord.services.shares.simulation import experiments
from subord.services.shares.simulation.experiments import FIGURES, WANTED, Run
from subord.services.shares.simulation.playing import Cluster, together
from subord.services.shares.simulation.serving import lottery

PolicyName = Literal["bank", "reserves"]
POLICIES: Final[dict[PolicyName, Callable[[], Policy]]] = {"bank": Bank, "reserves": Reserves}
DECISIONS: Final = 3
"""Of one leader of all nodes, to measure how long it takes."""
_DIGITS: Final = 4


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one class, in percent of all nodes: mean and standard deviation of the rounds."""

    mean: float
    std: float


class ThreeClasses(msgspec.Struct, frozen=True, kw_only=True):
    """All classes."""

    class1: ClassFigures
    class2: ClassFigures
    class3: ClassFigures


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Rounds from the end of a pause to the first one with the wanted shares; `max`: the worst pause."""

    mean: float
    max: int


class Recoveries(msgspec.Struct, frozen=True, kw_only=True):
    """`fluid`: exact shares in each round. `noisy`: requests by lottery, all seeds."""

    fluid: Recovery
    noisy: Recovery


class DecisionTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Mean time of one decision in seconds. `leader`: in the tree. `all_nodes`: one leader of all nodes."""

    leader: float
    all_nodes: float


class Shares(Document, frozen=True, kw_only=True):
    """One figure of the paper. `null`: not of this figure.

    `class1` to `class3`: in figure 3 those of `ideal`, in figure 8 without the pauses. `static`: without leaders.
    """

    figure: int
    seeds: int
    first: int
    policy: PolicyName
    skewed: bool
    nodes: int
    rounds: int
    class1: ClassFigures
    class2: ClassFigures
    class3: ClassFigures
    static: ThreeClasses | None = None
    ideal: ThreeClasses | None = None
    recovery_rounds: Recoveries | None = None
    pauses: tuple[ThreeClasses, ...] | None = None
    decision_s: DecisionTimes | None = None


class Timed:
    """A policy that notes how long each decision takes."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.lasted: list[tuple[int, float]] = []
        """Branches, and seconds."""

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """As the policy does."""
        began = process_time()
        decision = self._policy.decide(branches, wanted, accounts)
        self.lasted.append((len(branches), process_time() - began))
        return decision


class Asked(NamedTuple):
    """What is to be measured."""

    figure: int
    seeds: range
    policy: PolicyName = "bank"
    is_skewed: bool = False


def measured(asked: Asked, tell: Callable[[int], None] = lambda _: None) -> Shares:
    """Plays all seeds; `tell` hears how many are done. Raises NoSolverError and UnsolvedError of cluster reserves."""
    if asked.figure == 3:
        return _figure3(asked)
    timed = Timed(POLICIES[asked.policy]())
    runs = []
    for seed in asked.seeds:
        runs.append(experiments.play(asked.figure, seed, timed, is_skewed=asked.is_skewed))
        tell(len(runs))
    usage = [run.usage for run in runs]
    more = {} if asked.figure != 8 else _pauses(asked, runs)
    if asked.figure != 8:
        static = [experiments.play_static(asked.figure, seed).usage for seed in asked.seeds]
        more = {"static": _three(static)}
    times = DecisionTimes(leader=_short(fmean(seconds for _, seconds in timed.lasted)), all_nodes=_time_of_all(asked))
    return _document(asked, _three(usage), decision_s=times, **more)


def _document(asked: Asked, classes: ThreeClasses, **more: object) -> Shares:
    figure = FIGURES[asked.figure]
    given: dict[str, object] = {
        "figure": asked.figure,
        "seeds": len(asked.seeds),
        "first": asked.seeds.start,
        "policy": asked.policy,
        "skewed": asked.is_skewed,
        "nodes": figure.nodes,
        "rounds": figure.rounds,
        "class1": classes.class1,
        "class2": classes.class2,
        "class3": classes.class3,
    }
    return Shares(**given, **more)  # type: ignore[arg-type]


def _figure3(asked: Asked) -> Shares:
    static = _three([experiments.play_static(3, seed).usage for seed in asked.seeds])
    ideal = _three([experiments.play_ideal(seed).usage for seed in asked.seeds])
    return _document(asked, ideal, static=static, ideal=ideal)


def _pauses(asked: Asked, runs: Sequence[Run]) -> dict[str, object]:
    exact = experiments.play(
        asked.figure, asked.seeds.start, POLICIES[asked.policy](), is_skewed=asked.is_skewed, is_fluid=True
    )
    noisy = list(chain.from_iterable(run.recovery_rounds for run in runs))
    recoveries = Recoveries(fluid=_recovery(exact.recovery_rounds), noisy=_recovery(noisy))
    pauses = [_three(each) for each in zip(*[run.pauses for run in runs], strict=True)]
    return {"recovery_rounds": recoveries, "pauses": tuple(pauses)}


def _recovery(rounds: Sequence[int]) -> Recovery:
    return Recovery(mean=_short(fmean(rounds)), max=max(rounds))


def _three(runs: Sequence[Sequence[Row]]) -> ThreeClasses:
    columns = list(zip(*chain.from_iterable(runs), strict=True))
    one, two, three = (ClassFigures(mean=_short(fmean(each)), std=_short(pstdev(each))) for each in columns)
    return ThreeClasses(class1=one, class2=two, class3=three)


def _time_of_all(asked: Asked) -> float:
    """Of one leader of all nodes, without a tree."""
    figure = FIGURES[asked.figure]
    timed = Timed(POLICIES[asked.policy]())
    loads = [(inf, inf, inf if place in figure.with_class3 else 0.0) for place in range(figure.nodes)]
    cluster = Cluster(loads, [WANTED] * figure.nodes, lottery(Random(asked.seeds.start)))
    cluster.lead(1, WANTED, timed, together(figure.nodes, 1))
    cluster.play(DECISIONS)
    return _short(fmean(seconds for branches, seconds in timed.lasted if branches == figure.nodes))


def _short(value: float) -> float:
    return round(value, 6 if value < 0.1 else _DIGITS)
