"""Figures of the cluster, as `subord metrics` shows them, with the nodes that they cover."""

from __future__ import annotations

import msgspec

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Count


class BusyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A node with one of the largest values."""

    address: str
    value: float


class MetricDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over the nodes that have it. `quantiles`: by share, each within 1 %. `top`: at most 16."""

    name: str
    count: Count
    sum: float
    min: float
    max: float
    quantiles: dict[str, float]
    top: tuple[BusyDocument, ...]


class MetricsDocument(CoverageDocument, frozen=True, kw_only=True):
    """All metrics that the cluster carries, by name. `left_out`: at least so many of nodes are not in it."""

    metrics: tuple[MetricDocument, ...]
    left_out: Count


class ClassDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes whose values exceed so many of the thresholds (`number`). `positions`: ranges such as 1-3,7."""

    number: Count
    nodes: Count
    positions: str


class ClassesDocument(CoverageDocument, frozen=True, kw_only=True):
    """The nodes by the class of their value of one metric. `told`: those in a class. `thresholds`: quantiles, in
    ascending order. `least`, `greatest`: of all nodes, some seconds before."""

    name: str
    thresholds: tuple[float, ...]
    least: float
    greatest: float
    classes: tuple[ClassDocument, ...]
