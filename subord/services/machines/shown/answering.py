"""What the queue's node says for the page: its last round, the reasons of jobs, and how full the servers are.

Inputs are the question and the State of the node; output is a result within its bounds, `b""` for another question.
Invariant: of what has no room the number is told; sums are of all servers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Final

import trio
from msgspec.structs import replace

from subord.api.node_api import NodeApi
from subord.core.carriage.engine.bounds import RESULT_BYTES_MAX
from subord.core.carriage.reports.bounds import COUNT_MAX
from subord.runtime.machines.state import Amount, KindCount, SeenServer, State
from subord.services.decoding import fitting
from subord.services.machines.shown.words import (
    NOTES_MAX,
    WHYS_MAX,
    SaidAmount,
    SaidFigures,
    SaidKind,
    SaidPart,
    SaidServer,
    SaidShown,
    SaidWhy,
    decode_ask,
    encode,
)

TEXTS_BYTES_MAX: Final = RESULT_BYTES_MAX // 8
"""Of reasons, and of notes."""
KINDS_BYTES_MAX: Final = RESULT_BYTES_MAX // 4
FAULT_CHARS_MAX: Final = 120
"""Of a server: many may have one."""
SPARE_BYTES: Final = 64
"""For the lengths of lists, and the numbers of what is left out."""


async def answer(node: NodeApi, payload: bytes) -> bytes:
    """The result of a node; nothing for another question."""
    await trio.lowlevel.checkpoint()
    if decode_ask(payload) is None:
        return b""
    return encode(said(node.machines.state, node.tracker.wall_ms / 1000))


def said(state: State, now: float) -> SaidShown:
    """`now`: seconds since 1970."""
    kinds = fitting(tuple(map(_kind, state.kinds)), KINDS_BYTES_MAX)
    whys = fitting(tuple(_whys(state)), TEXTS_BYTES_MAX)
    notes = fitting(state.notes[:NOTES_MAX], TEXTS_BYTES_MAX)
    found = SaidShown(
        word=state.word,
        detail=state.detail,
        version=state.version,
        is_trial=state.is_trial,
        figures=_figures(state, now) if state.at and not state.is_unread else None,
        hindrance=state.hindrance,
        fault=state.fault,
        kinds=kinds,
        whys=whys,
        whys_left_out=max(0, _number(state.unmet) - sum(each.jobs for each in whys)),
        notes=notes,
        notes_left_out=_number(state.notes_left_out + len(state.notes) - len(notes)),
        servers=(),
        servers_left_out=0,
    )
    numbers = {each.type: number for number, each in enumerate(kinds)}
    every = tuple(_server(each, numbers, now) for each in state.servers)
    servers = fitting(every, RESULT_BYTES_MAX - len(encode(found)) - SPARE_BYTES)
    left_out = state.servers_left_out + len(every) - len(servers)
    return replace(found, servers=servers, servers_left_out=_number(left_out))


def _figures(state: State, now: float) -> SaidFigures:
    return SaidFigures(
        age_s=_number(now - state.at),
        round=_number(state.round),
        waiting=_number(state.waiting),
        unmet=_number(state.unmet),
        running=_number(state.running),
        servers=_number(state.servers_all),
        unreachable=_number(state.unreachable),
        overbooked=_number(state.overbooked),
        drained=_number(state.drained),
        have=_amount(state.have),
        used=_amount(state.used),
    )


def _whys(state: State) -> Iterator[SaidWhy]:
    jobs = Counter[str]()
    for each in state.jobs:
        if each.is_unmet and each.why:
            jobs[each.why] += each.tasks
    for why, number in jobs.most_common(WHYS_MAX):
        yield SaidWhy(why, _number(number))


def _kind(found: KindCount) -> SaidKind:
    return SaidKind(
        type=found.type,
        on=_number(found.on),
        off=_number(found.off),
        open=_number(found.open),
        busy=_number(found.busy),
        coming=_number(found.coming),
        left_alone=_number(found.left_alone),
    )


def _server(found: SeenServer, numbers: Mapping[str, int], now: float) -> SaidServer:
    """`numbers`: of the types that are told."""
    excess = found.excess
    return SaidServer(
        name=found.name,
        have=_amount(found.have),
        used=_amount(found.used),
        is_over=any((excess.cores, excess.memory, excess.disk, excess.slots)),
        is_drained=found.is_drained,
        fault=found.fault[:FAULT_CHARS_MAX],
        age_s=_number(now - found.asked_at) if found.asked_at else None,
        parts=tuple(_parts(found, numbers)),
    )


def _parts(found: SeenServer, numbers: Mapping[str, int]) -> Iterator[SaidPart]:
    """Types that are not told are one part."""
    others = SaidPart(len(numbers), 0, 0, 0)
    for each in found.kinds:
        part = SaidPart(numbers.get(each.type, len(numbers)), *map(_number, (each.on, each.cores, each.memory)))
        if part.kind == others.kind:
            on, cores, memory = others.on + part.on, others.cores + part.cores, others.memory + part.memory
            others = SaidPart(others.kind, *map(_number, (on, cores, memory)))
        elif part.on:
            yield part
    if others.on:
        yield others


def _amount(found: Amount) -> SaidAmount:
    return SaidAmount(_number(found.cores), _number(found.memory))


def _number(found: float) -> int:
    """0 for what is no count or age, such as the age of what is to come."""
    return int(min(max(0.0, found), COUNT_MAX)) if isfinite(found) else 0
