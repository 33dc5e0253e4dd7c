"""What a node says of its records that wait, and what the issuer makes of it.

Inputs are the counters of the spool and of the sink, and the sinks that the ledger has heard of; output is an
AccountDocument. Numbers are told in classes of a factor of two, so that many nodes answer alike: nodes without
records that wait all say the same.
"""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

import msgspec
import trio

from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Addresses, Count
from subord.api.node_api import NodeApi
from subord.api.query.orders import NAMED_MAX
from subord.core.decoding import UNREADABLE
from subord.services.account.record import COMMAND, JOB, wrong
from subord.services.contract import Answered, Service
from subord.services.serving import of_coverage

CLASS_MAX: Final = 40
SINKS_HEARD: Final = "order_ledger_sinks"
"""Among the sizes of the engine of orders (core/carriage/ledger/ledger.py)."""
_Class = Annotated[int, msgspec.Meta(ge=0, le=CLASS_MAX)]
SinkState = Literal["", "stores", "fails"]
SpoolState = Literal["", "keeps", "fails"]


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """The answer of a node. `sink`: its own; "": it is none. `reaches`: it is a sink that stores, or has heard of
    one. `spool`: its own; "": it has none. The classes are of records, of their bytes, and of the age of the
    oldest in seconds; `missing`: of records that the database of a sink lacks since a restore. They come from other
    nodes, so they have bounds."""

    sink: SinkState
    reaches: bool
    spool: SpoolState
    records: _Class = 0
    bytes: _Class = 0
    oldest_s: _Class = 0
    missing: _Class = 0


class SpoolsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that say the same. `sink`: they are sinks that store, or fail; null: they are none. `spool`: theirs keeps
    records, or fails, and then more may wait than is known; null: they have none. Not more than `records_max` records
    of `bytes_max` bytes wait on each, none older than `oldest_s_max`; null: none waits. `missing_max`: the databases
    of these sinks lack up to so many records since they were restored to an earlier state."""

    sink: Literal["stores", "fails"] | None
    reaches_sink: bool
    spool: Literal["keeps", "fails"] | None
    records_max: Count
    bytes_max: Count
    oldest_s_max: Count | None
    missing_max: Count
    nodes: Count
    addresses: Addresses


class AccountDocument(CoverageDocument, frozen=True, kw_only=True):
    """`spools`: those with the oldest records first."""

    spools: tuple[SpoolsDocument, ...]


def class_of(number: float) -> int:
    """Numbers of less than 2^class; 0: nothing."""
    return min(max(0, int(number)).bit_length(), CLASS_MAX)


def waiting(node: NodeApi, now: float) -> Waiting:
    """Of this node."""
    counters = node.counters
    reaches = counters.sink_state == "stores" or node.orders.sizes().get(SINKS_HEARD, 0) > 0
    waits = counters.spool_records, counters.spool_bytes, counters.spool_age_s(now)
    numbers = *(waits if counters.spool_records else (0, 0, 0)), counters.records_missing
    return Waiting(counters.sink_state, reaches, counters.spool_state, *map(class_of, numbers))


async def answer(node: NodeApi, _: bytes) -> bytes:
    """The result of this node."""
    await trio.lowlevel.checkpoint()
    return msgspec.msgpack.encode(waiting(node, time.time()))


def document(answered: Answered) -> CoverageDocument:
    """The coverage, and the nodes by what they say."""
    found = list[tuple[Waiting, SpoolsDocument]]()
    for result, told in answered.answer.groups:
        try:
            said = msgspec.msgpack.decode(result, type=Waiting)
        except UNREADABLE:
            continue
        network = answered.node.settings.network
        addresses = tuple(network.address_text_of(each) for each, _ in zip(told, range(NAMED_MAX), strict=False))
        found.append((said, _shown(said, len(told), addresses)))
    found.sort(
        key=lambda each: (each[0].missing, each[0].oldest_s, each[0].records, each[0].sink, each[1].addresses),
        reverse=True,
    )
    return of_coverage(AccountDocument, answered, spools=tuple(shown for _, shown in found))


def _shown(said: Waiting, count: int, addresses: Addresses) -> SpoolsDocument:
    return SpoolsDocument(
        sink=said.sink or None,
        reaches_sink=said.reaches,
        spool=said.spool or None,
        records_max=(1 << said.records) - 1,
        bytes_max=(1 << said.bytes) - 1,
        oldest_s_max=1 << said.oldest_s if said.records else None,
        missing_max=(1 << said.missing) - 1,
        nodes=count,
        addresses=addresses,
    )


SERVICE = Service(answer, document, records=dict.fromkeys((JOB, COMMAND), wrong))
