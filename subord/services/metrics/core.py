"""What a node publishes of itself every INTERVAL_S, and what the asking node makes of the fold of the root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from subord.api.http.server import METRICS_TYPE, OPENMETRICS_TYPE, Handler, Query, Response, failure
from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument
from subord.api.models.metrics import MetricsDocument
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept
from subord.api.query.orders import BUDGET_S
from subord.config.schema import MetricsConfig
from subord.core.carriage import plan
from subord.core.carriage.documents import PLAN
from subord.core.carriage.reports.records import Record
from subord.core.settings import Settings
from subord.core.view import Position
from subord.runtime import late
from subord.services.contract import Answered, Publishing, ReportService
from subord.services.folds import asked_fold
from subord.services.metrics.collecting import Collector, Sources
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.wanted import USUAL
from subord.services.serving import of_coverage

INTERVAL_S: Final = 10.0
KEPT_S: Final = 2.0
EXPOSITION: Final = "subord.services.metrics.exposition"
_collectors: Final[WeakKeyDictionary[NodeApi, Collector]] = WeakKeyDictionary()


async def record(node: NodeApi) -> Record | None:
    """The samples of this node. What is wrong with a source is counted, and shown by `subord errors`."""
    if not node.metrics.publish:
        return None
    collector = _collectors.get(node)
    if collector is None:
        collector = _collectors[node] = Collector(_sources(node.metrics), USUAL)
    collector.patterns = patterns_of(node)
    found = await collector.collect()
    for each in found.wrong:
        node.counters.dropped[f"metrics_{each.reason}"] += 1
        node.counters.problems.note("metrics", f"{each.source} {each.text}")
    return record_of(found.samples, node.snapshot().position)


def patterns_of(node: NodeApi) -> Sequence[str]:
    """Those that an operator has published, or the usual ones."""
    document = node.tracker.membership.documents.by_name.get(PLAN)
    return (document and plan.read(document.order)) or USUAL


def _sources(config: MetricsConfig) -> Sources:
    return Sources(config.urls, config.text_directory, config.program_directory)


def document(answered: Answered) -> CoverageDocument:
    """The figures, by name."""
    fold, settings = answered.fold, answered.node.settings
    found = () if fold is None else tuple(figures(fold.record, partial(_address, settings)))
    return of_coverage(MetricsDocument, answered, metrics=found, left_out=0 if fold is None else fold.left_out)


def _address(settings: Settings, position: Position) -> str | None:
    """Another node may name any position."""
    return next(iter(nodes.addresses(settings, (position,))), None)


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """`/metrics/cluster`, which any client may read: the root is asked once in KEPT_S at most."""

    async def ask() -> CoverageDocument:
        return document(await asked_fold(node, "metrics", BUDGET_S))

    kept = Kept(ask, KEPT_S)

    async def cluster(query: Query) -> Response:
        found = await kept.get()
        if not await late.load(EXPOSITION):
            return failure(503, "the metrics cannot be loaded: see the log of the daemon")
        from subord.services.metrics.exposition import page

        assert isinstance(found, MetricsDocument)
        is_openmetrics = query.get("format") == "openmetrics"
        content_type = OPENMETRICS_TYPE if is_openmetrics else METRICS_TYPE
        return Response(page(found, is_openmetrics=is_openmetrics), content_type=content_type)

    return {"/metrics/cluster": cluster}


SERVICE = ReportService(Publishing(record, INTERVAL_S), document, paths)
