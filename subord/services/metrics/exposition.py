"""`/metrics/cluster`: the figures of the whole cluster for Prometheus, at any node.

Input is the document of the metrics; output is a page with one family for each metric, and what it covers. Each
family is a summary over the nodes, so its load on Prometheus does not grow with the cluster. Invariant: a page always
says how many nodes were asked and how many have told.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from subord.api.models.metrics import MetricDocument, MetricsDocument

PREFIX = "subord_cluster_"


def page(found: MetricsDocument) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Cluster(found))
    return generate_latest(registry)


class _Cluster(Collector):
    def __init__(self, found: MetricsDocument) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        found = self._found
        yield _gauge("nodes_asked", "Nodes that the figures should be of", found.asked)
        yield _gauge("nodes_told", "Nodes that the figures are of", found.told)
        yield _gauge("complete", "Whether no node is missing, and nothing is left out", found.complete)
        yield _gauge("age_seconds", "No figure is of older samples", found.oldest_ms / 1000)
        missing = GaugeMetricFamily(PREFIX + "nodes_missing", "Nodes without figures", labels=("cause",))
        for each in found.missing:
            missing.add_metric((each.cause,), each.count)
        yield missing
        families: dict[str, tuple[Metric, Metric, Metric]] = {}
        for metric in found.metrics:
            name, labels = _named(metric.name)
            summary, least, greatest = families.setdefault(name, _families(name))
            _add(summary, labels, metric)
            least.add_sample(least.name, labels, metric.min)
            greatest.add_sample(greatest.name, labels, metric.max)
        for family in families.values():
            yield from family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, value=float(value))


def _families(name: str) -> tuple[Metric, Metric, Metric]:
    return (
        Metric(PREFIX + name, f"{name} over the nodes", "summary"),
        Metric(f"{PREFIX}{name}_min", f"The least {name} of a node", "gauge"),
        Metric(f"{PREFIX}{name}_max", f"The greatest {name} of a node", "gauge"),
    )


def _add(summary: Metric, labels: dict[str, str], metric: MetricDocument) -> None:
    for share, value in metric.quantiles.items():
        summary.add_sample(summary.name, {**labels, "quantile": share}, value)
    summary.add_sample(f"{summary.name}_count", labels, metric.count)
    summary.add_sample(f"{summary.name}_sum", labels, metric.sum)


def _named(text: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a sample, as texts.name_of writes it."""
    (family,) = text_string_to_metric_families(f"{text} 0\n")
    (sample,) = family.samples
    return sample.name, dict(sample.labels)
