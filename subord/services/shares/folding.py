"""What a leader reports of its branches: one branch for its own leader.

Inputs are the last reports of the branches; output is their mean over nodes. Invariant: the fold of folds is that of
all nodes, so the shape of the tree does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import mul

from subord.core.carriage.shares.interface import Branch, Row


def folded(branches: Sequence[Branch]) -> Branch:
    """The mean of what nodes say of work left over, 0 or 1, is the part of them that are needy."""
    nodes = [branch.nodes for branch in branches]
    return Branch(
        _means([branch.allocation for branch in branches], nodes),
        _means([branch.usage for branch in branches], nodes),
        _means([branch.needy for branch in branches], nodes),
        sum(nodes),
    )


def over_time(reports: Sequence[Branch]) -> Branch:
    """One report for several periods of one branch: means, and what was left over at the end of the last one."""
    last = reports[-1]
    if len(reports) == 1:
        return last
    nodes = [report.nodes for report in reports]
    return last._replace(
        allocation=_means([report.allocation for report in reports], nodes),
        usage=_means([report.usage for report in reports], nodes),
    )


def _means(rows: Iterable[Row], weights: Row) -> list[float]:
    whole = sum(weights)
    return [sum(map(mul, weights, column)) / whole for column in zip(*rows, strict=True)]
