"""The metrics of a node for Prometheus.

Input: the node and its counters at the moment of the scrape. Output: metric families. Nothing is kept between two
scrapes. Names and units follow https://prometheus.io/docs/practices/naming/: seconds and bytes, counters end in
`_total`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from subord import __version__
from subord.api.handlers.families import elastic, machines, shares, transfer
from subord.api.models.nodes import leader_round_trip_s, measures
from subord.api.node_api import NodeApi
from subord.core.members.register import State
from subord.core.members.statements import covered, under_maintenance
from subord.core.view import Place, Snapshot
from subord.runtime.counters import Counters, Histogram

REFUSAL_S_MAX = 300.0
"""A refusal that is not repeated for this long is over: such nodes meet again within a minute or two."""


def node_registry(node: NodeApi) -> CollectorRegistry:
    """A registry of one node alone, so that several nodes in one process (tests) do not interfere."""
    registry = CollectorRegistry()
    registry.register(_Node(node))
    ProcessCollector(registry=registry)
    return registry


def page(registry: CollectorRegistry) -> bytes:
    """The text that Prometheus reads; its content type is in web.py."""
    return generate_latest(registry)


class _Node(Collector):
    """Reads the node at the moment of the scrape."""

    def __init__(self, node: NodeApi) -> None:
        self._node = node

    def describe(self) -> Iterable[Metric]:
        return ()  # or registering would read the node, which may not have started

    def collect(self) -> Iterator[Metric]:
        view = self._node.snapshot()
        yield _build()
        yield from self._place(view)
        yield from _gauges(view, self._node.settings.fanout)
        yield _subordinates(view)
        yield _refusals(view)
        yield from _members(self._node)
        yield _gauge("orders_under_way", "Orders to nodes that this node holds", len(self._node.orders.under_way()))
        tables = {**view.tables, **self._node.counters.tables()}
        yield _labelled("table_entries", "Entries of each table, all bounded", "table", tables)
        yield from _seal(self._node)
        yield _identity(self._node)
        yield from _ranking(view)
        yield from _performance(self._node)
        yield _count("leader_changes", "Changes of the leader since start", view.leader_changes)
        yield _count("exchanges", "Proposals that were answered since start", view.exchanges)
        yield from _counted(self._node.counters)
        yield from _reports(self._node)
        yield from shares.families(self._node.shares)
        yield from elastic.families(self._node.elastic, self._node.tracker.wall_ms / 1000)
        yield from machines.families(self._node.machines, self._node.tracker.wall_ms / 1000)
        yield from transfer.families(self._node.transfer, self._node.tracker.wall_ms / 1000)
        yield _by("log_lines", "Log lines by fate", "fate", Counter(self._node.log.counts))
        yield from _timed(self._node.counters)

    def _place(self, view: Snapshot) -> Iterator[Metric]:
        leader = InfoMetricFamily("subord_leader", "Address of the leader; absent while there is none")
        if view.leader is not None:
            leader.add_metric((), {"leader": self._node.settings.network.address_text_of(view.leader)})
        yield leader
        is_root = view.place is Place.ROOT
        yield _gauge("is_root", "1 if this node is the root of its tree, else 0", is_root)


def _build() -> Metric:
    build = InfoMetricFamily("subord_build", "Version of the daemon")
    build.add_metric((), {"version": __version__})
    return build


def _gauges(view: Snapshot, fanout: int) -> Iterator[Metric]:
    yield _gauge("level", "Computed level of the position, 0 for the top", view.level)
    yield _gauge("real_level", "Edges between this node and the root", len(view.path))
    yield _gauge("offset", "Computed offset within the level, from 0", view.offset)
    yield _gauge("position", "Position in the network, from 1", view.position)
    yield _gauge("fanout", "Configured fan-out: home slots of each node", fanout)
    yield _gauge("subtree_nodes", "Live nodes of the subtree, this one included", view.subtree_nodes)
    yield _gauge(
        "subtree_not_home_nodes",
        "Nodes of the subtree that are not at home: the distance from the computed tree",
        view.subtree_not_home,
    )
    yield _gauge(
        "subtree_unbound_nodes",
        "Nodes of the subtree that have proved no identity, or stand behind an older release",
        view.unbound,
    )


def _subordinates(view: Snapshot) -> Metric:
    places = Counter(edge.place for edge in view.subordinates)
    numbers = {place.value: places[place] for place in (Place.HOME, Place.GUEST)}
    return _labelled("subordinates", "Subordinates of this node, by place", "place", numbers)


def _members(node: NodeApi) -> Iterator[Metric]:
    """By the register, which is the same at all nodes."""
    membership, register = node.tracker.membership, node.tracker.membership.register
    live, down = register.count(State.UP), register.count(State.DOWN)
    maintained = under_maintenance(membership.documents, node.tracker.wall_ms)
    away = covered(maintained, register, State.DOWN, State.LEFT)
    yield _gauge("members_live", "Members of the cluster that are up", live)
    yield _gauge("members_down", "Members that are down: ended without goodbye, and not forgotten", down)
    yield _gauge("members_expected", "Members that should be up", live + down)
    yield _gauge(
        "members_maintained", "Members under maintenance", len(covered(maintained, register, State.UP, State.DOWN))
    )
    yield _gauge("members_maintained_away", "Nodes under maintenance that are down, or said goodbye", len(away))


def _refusals(view: Snapshot) -> Metric:
    text = f"Addresses with other settings met in the last {REFUSAL_S_MAX / 60:g} minutes, by refusing side"
    recent = Counter(refusal.by for refusal in view.refusals if refusal.ago_s <= REFUSAL_S_MAX)
    return _labelled("refusals", text, "by", {"us": recent["us"], "them": recent["them"]})


def _seal(node: NodeApi) -> Iterator[Metric]:
    ring = None if node.key_ring is None else node.key_ring.ring
    yield _gauge(
        "sealed", "1 if datagrams are sealed and connections are TLS, 0 if any host can take part", ring is not None
    )
    keys = InfoMetricFamily("subord_key", "Name of the primary key; absent when nothing is sealed")
    if ring is not None:
        keys.add_metric((), {"primary": ring.primary.name})
        yield _gauge("keys", "Keys that this node accepts", len(ring.keys))
        yield _gauge("key_ring_revision", "Grows with every change of the key ring", ring.revision)
        is_saved = node.key_ring is not None and node.key_ring.is_saved
        yield _gauge("key_ring_saved", "1 if the key ring is on disk, 0 if a restart would lose it", is_saved)
    yield keys


def _identity(node: NodeApi) -> Metric:
    identity = InfoMetricFamily("subord_identity", "Fingerprint of the node's key; absent without an identity")
    if node.identity.fingerprint:
        identity.add_metric((), {"fingerprint": node.identity.fingerprint})
    return identity


def _ranking(view: Snapshot) -> Iterator[Metric]:
    if not measures(view.ranking):
        return
    away = GaugeMetricFamily(
        "subord_leader_round_trip_seconds",
        "Lowest measured round trip to the leader in seconds; absent while not measured",
    )
    away_s = leader_round_trip_s(view.ranking, view.leader)
    if away_s is not None:
        away.add_metric((), away_s)
    yield away
    yield _gauge(
        "performance_class",
        "Class of this node's performance, two per doubling; 0: unknown",
        view.ranking.performance_class,
    )
    yield _gauge(
        "standing_class", "Class by which this node ranks; 0: after all known classes", view.ranking.standing_class
    )
    yield _count("ranking_moves", "Moves for a better rank or a nearer leader", view.ranking.moves)
    yield _count("ranking_moves_held", "Such moves held back: too many in an hour", view.ranking.moves_held)


def _performance(node: NodeApi) -> Iterator[Metric]:
    jobs_per_hour = node.performance.jobs_per_hour
    text = "Smoothed performance of this node in jobs a second; absent while it is unknown"
    jobs_per_second = None if jobs_per_hour is None else jobs_per_hour / 3600
    yield GaugeMetricFamily("subord_performance_jobs_per_second", text, value=jobs_per_second)
    text = "The same in jobs an hour; release 0.4 leaves it out"
    yield GaugeMetricFamily("subord_performance_jobs_per_hour", text, value=jobs_per_hour)
    yield _count("jobs_done", "Jobs that `subord job-done` reported, by weight", node.counters.jobs_done)
    yield _by(
        "performance_readings_failed",
        "Failed readings of the source of performance, by reason",
        "reason",
        node.counters.readings_failed,
    )


def _counted(counters: Counters) -> Iterator[Metric]:
    yield _by_direction(
        "messages", "Datagrams by message type and direction", counters.messages_sent, counters.messages_received
    )
    yield _by_direction(
        "bytes", "UDP payload in bytes by message type and direction", counters.bytes_sent, counters.bytes_received
    )
    yield _by("input_dropped", "Dropped input, by reason", "reason", counters.dropped)
    yield _by(
        "orders_accepted",
        "Orders of operators that were taken, by power or service",
        "power",
        counters.orders_accepted,
    )
    yield _by("orders_refused", "Orders of operators that were refused, by reason", "reason", counters.orders_refused)
    yield _by(
        "orders_given",
        "Orders to nodes that commands of this node gave, by service",
        "service",
        counters.orders_given,
    )
    yield _count("orders_told", "Nodes that answered orders of this node", counters.orders_told)
    yield _by(
        "orders_missing", "Nodes that did not answer orders of this node, by cause", "cause", counters.orders_missing
    )
    yield _gauge("spool_records", "Records of this node that no sink has acknowledged", counters.spool_records)
    yield _gauge("spool_bytes", "Bytes of these records", counters.spool_bytes)
    yield _gauge("spool_oldest_seconds", "Age of the oldest of these records", counters.spool_age_s(time.time()))
    yield _gauge("spool_bytes_max", "Bytes that the spool takes; 0: there is none", counters.spool_bytes_max)
    yield _count("records_accepted", "Records that writers gave to this node", counters.records_accepted)
    yield _count("records_refused", "Records that the full spool did not take", counters.records_refused)
    yield _count(
        "records_stored", "Records that this sink got, those that came again included", counters.records_stored
    )
    text = "Records that the database of this sink lacks since it was restored to an earlier state"
    yield _gauge("records_missing", text, counters.records_missing)
    yield _by("send_errors", "Datagrams that the kernel rejected, by errno name", "errno", counters.send_errors)


def _reports(node: NodeApi) -> Iterator[Metric]:
    """What this node knows of its branch; at the root of the whole tree."""
    text = "Nodes of this node's branch, by report: asked, and told those that the fold covers"
    covered = GaugeMetricFamily("subord_report_nodes", text, labels=("report", "state"))
    text = "Age of the oldest part of the fold of this node's branch, by report"
    oldest = GaugeMetricFamily("subord_report_oldest_seconds", text, labels=("report",))
    for name in node.orders.report_services():
        found = node.orders.folded(name)
        covered.add_metric((name, "asked"), found.coverage.asked)
        covered.add_metric((name, "told"), found.coverage.told)
        oldest.add_metric((name,), found.oldest_s)
    yield covered
    yield oldest
    counters = node.counters
    moved = Counter(sent=counters.reports_sent, received=counters.reports_received)
    yield _by("reports", "Reports along edges, by direction", "direction", moved)


def _timed(counters: Counters) -> Iterator[Metric]:
    yield _histogram("round_trip", "Seconds from a beat to its answer", counters.round_trip)
    yield _histogram(
        "detection", "Seconds from the last sign of life of a lost leader to giving it up", counters.detection
    )
    yield _histogram("healing", "Seconds from giving up a leader to having the next", counters.healing)
    yield _histogram("event_loop_lag", "Seconds by which the daemon's own timer fired late", counters.loop_lag)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"subord_{name}", text, value=float(value))


def _labelled(name: str, text: str, label: str, numbers: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"subord_{name}", text, labels=(label,))
    for value, number in numbers.items():
        family.add_metric((value,), number)
    return family


def _count(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"subord_{name}", text, value=value)


def _by(name: str, text: str, label: str, counts: Counter[str]) -> Metric:
    family = CounterMetricFamily(f"subord_{name}", text, labels=(label,))
    for value, count in sorted(counts.items()):
        family.add_metric((value,), count)
    return family


def _by_direction(name: str, text: str, sent: Counter[str], received: Counter[str]) -> Metric:
    family = CounterMetricFamily(f"subord_{name}", text, labels=("type", "direction"))
    for direction, counts in (("sent", sent), ("received", received)):
        for kind, count in sorted(counts.items()):
            family.add_metric((kind, direction), count)
    return family


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    bounds: Sequence[str] = (*map(str, histogram.bounds_s), "+Inf")
    buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
    return HistogramMetricFamily(f"subord_{name}_seconds", text, buckets=buckets, sum_value=histogram.sum_s)
