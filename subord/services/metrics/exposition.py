"""`/metrics/cluster`: the figures of the whole cluster for Prometheus, at any node.

Inputs are the document of the metrics and the wanted format; output is a page with five families for each metric, and
what it covers. They tell of all nodes together, so the load on Prometheus does not grow with the cluster. Invariants:
a page always says how many nodes were asked and how many have told; no two families of it have a name in common, nor
do two samples have the same labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from subord.api.models.metrics import MetricDocument, MetricsDocument
from subord.services.metrics.texts import NAME

PREFIX: Final = "subord_cluster_"
OWN: Final = ("nodes_asked", "nodes_told", "nodes_missing", "complete", "age_seconds", "metrics_left_out")
TEXTS: Final = {
    "": "Quantiles of {} over the nodes",
    "_count": "Nodes that have {}",
    "_sum": "{}, all nodes together",
    "_min": "The least {} of a node",
    "_max": "The greatest {} of a node",
}
"""The families of a metric. They are gauges, and no summary: when a node leaves, count and sum become less."""
QUANTILE: Final = "quantile"
LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
ESCAPED: Final = re.compile(r"\\(.)")


def page(found: MetricsDocument, *, is_openmetrics: bool = False) -> bytes:
    """The text that Prometheus reads, in its own format or as OpenMetrics."""
    registry = CollectorRegistry()
    registry.register(_Cluster(found))
    if is_openmetrics:
        return openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call,no-any-return]
    return generate_latest(registry)


_Family = dict[str, Metric]
"""The families of one metric, by what stands behind its name."""


class _Cluster(Collector):
    def __init__(self, found: MetricsDocument) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        found = self._found
        yield _gauge("nodes_asked", "Nodes that the figures should be of", found.asked)
        yield _gauge("nodes_told", "Nodes that the figures are of", found.told)
        yield _gauge(
            "complete",
            "Whether no node is missing, nothing is left out, and the root knows all members",
            found.complete,
        )
        yield _gauge("age_seconds", "No figure is of older samples", found.oldest_ms / 1000)
        missing = GaugeMetricFamily(PREFIX + "nodes_missing", "Nodes without figures", labels=("cause",))
        for each in found.missing:
            missing.add_metric((each.cause,), each.count)
        yield missing
        families, left_out = _families(found)
        text = "Metrics that are not here: the names of their families are those of others"
        yield _gauge("metrics_left_out", text, left_out)
        for family in families.values():
            yield from family.values()


def _families(found: MetricsDocument) -> tuple[dict[str, _Family], int]:
    """By name, and how many metrics have no family. Shorter names come first, so `x_max` gives way to `x`."""
    families: dict[str, _Family] = {}
    taken, left_out = {*OWN}, 0
    for metric in sorted(found.metrics, key=lambda each: (len(name_and_labels(each.name)[0]), each.name)):
        name, labels = name_and_labels(metric.name)
        if name not in families:
            if not taken.isdisjoint(name + end for end in TEXTS):
                left_out += 1
                continue
            taken |= {name + end for end in TEXTS}
            families[name] = _family(name)
        _add(families[name], labels, metric)
    return dict(sorted(families.items())), left_out


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=float(value))


def _family(name: str) -> _Family:
    return {end: Metric(f"{PREFIX}{name}{end}", text.format(name), "gauge") for end, text in TEXTS.items()}


def _add(family: _Family, labels: dict[str, str], metric: MetricDocument) -> None:
    for share, value in metric.quantiles.items():
        family[""].add_sample(family[""].name, {**labels, QUANTILE: share}, value)
    values = {"_count": metric.count, "_sum": metric.sum, "_min": metric.min, "_max": metric.max}
    for end, value in values.items():
        family[end].add_sample(family[end].name, labels, value)


def name_and_labels(text: str) -> tuple[str, dict[str, str]]:
    """Of a sample, as texts.name_of writes it. A label `quantile` of the nodes' own gets the word that Prometheus
    puts before labels of which it has its own."""
    fitting = NAME.fullmatch(text)
    assert fitting is not None, text  # record.figures has no others
    labels = {label: _unescaped(value) for label, value in LABEL.findall(fitting[2] or "")}
    if QUANTILE in labels:
        labels[f"exported_{QUANTILE}"] = labels.pop(QUANTILE)
    return fitting[1], labels


def _unescaped(value: str) -> str:
    return ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
