"""Which nodes keep a ring, and what of it they answer.

Inputs are a node once in INTERVAL_S, and questions; output is the answer. The root keeps the figures of the whole
cluster, and each of its subordinates those of its branch: no others are asked. Invariant: a ring is of one role: when
a node becomes root, or is none any more, its ring begins anew.
"""

from __future__ import annotations

import sys
from array import array
from functools import partial
from time import monotonic
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from subord.api.node_api import NodeApi
from subord.core.carriage.reports.bounds import to_ms
from subord.services.metrics.past.ring import Ring, figures_of
from subord.services.metrics.questions.words import BELOW_MAX, SERVICE, AskPast, SaidPast, encode
from subord.services.metrics.wanted import fits

SERIES_BYTES_MAX: Final = 24_000
"""Of an answer: with the moments and the subordinates it fits the result of an order."""


class _Kept(NamedTuple):
    """The ring of a node in one role."""

    is_root: bool
    ring: Ring


_kept: Final[WeakKeyDictionary[NodeApi, _Kept]] = WeakKeyDictionary()


def keep(node: NodeApi) -> None:
    """Add this moment to the ring of the node, if it is to have one. While it has no place it keeps what it has."""
    depth = len(node.snapshot().path)
    if depth > 1:
        _kept.pop(node, None)
        return
    fold = node.orders.folded(SERVICE)
    if not fold.is_root and not depth:
        return
    kept = _kept.get(node)
    if kept is None or kept.is_root is not fold.is_root:
        kept = _kept[node] = _Kept(fold.is_root, Ring())
    covered = fold.coverage
    kept.ring.add(monotonic(), covered.told, covered.asked, figures_of(fold.record))


def below(node: NodeApi) -> tuple[int, ...]:
    """The subordinates of a node."""
    return tuple(sorted(each.position for each in node.snapshot().subordinates))[:BELOW_MAX]


def past(node: NodeApi, ask: AskPast) -> bytes:
    """The answer of a node; without a ring it knows nothing."""
    kept = _kept.get(node) or _Kept(node.orders.folded(SERVICE).is_root, Ring())
    wants = partial(fits, pattern=ask.pattern or "*")
    found = kept.ring.read(monotonic(), ask.seconds, ask.figure, wants)
    room, series = SERIES_BYTES_MAX, dict[str, bytes]()
    for name, values in found.values.items():
        data = _little(values)
        room -= len(data) + len(name.encode()) + 8
        if room < 0:
            break
        series[name] = data
    ages_ms = tuple(map(to_ms, found.ages_s))
    said = SaidPast(
        below(node),
        kept.is_root,
        to_ms(found.known_s),
        ages_ms,
        found.told,
        found.asked,
        series,
        len(found.values) - len(series),
        is_young=kept.is_root and not node.orders.is_settled,
    )
    return encode(said)


def _little(values: array[float]) -> bytes:
    """Little-endian, whatever the machine."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def numbers_of(data: bytes) -> array[float]:
    """The values of a series."""
    found = array("f", data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
