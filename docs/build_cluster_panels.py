"""The panels of the dashboard with the metrics of the cluster (docs/metrics.md): quantiles over its nodes.

Every address of the job `cluster-of-...` has the figures of all nodes, so a query takes the largest of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from build_panels import JOB, PanelSpec, Query, curves

CLUSTER = 'job="cluster-of-$job"'
ROOT = 'mountpoint="/"'
_EACH = ("0.05", "0.5", "0.95", "0.99")


def _over_nodes(name: str, shares: Sequence[str], then: str = "", *, before: str = "") -> Query:
    """Quantiles over the nodes, as one of the addresses has them: all addresses have the same nodes."""
    whole = f'max by (quantile) (subord_cluster_{name}{{{CLUSTER}, quantile=~"{"|".join(shares)}"}}){then}'
    return Query(whole, before + "{{quantile}}")


def _sum(name: str) -> str:
    return f"max(subord_cluster_{name}_sum{{{CLUSTER}}})"


def _mean(name: str) -> str:
    return f"{_sum(name)} / max(subord_cluster_{name}_count{{{CLUSTER}}})"


def _both_ways(title: str, prefix: str, ways: Mapping[str, str]) -> PanelSpec:
    """Bytes in a second, of two counters of a node. `ways`: words of the legend -> the rest of the name."""
    queries = (
        _over_nodes(f"{prefix}_{way}_bytes_per_second", ("0.5", "0.95"), before=word) for word, way in ways.items()
    )
    return curves(title, "Bps", *queries)


CLUSTERS = (
    curves(
        "Load of a node for each of its processors",
        "none",
        _over_nodes("node_load1", _EACH, f" / scalar({_mean('node_cpus')})"),
        Query(f"{_sum('node_load1')} / {_sum('node_cpus')}", "mean"),
        about="Quantiles are divided by the mean number of processors: exact where all nodes have as many.",
    ),
    curves(
        "Memory available on a node",
        "bytes",
        _over_nodes("node_memory_MemAvailable_bytes", ("0.05", "0.5", "0.95")),
        Query(_mean("node_memory_MemTotal_bytes"), "mean of all memory"),
    ),
    _both_ways("Network of a node", "node_network", {"received ": "receive", "sent ": "transmit"}),
    _both_ways("Disks of a node", "node_disk", {"read ": "read", "written ": "written"}),
    curves(
        "Tasks that wait, on the worst twentieth of the nodes",
        "percentunit",
        *(
            _over_nodes(f"node_pressure_{what}_waiting_seconds_per_second", ("0.95",), before=f"{what}, ")
            for what in ("cpu", "memory", "io")
        ),
        about="The share of the time in which some task of the node waits for the resource"
        " (pressure stall information).",
    ),
    curves(
        "Free space of the root file system, lowest nodes",
        "bytes",
        Query(f"max by (quantile) (subord_cluster_node_filesystem_avail_bytes{{{CLUSTER}, {ROOT}}})", "{{quantile}}"),
        Query(f"max(subord_cluster_node_filesystem_avail_bytes_min{{{CLUSTER}, {ROOT}}})", "least"),
    ),
    curves(
        "Nodes that the figures are of",
        "none",
        Query(f"max(subord_cluster_nodes_asked{{{CLUSTER}}})", "asked"),
        Query(f"job:subord_cluster_nodes_told:max{{{JOB}}}", "told"),
        Query(f"job:subord_cluster_nodes_untold:count{{{JOB}}}", "run, and have not told"),
        about="`subord metrics` names the missing nodes and the cause.",
    ),
    curves(
        "Age of the oldest figure",
        "s",
        Query(f"max by (instance) (subord_cluster_age_seconds{{{CLUSTER}}})", "{{instance}}"),
    ),
)
