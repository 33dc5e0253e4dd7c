"""Virtual machines for the page: a path that any client may read, so the queue's node is asked rarely however many
there are.

Input: a request. Output: the last round of the queue's node, and how full the servers are. Invariant: that node is
asked once in KEPT_S at most, and not while this node knows of no plan in force: every node has the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import trio

from subord.api.http.server import Handler, Query, Response, document
from subord.api.models.coverage import Coverage
from subord.api.node_api import NodeApi
from subord.api.query.kept import Kept
from subord.api.query.one_node import NONE_ASKED, said_by
from subord.api.query.orders import BUDGET_S, Answered, asked
from subord.core.carriage.engine.ranges import Ranges
from subord.core.view import Position
from subord.runtime.machines.state import SENTENCES
from subord.services.answers import sentence_of
from subord.services.machines.shown.documents import (
    MachinesShownDocument,
    ShownAmount,
    ShownFigures,
    ShownPart,
    ShownServer,
    ShownType,
    ShownWhy,
)
from subord.services.machines.shown.words import (
    SERVICE,
    AskShown,
    SaidAmount,
    SaidFigures,
    SaidServer,
    SaidShown,
    decode_said,
    encode,
)
from subord.services.machines.telling.published import published

PATH: Final = "/v1/machines/shown"
KEPT_S: Final = 4.0


def paths(node: NodeApi) -> Mapping[str, Handler]:
    """`/v1/machines/shown`."""
    kept = Kept(lambda: _asked(node), KEPT_S)

    async def shown(_: Query) -> Response:
        await trio.lowlevel.checkpoint()
        version, manager = published(node).shown.version, _manager(node)
        if not manager:
            return document(MachinesShownDocument(**_fields(NONE_ASKED), version=version or None, off=True))
        return document(_document(node, version, manager, await kept.get()))

    return {PATH: shown}


def _manager(node: NodeApi) -> Position:
    """0: no plan is in force."""
    plan = published(node).plan
    return 0 if plan is None or plan.is_off else plan.manager


async def _asked(node: NodeApi) -> Answered:
    """The node may have another plan by now; the answer says which node it is of."""
    targets = Ranges.of((_manager(node) or node.snapshot().position,))
    return await asked(node, SERVICE, BUDGET_S, payload=encode(AskShown()), targets=targets)


def _fields(found: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(found)


def _document(node: NodeApi, version: int, manager: Position, answered: Answered) -> MachinesShownDocument:
    address = node.settings.network.address_text_of(manager)
    said, coverage = said_by(answered, manager, address, decode_said)
    if said is None:
        return MachinesShownDocument(**_fields(coverage), version=version, off=False, address=address)
    return _of_manager(said, address, coverage, version)


def _of_manager(said: SaidShown, address: str, coverage: Coverage, version: int) -> MachinesShownDocument:
    names = [each.type for each in said.kinds]
    return MachinesShownDocument(
        **_fields(coverage),
        version=version,
        off=False,
        address=address,
        state=said.word,
        text=sentence_of(said.word, SENTENCES),
        detail=said.detail or None,
        trial=said.is_trial,
        figures=None if said.figures is None else _figures(said.figures),
        hindrance=said.hindrance or None,
        fault=said.fault or None,
        types=tuple(ShownType(**_fields(each)) for each in said.kinds),
        whys=tuple(ShownWhy(**_fields(each)) for each in said.whys),
        whys_left_out=said.whys_left_out,
        notes=said.notes,
        notes_left_out=said.notes_left_out,
        servers=tuple(_server(each, names) for each in said.servers),
        servers_left_out=said.servers_left_out,
    )


def _figures(said: SaidFigures) -> ShownFigures:
    return ShownFigures(**{**_fields(said), "have": _amount(said.have), "used": _amount(said.used)})


def _server(said: SaidServer, names: list[str]) -> ShownServer:
    return ShownServer(
        name=said.name,
        have=_amount(said.have),
        used=_amount(said.used),
        overbooked=said.is_over,
        drained=said.is_drained,
        fault=said.fault or None,
        age_s=said.age_s,
        parts=tuple(
            ShownPart(
                type=names[each.kind] if each.kind < len(names) else None,
                on=each.on,
                cores=each.cores,
                memory_mb=each.memory,
            )
            for each in said.parts
        ),
    )


def _amount(said: SaidAmount) -> ShownAmount:
    return ShownAmount(cores=said.cores, memory_mb=said.memory)
