"""Cluster reserves: the shares of each branch from two optimizations, behind the same interface as the bank.

The paper restates them under "M. Aron et al presented the cluster reserves algorithm". Step 1 is a linear program:
the least deviation V of the totals from the wanted shares. Step 2 is a quadratic program: of all rows that deviate by
V, those closest to usage + k. Step 3 gives what is left of a node to its idle classes, up to their wanted shares.

Where the text cannot be followed: `R <= usage` is `R <= max(usage, floor)`, else no row satisfies it together with
`R >= 1` when a class is idle; a class is idle where no work is left over on any node, not where `allocation > usage`
(decision A1 of bank.py); `sum of abs(..) = V` is `<= V`, which is the same because V is the least and is convex.
"Distribute to idle classes" is in proportion to what each lacks, and then the row is scaled to 100.

Step 2 has a variable for each class on each branch, but only one condition that joins branches. Its dual problem has
one variable for each class and one more: for given prices of classes each row is a projection by itself. So the
solver's work grows with the branches, not with their cube. SciPy is needed, an extra of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from subord.core.carriage.shares.interface import Branch, Decision, Row, Step
from subord.services.shares.bank import normal
from subord.services.shares.policy import PERCENT, UnsolvedError, checked, floor_of, total_of, weights_of

K_MAX: Final = 5.0
K_FACTOR: Final = 500.0
"""k is at most 5 tickets, less where usage is within one percent of the wanted share."""
SLACK: Final = 1e-6
"""Of V in the second program, in tickets for a branch of mean size: the first solver is not exact."""
TOLERANCE: Final = 1e-10
ITERATIONS_MAX: Final = 500


class NoSolverError(RuntimeError):
    """SciPy is not installed; the text says how to install it."""


class _Problem(NamedTuple):
    """Arrays: a row for each branch, a column for each class."""

    usage: Any
    lowest: float
    highest: Any
    wanted: Any
    weights: Any
    """Sum to 1."""


class Reserves:
    """The policy. Raises NoSolverError at once if there is no SciPy."""

    def __init__(self) -> None:
        try:
            self._numpy: Any = import_module("numpy")
            self._optimize: Any = import_module("scipy.optimize")
            self._sparse: Any = import_module("scipy.sparse")
        except ImportError:
            words = "cluster reserves need SciPy, which is not installed"
            raise NoSolverError(f"{words}: `pip install 'subord[shares]'`, on Debian python3-scipy") from None

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """Accounts stay as they are. Raises ValueError for reports that make no sense, and UnsolvedError."""
        checked(branches, wanted, accounts)
        problem = self._problem(branches, wanted)
        least = self.least_deviation(problem)
        target = self._target(problem)
        solved = self.closest(problem, target, least + SLACK)
        floor = problem.lowest
        filled = [
            filled_up(row, [not each for each in branch.needy], wanted)
            for row, branch in zip(solved.tolist(), branches, strict=True)
        ]
        rows = [normal(row, floor, wanted) for row in filled]
        weights = weights_of(branches)
        steps = (_step("want", target.tolist(), weights), _step("solution", solved.tolist(), weights))
        return Decision(rows, list(accounts), (*steps, _step("share", rows, weights)))

    def _problem(self, branches: Sequence[Branch], wanted: Row) -> _Problem:
        array = self._numpy.array
        usage, floor = array([branch.usage for branch in branches], float), floor_of(len(wanted))
        needy = array([branch.needy for branch in branches], float) > 0
        highest = self._numpy.where(needy, PERCENT, self._numpy.maximum(usage, floor))
        return _Problem(usage, floor, highest, array(wanted, float), array(weights_of(branches)) / len(branches))

    def least_deviation(self, problem: _Problem) -> float:
        """Step 1. In tickets of one branch of mean size, all classes together."""
        rows, classes = problem.usage.shape
        numpy, sparse = self._numpy, self._sparse
        totals = sparse.kron(problem.weights.reshape(1, rows), sparse.identity(classes))
        slack = sparse.identity(classes)
        within = sparse.kron(sparse.identity(rows), numpy.ones((1, classes)))
        matrix = sparse.bmat([[totals, -slack], [-totals, -slack], [within, None]], format="csr")
        found = self._optimize.linprog(
            numpy.concatenate([numpy.zeros(rows * classes), numpy.ones(classes)]),
            A_ub=matrix,
            b_ub=numpy.concatenate([problem.wanted, -problem.wanted, numpy.full(rows, PERCENT)]),
            bounds=[(problem.lowest, each) for each in problem.highest.ravel()] + [(0.0, None)] * classes,
            method="highs",
        )
        if not found.success:
            raise UnsolvedError(f"the first program of cluster reserves has no solution: {found.message}")
        return float(found.fun)

    def _target(self, problem: _Problem) -> Any:
        """Usage + k: toward the wanted share, by at most K_MAX."""
        numpy = self._numpy
        pull = K_FACTOR * (problem.wanted - problem.usage) / problem.wanted
        return problem.usage + numpy.clip(pull, -K_MAX, K_MAX)

    def closest(self, problem: _Problem, target: Any, deviation: float) -> Any:
        """Step 2: the rows closest to `target` whose totals deviate by at most `deviation`."""
        numpy = self._numpy
        classes = len(problem.wanted)

        def loss(dual: Any) -> tuple[float, Any]:
            """The negative dual function and its gradient. `dual`: a price for each class, and a bound of them."""
            rows = self._projected(target - dual[:-1], problem)
            over = problem.weights @ rows - problem.wanted
            distance = problem.weights @ ((rows - target) ** 2).sum(axis=1) / 2
            value = distance + dual[:-1] @ over - dual[-1] * deviation
            return -value, -numpy.append(over, -deviation)

        identity, ones = numpy.identity(classes), numpy.ones((classes, 1))
        bound = numpy.block([[identity, ones], [-identity, ones]])  # no price is above the bound
        found = self._optimize.minimize(
            loss,
            numpy.zeros(classes + 1),
            jac=True,
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda dual: bound @ dual, "jac": lambda _: bound},
            options={"maxiter": ITERATIONS_MAX, "ftol": TOLERANCE},
        )
        rows = self._projected(target - found.x[:-1], problem)
        if not numpy.isfinite(rows).all():
            raise UnsolvedError(f"the second program of cluster reserves has no solution: {found.message}")
        return rows

    def _projected(self, points: Any, problem: _Problem) -> Any:
        """For each row the closest one within its bounds whose sum is at most 100.

        It is `points - t`, cut to the bounds, with the least t of at least 0. The sum falls in straight pieces
        between the values of t where an entry meets a bound: so t lies on the piece that crosses 100.
        """
        numpy, lowest, highest = self._numpy, problem.lowest, problem.highest

        def sums(shifts: Any) -> Any:
            return numpy.clip(points[:, None, :] - shifts[:, :, None], lowest, highest[:, None, :]).sum(axis=2)

        rows = len(points)
        start = numpy.zeros((rows, 1))
        edges = numpy.concatenate([start, points - lowest, points - highest], axis=1)
        edges = numpy.sort(numpy.maximum(edges, 0.0), axis=1)
        at_edges = sums(edges)
        place = numpy.minimum((at_edges > PERCENT).sum(axis=1), edges.shape[1] - 1)
        before, every = numpy.maximum(place - 1, 0), numpy.arange(rows)
        fall = at_edges[every, before] - at_edges[every, place]
        part = (at_edges[every, before] - PERCENT) / numpy.where(fall > 0, fall, 1.0)
        width = edges[every, place] - edges[every, before]
        shift = numpy.where(place > 0, edges[every, before] + width * numpy.clip(part, 0.0, 1.0), 0.0)
        return numpy.clip(points - shift[:, None], lowest, highest)


def filled_up(row: Row, idle: Sequence[bool], wanted: Row) -> list[float]:
    """Step 3: what is left of 100 goes to idle classes, in proportion to what each lacks, and never beyond it."""
    left = max(0.0, PERCENT - sum(row))
    lacks = [
        max(0.0, share - each) if is_idle else 0.0 for each, is_idle, share in zip(row, idle, wanted, strict=True)
    ]
    if not (wants := sum(lacks)):
        return list(row)
    part = min(1.0, left / wants)
    return [each + lack * part for each, lack in zip(row, lacks, strict=True)]


def _step(word: str, rows: Sequence[Row], weights: Row) -> Step:
    columns = list(zip(*rows, strict=True))
    return Step(word, columns, [total_of(weights, column) for column in columns])
