"""Cluster reserves: both programs by hand and against another solver, the third step, and a missing SciPy."""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import pytest
from loops import over

from subord.core.carriage.shares.interface import Branch
from subord.services.shares.reserves import SLACK, NoSolverError, Reserves, filled_up

WANTED = (60.0, 30.0, 10.0)
ACCOUNTS = (0.0, 0.0, 0.0)
NOT_THIRD = (True, True, False)
EXAMPLE = [Branch(WANTED, (70.0, 30.0, 0.0), NOT_THIRD, 1)] * 3 + [Branch(WANTED, (60.0, 30.0, 10.0), (True,) * 3, 1)]


@pytest.fixture
def reserves() -> Reserves:
    pytest.importorskip("scipy", reason="needs scipy: pip install 'subord[shares]'")
    return Reserves()


def test_the_example_of_the_paper(reserves: Reserves) -> None:
    """Three nodes keep one ticket for class 3, so the fourth gives it 37."""
    decision = reserves.decide(EXAMPLE, WANTED, ACCOUNTS)
    totals = [sum(column) / 4 for column in zip(*decision.rows, strict=True)]
    assert totals == pytest.approx(WANTED, abs=1e-3)
    assert [row[2] for row in decision.rows] == pytest.approx([1, 1, 1, 37], abs=1e-3)
    assert decision.accounts == [0, 0, 0]
    assert [step.word for step in decision.steps] == ["want", "solution", "share"]


def test_the_least_deviation_by_hand(reserves: Reserves) -> None:
    """Class 3 is idle everywhere: one ticket of ten. The other nine may go to no class without a deviation."""
    branches = [Branch(WANTED, (66.0, 34.0, 0.0), NOT_THIRD, 1)] * 2
    assert reserves.least_deviation(reserves._problem(branches, WANTED)) == pytest.approx(9)


def test_a_class_that_is_idle_on_a_node_has_a_solution(reserves: Reserves) -> None:
    """As printed, `R <= usage` and `R >= 1` contradict each other here."""
    decision = reserves.decide([Branch(WANTED, (0.0, 0.0, 0.0), (False,) * 3, 1)], WANTED, ACCOUNTS)
    assert decision.rows == [pytest.approx(WANTED, abs=1e-3)]


def test_weights(reserves: Reserves) -> None:
    """Class 2 is on the smaller branch alone: a quarter of the nodes."""
    large = Branch((50, 50), (100.0, 0.0), (True, False), 30)
    small = Branch((50, 50), (50.0, 50.0), (True, True), 10)
    rows = reserves.decide([large, small], (90.0, 10.0), (0.0, 0.0)).rows
    assert rows[0] == pytest.approx([99, 1], abs=1e-3)
    assert rows[1] == pytest.approx([63, 37], abs=1e-3)


def test_no_rows_are_closer_than_those_of_the_second_program(reserves: Reserves) -> None:
    """Rows are the closest ones if no allowed row lies on the side of them to which the distance falls."""
    for seed in range(12):
        problem, target, least = drawn(reserves, seed)
        found = reserves.closest(problem, target, least + SLACK)
        over = problem.weights @ found - problem.wanted
        assert abs(over).sum() == pytest.approx(least, abs=1e-3), seed
        assert found.sum(axis=1).max() <= 100 + 1e-6, seed
        assert (found >= problem.lowest).all(), seed
        assert (found <= problem.highest).all(), seed
        slope = (problem.weights[:, None] * (found - target)).ravel()
        assert slope @ found.ravel() == pytest.approx(least_along(slope, problem, least + SLACK), abs=0.01), seed


def least_along(slope: Any, problem: Any, deviation: float) -> float:
    """The least value of a linear function over all allowed rows."""
    import numpy
    from scipy.optimize import linprog

    rows, classes = problem.usage.shape
    identity, none = numpy.identity(classes), numpy.zeros((rows, classes))
    totals = numpy.kron(problem.weights, identity)
    sums = numpy.kron(numpy.identity(rows), numpy.ones(classes))
    whole = numpy.concatenate([numpy.zeros(rows * classes), numpy.ones(classes)])
    limits = numpy.block([[totals, -identity], [-totals, -identity], [sums, none], [whole]])
    most = [*problem.wanted, *-problem.wanted, *[100.0] * rows, deviation]
    bounds = [(problem.lowest, high) for high in problem.highest.ravel()] + [(0, None)] * classes
    found = linprog([*slope, *[0.0] * classes], A_ub=limits, b_ub=most, bounds=bounds)
    assert found.success
    return float(found.fun)


def drawn(reserves: Reserves, seed: int) -> tuple[Any, Any, float]:
    rng = Random(seed)

    def branch() -> Branch:
        needy = [rng.random() < 0.6 for _ in WANTED]
        parts = [rng.random() + 0.1 for _ in WANTED]
        return Branch(WANTED, [100 * part / sum(parts) for part in parts], needy, rng.randint(1, 3))

    problem = reserves._problem([branch() for _ in range(5)], WANTED)
    return problem, reserves._target(problem), reserves.least_deviation(problem)


@over(
    ("row", "idle", "found"),
    [
        ((50, 20, 10), (False, False, True), [50, 20, 10]),  # it has what is wanted
        ((50, 20, 5), (False, False, True), [50, 20, 10]),  # and never gets more
        ((60, 37, 1), (False, False, True), [60, 37, 3]),  # nor more than there is
        ((20, 20, 5), (True, False, True), [60 - 0, 20, 10]),
        ((20, 65, 5), (True, False, True), [20 + 10 * 40 / 45, 65, 5 + 10 * 5 / 45]),
    ],
)
def test_step_3_gives_the_rest_to_idle_classes(
    row: tuple[float, ...], idle: tuple[bool, ...], found: list[float]
) -> None:
    assert filled_up(row, idle, WANTED) == pytest.approx(found)


def test_without_scipy_the_word_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(NoSolverError, match=r"need SciPy, which is not installed: `pip install 'subord\[shares\]'`"):
        Reserves()
