"""Reports of services: each node publishes its record, and a command at any node gets the fold of the root.

Inputs are the registered services with a report, and requests; outputs are records for the driver, and the fold that
the root answers to an order. A record is made at multiples of its interval by the wall clock of the host, so that a
leader need not wait long for the last one; clocks that differ make the fold older, not wrong.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, NoReturn

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX, YOUNG_NOTE, Answered, asked
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.frames import Unreadable
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.answer import decode_fold, encode_fold
from subord.core.carriage.reports.coverage import SENTENCES, UNREADABLE, Missing
from subord.core.carriage.reports.reports import Fold
from subord.runtime.orders.driver import Reading
from subord.services.contract import Publishing

logger = logging.getLogger("subord")
SPREAD: Final = 0.1
"""The share of an interval in which nodes publish, by position: many on one host do not do it at once."""
PAUSE_S_MIN: Final = 0.01


def pause_s(position: int, interval_s: float, wall_s: float) -> float:
    """Until the node publishes next."""
    phase_s = SPREAD * interval_s * (position % 97 / 97)
    left_s = (phase_s - wall_s) % interval_s
    return left_s if left_s > PAUSE_S_MIN else left_s + interval_s


async def publish_forever(node: NodeApi, name: str, publishing: Publishing) -> NoReturn:
    """Publish a report until cancelled. A record that cannot be made is counted, and the last one becomes stale."""
    while True:
        await trio.sleep(pause_s(node.snapshot().position, publishing.interval_s, time.time()))
        try:
            record = await publishing.record(node)
        except Exception:
            logger.exception("the report %s failed", name)
            node.counters.dropped["service_failed"] += 1
            continue
        if record is not None:
            node.orders.publish(name, record, publishing.interval_s)


def fold_reading(
    node: NodeApi, name: str, answer: Callable[[NodeApi, bytes], Awaitable[bytes]] | None = None
) -> Reading:
    """What a node answers: without a payload the fold of its branch, else what `answer` makes of the payload."""

    async def read(payload: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        if payload and answer is not None:
            return await answer(node, payload)
        return encode_fold(node.orders.folded(name))

    return read


def root_of(node: NodeApi) -> Ranges:
    """The node to ask for the fold of the whole tree: the root of the tree that this node is in."""
    view = node.snapshot()
    return Ranges.of((view.path[0] if view.path else view.position,))


async def asked_fold(node: NodeApi, name: str, budget_s: float) -> Answered:
    """The answer of the root for the whole tree."""
    return with_fold(node, await asked(node, name, budget_s, targets=root_of(node)))


def with_fold(node: NodeApi, found: Answered) -> Answered:
    """The answer of the root, with the fold in it and what the fold covers. Of a fold that cannot be read nothing is
    told."""
    fold = fold_in(found.answer.groups)
    if fold is not None:
        return found._replace(fold=fold, coverage=fold_coverage(node, fold))
    if not found.coverage.told:
        return found
    named = nodes.addresses(node.settings, found.answer.targets)
    unread = MissingDocument(cause=UNREADABLE, text=SENTENCES[UNREADABLE], count=len(named), addresses=named)
    coverage = msgspec.structs.replace(found.coverage, told=0, complete=False, missing=(unread,))
    return found._replace(coverage=coverage)


def fold_in(groups: tuple[tuple[bytes, Ranges], ...]) -> Fold | None:
    """The fold in an answer; None: the root gave none that this release can read."""
    for result, _ in groups:
        try:
            return decode_fold(result)
        except Unreadable:
            continue
    return None


def fold_coverage(node: NodeApi, fold: Fold) -> Coverage:
    """Whom a fold covers."""
    said = fold.coverage
    return Coverage(
        asked=said.asked,
        told=said.told,
        complete=fold.is_root and said.told == said.asked and not (said.unlisted or fold.left_out or fold.is_young),
        missing=tuple(
            MissingDocument(
                cause=each.cause,
                text=SENTENCES.get(each.cause) or sentence(each.cause),
                count=each.count,
                addresses=_named(node, each),
            )
            for each in said.missing
        ),
        oldest_ms=round(fold.oldest_s * 1000, 1),
        note=YOUNG_NOTE if fold.is_young else None,
    )


def _named(node: NodeApi, missing: Missing) -> tuple[str, ...]:
    """Addresses of missing nodes, no more than are missing: ranges that another node says may be of any length."""
    positions = missing.nodes & Ranges(((1, node.settings.network.size),))
    return nodes.addresses(node.settings, islice(positions, min(missing.count, NAMED_MAX)))
