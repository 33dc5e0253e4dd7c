"""Elastic growth for Prometheus, at the node that has the queue.

Input: what the agent has told last, and the time. Output: metric families; none at other nodes. While the agent has
told no figures, or growth is off, there is the state alone. Invariant: figures that grow old are told by their age,
not left out, so an alert on them does not end when the agent does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from subord.api.node_api import Elastic
from subord.runtime.elastic.state import (
    FAILED,
    MANAGES,
    NONE,
    OTHER_NODE,
    SERVING,
    STAGES,
    UNKNOWN,
    WORDS,
    NodeState,
    State,
)


def families(elastic: Elastic, now: float) -> Iterator[Metric]:
    """All families about elastic growth. `now`: seconds since 1970."""
    found = elastic.state
    if not _has_queue(elastic):
        return
    text = "How this node, which has the queue, manages its cluster: 1 for the word that is true, else 0"
    yield _by("state", text, "word", {word: float(word == found.word) for word in WORDS})
    if has_figures(found):
        yield from _nodes(found, now)
        yield from _queue(found, now)
        yield from _ages(found, now)


def has_figures(state: State) -> bool:
    """The agent has told them since the present plan came."""
    return bool(state.at or state.nodes or state.max_nodes)


def _has_queue(elastic: Elastic) -> bool:
    found = elastic.state
    if found.word in (NONE, OTHER_NODE):
        return False
    return bool(elastic.batch) or has_figures(found) or found.word in (MANAGES, FAILED)


def _nodes(found: State, now: float) -> Iterator[Metric]:
    stages = (*STAGES, UNKNOWN)
    counts = Counter(each.stage or SERVING for each in found.nodes)
    counts[SERVING] += found.left_out
    text = "Nodes of the elastic cluster by stage; `unknown`: paid for, without a record"
    yield _by("nodes", text, "stage", {stage: counts[stage] for stage in stages})
    longest = {stage: _longest(found.nodes, stage, now) for stage in stages if stage != SERVING}
    text = "Longest time that a node has been in a stage; 0: none is"
    yield _by("stage_seconds", text, "stage", longest)
    yield _gauge("size", "Nodes of the elastic cluster that are there, or paid for soon", found.size)
    yield _gauge("size_min", "Nodes that the plan keeps at least", found.min_nodes)
    yield _gauge("size_max", "Nodes that the plan allows at most", found.max_nodes)
    yield _gauge("size_needed", "Nodes that the queue needs", found.needed)
    idle = [now - each.idle_since for each in found.nodes if _is_paid(each) and each.idle_since is not None]
    text = "Longest time that a node which is paid for has had no job; 0: each has one"
    yield _gauge("idle_seconds", text, max((0.0, *idle)))
    for name, text, count in (
        ("added", "Nodes that were added", found.added),
        ("removed", "Nodes that were removed", found.removed),
        ("undone", "Nodes that could not be added and were removed", found.undone),
    ):
        yield CounterMetricFamily(f"subord_elastic_nodes_{name}", text, value=float(count))


def _is_paid(node: NodeState) -> bool:
    """And could be removed."""
    return node.paid_since is not None and node.stage in ("", SERVING) and not node.is_master


def _longest(nodes: Iterable[NodeState], stage: str, now: float) -> float:
    return max((0.0, *(now - each.since for each in nodes if each.stage == stage and each.since)))


def _queue(found: State, now: float) -> Iterator[Metric]:
    yield _by("jobs", "Jobs of the queue by state", "state", {"queued": found.queued, "running": found.running})
    yield _gauge("slots", "Slots of the queue", found.slots)
    yield _gauge("slots_free", "Slots of the queue without a job", found.free)
    text = "How long the job has waited that waits longest; 0: none waits"
    yield _gauge("oldest_job_wait_seconds", text, max(0.0, found.oldest_s))
    blocked = now - found.blocked_since if found.blocked_since else 0.0
    text = "How long nodes have been wanted and none could be added; 0: that is not so"
    yield _gauge("blocked_seconds", text, max(0.0, blocked))


def _ages(found: State, now: float) -> Iterator[Metric]:
    yield _gauge("poll_failed", "1 if the last poll of the queue failed, else 0", bool(found.fault))
    if found.at:
        text = "Age of the last poll that succeeded; absent before the first"
        yield _gauge("poll_age_seconds", text, max(0.0, now - found.at))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"subord_elastic_{name}", text, value=float(value))


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"subord_elastic_{name}", text, labels=(label,))
    for each, value in values.items():
        family.add_metric((each,), float(value))
    return family
