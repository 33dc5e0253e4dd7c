"""Serves the registered services: their answers to orders, and their paths `/v1/NAME` at the control socket.

Input: `?nodes=1-3,7`, positions, without it all members; `?budget=SECONDS`; `?payload=TEXT`. Output: the document of
the service, which always says whom it covers. Invariant: a wrong request gives no order.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any, TypeVar

import msgspec

from subord.api.handlers.control import budget_s
from subord.api.http.server import App, Query, Response, document, failure
from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.api.query.orders import Answered, asked
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime.orders.driver import Reading
from subord.services import NAMES
from subord.services.contract import Service

Form = TypeVar("Form", bound=CoverageDocument)


def service(name: str) -> Service:
    """A registered service."""
    found: Service = importlib.import_module(f"subord.services.{name}.core").SERVICE
    return found


def readings(node: NodeApi) -> dict[str, Reading]:
    """What this node answers to orders, by service."""
    return {name: partial(service(name).answer, node) for name in NAMES}


def service_app(node: NodeApi) -> App:
    """The paths of the services."""
    return {f"/v1/{name}": partial(_give, node, name) for name in NAMES}


async def _give(node: NodeApi, name: str, query: Query) -> Response:
    """Give an order, and answer with the document of the service."""
    wanted = service(name)
    if why := wanted.refusal(node):
        return failure(409, why)
    try:
        targets = targets_of(query.get("nodes"), node.settings.network.size)
        payload = wanted.payload(query.get("payload", ""))
    except ValueError as error:
        return failure(400, f"{error}: no node was asked")
    found = await asked(node, name, budget_s(query), payload=payload, targets=targets, older=wanted.older)
    return document(wanted.document(found))


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


def of_coverage(form: type[Form], answered: Answered, **fields: Any) -> Form:
    """The document of a service: the coverage, and fields of its own."""
    covered: dict[str, Any] = msgspec.structs.asdict(answered.coverage)
    return form(**covered, **fields)
