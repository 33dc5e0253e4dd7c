"""Which nodes keep a ring, and what of it they answer.

Inputs are a node, which is looked at every EVERY_S, and questions; output is the answer. A node that decides for
others keeps what it decides, and the root also when it is alone. Invariants: a ring is of the classes of the plan,
and of one role: when the node becomes root, or is none any more, it begins anew. While no plan is in force there is
none.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from time import monotonic
from typing import Final, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import msgspec
import trio

from subord.api.models.shares import figures_of
from subord.api.node_api import NodeApi
from subord.core.carriage.reports.bounds import COUNT_MAX, to_ms
from subord.core.carriage.shares.interface import DOCUMENT, Overview
from subord.core.carriage.shares.plan import Plan
from subord.runtime.shares.state import NONE, OFF
from subord.services.shares.past.ring import EVERY_S, UNKNOWN, Ring, hundredths
from subord.services.shares.past.words import (
    CAUSES_MAX,
    CURVES_MAX,
    NAMED_MAX,
    WHY_CHARS_MAX,
    AskPast,
    SaidClass,
    SaidCurve,
    SaidLeftOut,
    SaidPast,
    decode_ask,
    encode,
)

SLACK: Final = 0.9
"""Of the time between two moments: nodes are not looked at to the millisecond."""


class _Kept(NamedTuple):
    """The ring of a node in one role."""

    is_root: bool
    ring: Ring


_kept: Final[WeakKeyDictionary[NodeApi, _Kept]] = WeakKeyDictionary()


async def keep_forever(node: NodeApi) -> NoReturn:
    """Look at the node until cancelled."""
    while True:
        keep(node)
        await trio.sleep(EVERY_S)


def keep(node: NodeApi) -> None:
    """Add this moment to the ring of the node, if it is to have one."""
    if node.shares.state.word in {NONE, OFF}:
        _kept.pop(node, None)
        return
    found = node.shares.overview()
    plan = in_force(found)
    if plan is None or not _decides(found):
        _kept.pop(node, None)
        return
    now, kept = monotonic(), _ring_of(node, found, plan)
    last_at = kept.ring.last_at
    if last_at is None or now - last_at >= SLACK * every_s(plan):
        kept.ring.add(now, found.told, found.asked, found.wanted, figures_of(found.branches))
    _kept[node] = kept


def in_force(found: Overview) -> Plan | None:
    """None: shares were never set, or are off."""
    return None if found.plan is None or found.plan.is_off else found.plan


def every_s(plan: Plan) -> float:
    """Between two moments: a round has one figure."""
    return max(EVERY_S, plan.round_s)


def _is_root(found: Overview) -> bool:
    return found.wanted_from == DOCUMENT


def _decides(found: Overview) -> bool:
    return _is_root(found) or found.decided is not None


def _ring_of(node: NodeApi, found: Overview, plan: Plan) -> _Kept:
    """The ring that the node has in this role for these classes, else a new one."""
    kept = _kept.get(node)
    if kept is None or kept.is_root is not _is_root(found) or kept.ring.classes != plan.classes:
        return _Kept(_is_root(found), Ring(plan.classes))
    return kept


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node; nothing for another question, and while no plan is in force there."""
    await trio.lowlevel.checkpoint()
    if not isinstance(decode_ask(payload), AskPast):
        return b""
    found = node.shares.overview()
    plan = in_force(found)
    if plan is None:
        return b""
    kept = _ring_of(node, found, plan)
    is_young = kept.is_root and not node.orders.is_settled
    return encode(msgspec.structs.replace(_said(found, plan, kept), is_young=is_young))


def _said(found: Overview, plan: Plan, kept: _Kept) -> SaidPast:
    ring = kept.ring
    return SaidPast(
        is_root=kept.is_root,
        version=plan.version,
        round_ms=to_ms(plan.round_s),
        told=found.told,
        asked=found.asked,
        oldest_ms=to_ms(max((each.age_s for each in found.branches), default=0.0)),
        undecided=found.undecided[:WHY_CHARS_MAX],
        left_out=tuple(_left_out(found))[:CAUSES_MAX],
        classes=tuple(_classes(found, plan)),
        every_ms=to_ms(every_s(plan)),
        ages_ms=tuple(map(to_ms, ring.ages_s(monotonic()))),
        nodes_told=tuple(ring.told),
        nodes_asked=tuple(ring.asked),
        curves=tuple(_curves(found, plan, ring)),
    )


def _left_out(found: Overview) -> Iterator[SaidLeftOut]:
    room = NAMED_MAX
    for cause in sorted({each.cause for each in found.left_out}):
        branches = [each for each in found.left_out if each.cause == cause]
        named = tuple(each.position for each in branches[:room])
        room -= len(named)
        yield SaidLeftOut(cause, min(COUNT_MAX, sum(each.nodes for each in branches)), named)


def _classes(found: Overview, plan: Plan) -> Iterator[SaidClass]:
    figures = figures_of(found.branches)
    for number, (name, wanted) in enumerate(zip(plan.classes, found.wanted, strict=True)):
        if figures is None:
            yield SaidClass(name, hundredths(wanted), UNKNOWN, UNKNOWN, is_needy=False)
        else:
            got, used = hundredths(figures.got[number]), hundredths(figures.used[number])
            yield SaidClass(name, hundredths(wanted), got, used, is_needy=bool(figures.needy[number]))


def _curves(found: Overview, plan: Plan, ring: Ring) -> Iterator[SaidCurve]:
    """Those with the largest shares, in the order of the document."""
    numbers = range(len(plan.classes))
    largest = sorted(numbers, key=lambda number: -found.wanted[number])[:CURVES_MAX]
    for number in sorted(largest):
        yield SaidCurve(plan.classes[number], *map(_little, ring.series(number)))


def _little(values: array[int]) -> bytes:
    """Little-endian, whatever the machine."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def numbers_of(data: bytes) -> array[int]:
    """The values of a series."""
    found = array("H", data)
    if sys.byteorder == "big":
        found.byteswap()
    return found
