"""Serves the registered services: their answers to orders, and their paths `/v1/NAME` at the control socket.

Input: `?nodes=1-3,7`, positions, without it all members; `?budget=SECONDS`; `?payload=TEXT`. Output: the document of
the service, which always says whom it covers. Invariant: a wrong request gives no order.
"""

from __future__ import annotations

import importlib
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
import trio

from subord.api.handlers.control import budget_s
from subord.api.http.server import App, Query, Response, document, failure
from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument, MissingDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.causes import sentence
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.orders.driver import Reading
from subord.services import NAMES
from subord.services.contract import Answered, Publishing, ReportService, Service
from subord.services.folds import fold_coverage, fold_in, fold_reading, publish_forever, root_of

Form = TypeVar("Form", bound=CoverageDocument)
NAMED_MAX: Final = 512
"""Addresses of one cause; `count` counts all."""


def service(name: str) -> Service | ReportService:
    """A registered service."""
    found: Service | ReportService = importlib.import_module(f"subord.services.{name}.core").SERVICE
    return found


def readings(node: NodeApi) -> dict[str, Reading]:
    """What this node answers to orders, by service."""
    return {name: _reading(node, name, service(name)) for name in NAMES}


def _reading(node: NodeApi, name: str, wanted: Service | ReportService) -> Reading:
    if isinstance(wanted, ReportService):
        return fold_reading(node, name)
    return partial(wanted.answer, node)


def publishings() -> dict[str, Publishing]:
    """The reports of the registered services."""
    found = {name: service(name) for name in NAMES}
    return {name: each.publishing for name, each in found.items() if isinstance(each, ReportService)}


def publish_all(node: NodeApi, nursery: trio.Nursery) -> None:
    """Publish every report of the registered services until cancelled."""
    for name, publishing in publishings().items():
        nursery.start_soon(publish_forever, node, name, publishing)


def service_app(node: NodeApi) -> App:
    """The paths of the services."""
    return {f"/v1/{name}": partial(_give, node, name) for name in NAMES}


async def _give(node: NodeApi, name: str, query: Query) -> Response:
    """Give an order, and answer with the document of the service."""
    wanted = service(name)
    if isinstance(wanted, ReportService):
        return await _give_fold(node, name, wanted, query)
    try:
        targets = targets_of(query.get("nodes"), node.settings.network.size)
        payload = wanted.payload(query.get("payload", ""))
    except ValueError as error:
        return failure(400, f"{error}: no node was asked")
    began = trio.current_time()
    answer = await node.orders.order(name, payload, targets, budget_s(query))
    after_s = trio.current_time() - began
    return document(wanted.document(Answered(node, answer, after_s, coverage(node, answer, after_s))))


async def _give_fold(node: NodeApi, name: str, wanted: ReportService, query: Query) -> Response:
    """Ask the root for the fold; without its answer the document covers the root alone."""
    began = trio.current_time()
    answer = await node.orders.order(name, b"", root_of(node), budget_s(query))
    after_s = trio.current_time() - began
    fold = fold_in(answer.groups)
    covered = coverage(node, answer, after_s) if fold is None else fold_coverage(node, fold)
    return document(wanted.document(Answered(node, answer, after_s, covered, fold)))


def targets_of(text: str | None, size: int) -> Ranges | None:
    """`1-3,7`; None: all members. Raises ValueError with a sentence."""
    if text is None:
        return None
    pairs = []
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        try:
            pair = int(first), int(last if dash else first)
        except ValueError:
            raise ValueError(f"{piece[:32]!r} is no range of positions") from None
        if not 0 < pair[0] <= pair[1] <= size:
            raise ValueError(f"{piece[:32]} is outside the network")
        pairs.append(pair)
    return Ranges.of_pairs(pairs)


def coverage(node: NodeApi, answer: Answer, after_s: float) -> CoverageDocument:
    """Whom an answer covers. Every result was made after the order was given, so none is older than `after_s`."""
    return CoverageDocument(
        asked=len(answer.targets),
        told=answer.told,
        complete=answer.is_whole,
        missing=tuple(_missing(node, cause, positions) for cause, positions in answer.missing if positions),
        oldest_ms=round(after_s * 1000, 1),
    )


def of_coverage(form: type[Form], answered: Answered, **fields: Any) -> Form:
    """The document of a service: the coverage, and fields of its own."""
    covered: dict[str, Any] = msgspec.structs.asdict(answered.coverage)
    return form(**covered, **fields)


def _missing(node: NodeApi, cause: str, positions: Ranges) -> MissingDocument:
    addresses = nodes.addresses(node.settings, islice(positions, NAMED_MAX))
    return MissingDocument(cause=cause, text=sentence(cause), count=len(positions), addresses=addresses)
