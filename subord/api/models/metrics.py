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
