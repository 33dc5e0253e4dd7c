"""The parts of documents that come of what agents tell: servers, machines, rounds, actions.

Inputs are structs of runtime/machines/state.py and the clock of the node that told them; outputs are documents. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict

from subord.api.models.document import time_text
from subord.runtime.machines import state
from subord.runtime.machines.state import Action, Amount, KindCount, MachineState, SeenServer, ServerState, State
from subord.services.answers import age_of, sentence_of, time_of
from subord.services.machines.telling.documents import (
    ActionDocument,
    AmountDocument,
    KindDocument,
    MachineDocument,
    PoolDocument,
    RoundDocument,
    SeenServerDocument,
    ServerDocument,
    TotalsDocument,
)
from subord.services.machines.telling.words import ToldServer


def amount(found: Amount) -> AmountDocument:
    return AmountDocument(cores=found.cores, memory_mb=found.memory, disk_mb=found.disk, slots=found.slots)


def _excess(have: Amount, used: Amount) -> Amount:
    return Amount(
        max(0, used.cores - have.cores),
        max(0, used.memory - have.memory),
        max(0, used.disk - have.disk),
        max(0, used.slots - have.slots),
    )


# -- a server -------------------------------------------------------------------------------------------------------


def server(told: ToldServer, found: ServerState, address: str) -> ServerDocument:
    """`address`: of its node."""
    return ServerDocument(
        address=address,
        name=found.name,
        state=told.word,
        text=sentence_of(told.word, state.SENTENCES),
        detail=told.detail,
        seen=time_of(found.at),
        seen_s=age_of(found.at, told.now),
        fault=found.fault,
        uri=found.uri,
        have=amount(found.have),
        used=amount(found.used),
        excess=amount(_excess(found.have, found.used)),
        mhz=found.mhz,
        drained=found.is_drained,
        obeys_version=found.version,
        obeys_life=found.life,
        obeyed=found.obeyed,
        refused=found.refused,
        refusal=found.refusal,
        pools=tuple(
            PoolDocument(name=each.name, capacity_mb=each.capacity, free_mb=each.free, active=each.is_active)
            for each in found.pools
        ),
        machines=tuple(_machine(each, told.now) for each in found.machines),
        left_out=found.left_out,
    )


def _machine(found: MachineState, now: float) -> MachineDocument:
    return MachineDocument(
        name=found.name,
        ours=bool(found.type),
        type=found.type,
        state=found.state,
        doing=found.doing,
        peer=found.peer,
        cores=found.cores,
        memory_mb=found.memory,
        disk_mb=found.disk,
        since=time_of(found.since),
        since_s=age_of(found.since, now),
        fault=found.fault,
    )


# -- the queue's node -----------------------------------------------------------------------------------------------


def round_of(found: State, now: float, address: str) -> RoundDocument:
    """What the queue's node tells. `address`: of that node."""
    return RoundDocument(
        address=address,
        state=found.word,
        text=sentence_of(found.word, state.SENTENCES),
        detail=found.detail,
        version=found.version,
        batch=found.batch,
        trial=found.is_trial,
        life=found.life,
        round=found.round,
        seen=time_of(found.at),
        seen_s=age_of(found.at, now),
        next_s=round(max(0.0, found.next_at - now), 3) if found.next_at else None,
        hindrance=found.hindrance,
        fault=found.fault,
        queues_read=not found.is_unread,
        queues=found.queues,
        lacking=found.lacking,
        notes=found.notes,
        notes_left_out=found.notes_left_out,
        waiting=found.waiting,
        running=found.running,
        unmet=found.unmet,
        pending=found.pending,
        actions=actions(found.actions, now),
        actions_left_out=found.actions_left_out,
        store_mb=found.store,
        store_most_mb=found.store_most,
        headroom=amount(found.headroom),
        free=amount(found.free),
        have=amount(found.have),
        used=amount(found.used),
        kinds=_kinds(found.kinds),
        servers_all=found.servers_all,
        unreachable=found.unreachable,
        overbooked=found.overbooked,
        drained=found.drained,
        servers=tuple(_seen(each, now) for each in found.servers),
        servers_left_out=found.servers_left_out,
        totals=TotalsDocument(**asdict(found.totals)),
        decide_s=found.decide_s,
        ask_s=found.ask_s,
        order_s=found.order_s,
    )


def actions(found: Iterable[Action], now: float) -> tuple[ActionDocument, ...]:
    """In their order."""
    return tuple(
        ActionDocument(
            time=time_text(each.at),
            age_s=round(max(0.0, now - each.at), 3),
            action=each.kind,
            machine=each.machine,
            server=each.server,
            source=each.source,
            job=each.job,
            why=each.why,
            result=each.result,
            reason=each.reason,
        )
        for each in found
    )


def _kinds(found: Iterable[KindCount]) -> tuple[KindDocument, ...]:
    return tuple(
        KindDocument(
            type=each.type,
            on=each.on,
            off=each.off,
            open=each.open,
            busy=each.busy,
            coming=each.coming,
            left_alone=each.left_alone,
            cores=each.cores,
            memory_mb=each.memory,
        )
        for each in found
    )


def _seen(found: SeenServer, now: float) -> SeenServerDocument:
    return SeenServerDocument(
        name=found.name,
        address=found.address,
        asked_s=age_of(found.asked_at, now),
        fault=found.fault,
        have=amount(found.have),
        used=amount(found.used),
        excess=amount(found.excess),
        mhz=found.mhz,
        drained=found.is_drained,
        kinds=_kinds(found.kinds),
    )
