"""The shares of the classes of work: what a branch got and used, in all, and the document of the page.

Numbers are percent of a node, as in the overview of a node, so those of all classes are 100 at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import mul
from typing import Annotated, NamedTuple

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Address, Count
from subord.core.carriage.shares.bounds import CLASS_CHARS_MAX
from subord.core.carriage.shares.interface import OfBranch, Row

ClassName = Annotated[str, msgspec.Meta(max_length=CLASS_CHARS_MAX, pattern=r"^[a-z0-9][a-z0-9_.-]*\Z")]


class Figures(NamedTuple):
    """Of all nodes that count, by class. `got`: the mean allocation of a node, `used`: its mean usage; `needy`: work
    was left over on one of the nodes."""

    got: Row
    used: Row
    needy: Sequence[bool]


def figures_of(branches: Sequence[OfBranch]) -> Figures | None:
    """None: no branch counts."""
    reports = [each.report for each in branches]
    nodes = [report.nodes for report in reports]
    if not sum(nodes):
        return None
    return Figures(
        _means([report.allocation for report in reports], nodes),
        _means([report.usage for report in reports], nodes),
        [any(column) for column in zip(*(report.needy for report in reports), strict=True)],
    )


def _means(rows: Iterable[Row], weights: Row) -> list[float]:
    whole = sum(weights)
    return [sum(map(mul, weights, column)) / whole for column in zip(*rows, strict=True)]


class ShareDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class now. `got`, `used`: over the nodes that the coverage counts; null: none is known. `needy`: work was
    left over on at least one node."""

    name: ClassName
    wanted: float
    got: float | None
    used: float | None
    needy: bool


class SharesCurveDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A class at the moments of `ages_s`; null: no node counted then."""

    name: ClassName
    wanted: tuple[float, ...]
    got: tuple[float | None, ...]
    used: tuple[float | None, ...]


class SharesPastDocument(CoverageDocument, frozen=True, kw_only=True):
    """What the root decides for the whole cluster, now and in the last minutes. The coverage is of the nodes in its
    decisions, and of none while no plan is in force; `oldest_ms`: of the reports that it has got.

    `version`: of the document; null: shares were never set; without `classes` they are off. `address`: of the root;
    null: it has not answered, and `classes` has only what the asked node knows. `undecided`: why the last round ended
    without a decision; null: it did not. `classes`: in the order of the document; `curves`: of those with the largest
    shares. `every_s`: between two moments; `ages_s`: the moments, the oldest first, with the nodes that were in the
    decisions, and that should have been.
    """

    version: Count | None
    round_s: float | None
    address: Address | None
    undecided: str | None
    classes: tuple[ShareDocument, ...]
    every_s: float
    ages_s: tuple[float, ...]
    nodes_told: tuple[Count, ...]
    nodes_asked: tuple[Count, ...]
    curves: tuple[SharesCurveDocument, ...]
