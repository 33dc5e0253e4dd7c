"""What a node publishes of itself every INTERVAL_S, and what the asking node makes of the fold of the root."""

from __future__ import annotations

from collections.abc import Mapping
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
from subord.core.carriage.reports.records import Record
from subord.core.settings import Settings
from subord.core.view import Position
from subord.runtime import late
from subord.services.contract import Answered, Publishing, ReportService
from subord.services.folds import asked_fold
from subord.services.metrics.branches import answering as branches
from subord.services.metrics.classes import answering as classes
from subord.services.metrics.classes import public
from subord.services.metrics.collecting import Collector, Sources
from subord.services.metrics.handlers import handlers
from subord.services.metrics.past.keeping import keep
from subord.services.metrics.plan.carried import patterns_of
from subord.services.metrics.record import figures, record_of
from subord.services.metrics.wanted import USUAL
from subord.services.serving import of_coverage

INTERVAL_S: Final = 10.0
KEPT_S: Final = 2.0
EXPOSITION: Final = "subord.services.metrics.exposition"
_collectors: Final[WeakKeyDictionary[NodeApi, Collector]] = WeakKeyDictionary()


async def record(node: NodeApi) -> Record | None:
    """The samples of this node. What is wrong with a source is counted, and shown by `subord errors`."""
    keep(node)
    if not node.metrics.publish:
        branches.remember(node, None, INTERVAL_S)
        return None
    collector = _collectors.get(node)
    if collector is None:
        collector = _collectors[node] = Collector(_sources(node.metrics), USUAL)
    collector.patterns = patterns_of(node)
    found = await collector.collect()
    for each in found.wrong:
        node.counters.dropped[f"metrics_{each.reason}"] += 1
        node.counters.problems.note("metrics", f"{each.source} {each.text}")
    classes.keep(node, found.samples)
    made = record_of(found.samples, node.snapshot().position)
    branches.remember(node, made, INTERVAL_S)
    return made


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
    """`/metrics/cluster`, which any client may read: the root is asked once in KEPT_S at most. What `subord metrics`
    asks beside the figures: the plan, branches and the last minutes. The paths of the page."""

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

    return {"/metrics/cluster": cluster, **handlers(node), **public.paths(node, document)}


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The answer to a question beside the fold. Each kind has its own tag; a module answers others with nothing."""
    return await classes.answer(node, payload) or await branches.answer(node, payload)


SERVICE = ReportService(Publishing(record, INTERVAL_S), document, paths, answer)
