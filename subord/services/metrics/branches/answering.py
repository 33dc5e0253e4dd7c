"""What a node answers to questions of `subord metrics` beside the fold of its branch.

Inputs are the node and the payload of an order; output is a result within its bounds. Invariant: a payload that
cannot be read is answered with nothing.
"""

from __future__ import annotations

from time import monotonic
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.answer import encode_fold
from subord.core.carriage.reports.bounds import STALE_INTERVALS
from subord.core.carriage.reports.coverage import NO_REPORT, Coverage, Missing
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold
from subord.services.metrics.past.keeping import below, past
from subord.services.metrics.questions.words import SERVICE, AskBranch, AskPast, SaidBranch, decode_ask, encode
from subord.services.metrics.wanted import fits

METRICS_MAX: Final = 8
"""In one answer: the folds of so many have room in it."""


class _Own(NamedTuple):
    """What a node has published last."""

    record: Record
    at: float
    interval_s: float


_own: Final[WeakKeyDictionary[NodeApi, _Own]] = WeakKeyDictionary()


def remember(node: NodeApi, record: Record | None, interval_s: float) -> None:
    """What a node publishes; None: nothing."""
    _own.pop(node, None)
    if record is not None:
        _own[node] = _Own(record, monotonic(), interval_s)


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node."""
    await trio.lowlevel.checkpoint()
    ask = decode_ask(payload)
    if isinstance(ask, AskPast):
        return past(node, ask)
    return b"" if ask is None else _branch(node, ask)


def _branch(node: NodeApi, ask: AskBranch) -> bytes:
    fold = node.orders.folded(SERVICE)
    names = [name for name in sorted(fold.record) if fits(name, ask.pattern or "*")]
    shown = names[:METRICS_MAX]
    record = {name: fold.record[name] for name in shown}
    left_out = max(fold.left_out, len(names) - len(shown))
    said = _said(node, fold._replace(record=record, left_out=left_out), shown)
    if len(said) <= RESULT_BYTES_MAX:
        return said
    return _said(node, fold._replace(record={}, left_out=len(names)), [])


def _said(node: NodeApi, fold: Fold, names: list[str]) -> bytes:
    return encode(SaidBranch(encode_fold(fold), encode_fold(_alone(node, names)), below(node)))


def _alone(node: NodeApi, names: list[str]) -> Fold:
    """The node without those below it. A record that is not renewed for STALE_INTERVALS does not count."""
    own, now = _own.get(node), monotonic()
    if own is None or now - own.at >= STALE_INTERVALS * own.interval_s:
        numbers = Ranges.of((node.snapshot().position,)).flat()
        return Fold({}, Coverage(1, 0, (Missing(NO_REPORT, 1, numbers),)), 0.0)
    return Fold({name: own.record[name] for name in names if name in own.record}, Coverage(1, 1), now - own.at)
