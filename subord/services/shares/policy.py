"""What every policy of shares has in common: its inputs, its outputs, and the floor.

Each round a leader gives a policy the last report of each branch, the shares that it wants over all of them, and
the accounts of the round before. It gets a row of shares for each branch, the new accounts, and the steps between.
A branch is a subordinate with all nodes below it, or the leader's own node. Shares and usages are percent of a node,
as in the paper, where a node has 100 tickets. Invariants: a row sums to 100, and no share in it is below the floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import mul
from typing import Final, Protocol

from subord.core.carriage.shares.interface import Branch, Decision, Row

PERCENT: Final = 100.0
FLOOR: Final = 1.0
"""A class that is idle on a node keeps one ticket there, so its next request is served (decision A3)."""
ROUNDING: Final = 0.5
"""Percent; reports carry whole thousandths of a ticket, and a period is measured with a clock."""
FLOORS_SUM_MAX: Final = PERCENT / 2
"""With more than 50 classes the floor is lower, so that half of a node can still be divided."""


class UnsolvedError(RuntimeError):
    """A policy has found no solution; the shares before stay in force."""


class Policy(Protocol):
    """A way to divide nodes among classes."""

    def decide(self, branches: Sequence[Branch], wanted: Row, accounts: Row) -> Decision:
        """The shares of each branch for the next period. `wanted` sums to 100. Raises ValueError for reports
        that make no sense, and UnsolvedError."""
        ...


def floor_of(classes: int) -> float:
    """The least share of a class on a node."""
    return min(FLOOR, FLOORS_SUM_MAX / classes)


def weights_of(branches: Sequence[Branch]) -> list[float]:
    """The numbers of nodes, scaled to a mean of 1: an average over branches is then one over nodes."""
    nodes = sum(branch.nodes for branch in branches)
    return [branch.nodes * len(branches) / nodes for branch in branches]


def total_of(weights: Row, column: Row) -> float:
    """The tickets of all branches together, in units of a branch of mean size."""
    total: float = sum(map(mul, weights, column))
    return total


def checked(branches: Sequence[Branch], wanted: Row, accounts: Row) -> None:
    """Raises ValueError where no computation is possible. What is merely unlikely passes."""
    if not branches:
        raise ValueError("no branch has reported: there is nothing to divide")
    classes = len(wanted)
    if len(accounts) != classes:
        raise ValueError(f"{len(accounts)} accounts for {classes} classes")
    if not abs(sum(wanted) - PERCENT) < 1e-6:
        raise ValueError(f"the wanted shares sum to {sum(wanted):g}, not to 100")
    for place, branch in enumerate(branches):
        if fault := fault_of(branch, classes):
            raise ValueError(f"branch {place} {fault}")


def fault_of(branch: Branch, classes: int) -> str:
    """What makes no sense in the report of a branch, with its verb; "" if nothing does."""
    if not len(branch.allocation) == len(branch.usage) == len(branch.needy) == classes:
        return f"reports other classes than the {classes} wanted ones"
    if not 0 < branch.nodes < inf:
        return f"reports {branch.nodes:g} nodes"
    for row, what in ((branch.allocation, "an allocation"), (branch.usage, "a usage")):
        if not (min(row) >= -ROUNDING and sum(row) <= PERCENT + ROUNDING):  # not so with NaN
            return f"reports {what} below 0, or above 100 percent in all"
    if not all(0 <= part <= 1 for part in branch.needy):  # not so with NaN
        return "reports work left over on fewer than none or more than all of its nodes"
    return ""
