"""Serves the registered services: their answers to orders, and their paths `/v1/NAME` at the control socket.

Input of a service that reads: `?nodes=1-3,7`, positions, without it all members; `?budget=SECONDS`; `?payload=TEXT`;
`?receipts=1`. Input of a service with effects: `?budget=SECONDS`, and a body with the signed order. Output: the
document of the service, which always says whom it covers; of a live service first its results (live.py). Invariant: a
wrong request gives no order.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
import trio

from subord.api.handlers.control import BUDGET_S_MAX, budget_s, control_app, control_changes
from subord.api.handlers.orders import order_handlers
from subord.api.handlers.records import record_handlers
from subord.api.handlers.web import PUBLIC, web_app
from subord.api.http.server import (
    App,
    Call,
    EventStream,
    Handler,
    Handlers,
    Orders,
    Query,
    Response,
    document,
    failure,
)
from subord.api.models.coverage import CoverageDocument
from subord.api.models.document import Document
from subord.api.node_api import NodeApi
from subord.api.query.orders import NEW, Answered, Given, asked, covered
from subord.core.carriage.engine.bounds import LEFT_MS_MAX, TAG_BYTES
from subord.core.carriage.engine.ranges import Ranges
from subord.runtime import late
from subord.runtime.orders.driver import Reading
from subord.services import LATE, NAMES, Traits, live
from subord.services.blob_paths import blob_changes, blob_handlers
from subord.services.contract import Publishing, RecordCheck, ReportService, Service
from subord.services.folds import asked_fold, fold_reading, publish_forever

RECORDS = "/v1/records"


class SignedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a signed order. `nodes`: positions such as 1-3,7; null: all members. Bytes are Base64."""

    tag: Annotated[bytes, msgspec.Meta(min_length=TAG_BYTES, max_length=TAG_BYTES)]
    nodes: str | None = None
    payload: bytes = b""
    authority: bytes = b""
    receipts: bool = False


class ClusterDocument(Document, frozen=True, kw_only=True):
    """The cluster as signatures name it."""

    name: str
    network: str


_signed = msgspec.json.Decoder(SignedOrder)
Form = TypeVar("Form", bound=CoverageDocument)


class UnloadedError(Exception):
    """The service cannot be loaded; the log says why."""


def registered() -> tuple[str, ...]:
    """The names of all services."""
    return NAMES


def module_of(name: str) -> str:
    """With the SERVICE of a registered service."""
    return f"subord.services.{name}.core"


def service(name: str) -> Service | ReportService:
    """A registered service, loaded if it is not."""
    found: Service | ReportService = importlib.import_module(module_of(name)).SERVICE
    return found


def is_live(name: str) -> bool:
    """Whether the answer to an order shows results as they come."""
    found = service(name)
    return isinstance(found, Service) and found.is_live


def traits_of(name: str) -> Traits:
    """Of a registered service. Of a late one they are known before it is loaded."""
    return LATE.get(name) or own_traits(service(name))


def own_traits(one: Service | ReportService) -> Traits:
    """As the service itself says."""
    if isinstance(one, ReportService):
        return Traits()
    return Traits(one.answer is not None, one.has_effects, bool(one.records))


def readings(node: NodeApi) -> dict[str, Reading]:
    """What this node answers to orders, by service; the agent acts on all orders of the others."""
    return {name: _reading(node, name) for name in NAMES if traits_of(name).reads}


def _reading(node: NodeApi, name: str) -> Reading:
    if name in LATE:
        return partial(_answer_late, node, name)
    wanted = service(name)
    if isinstance(wanted, ReportService):
        return fold_reading(node, name, wanted.answer)
    assert wanted.answer is not None
    return partial(wanted.answer, node)


async def _answer_late(node: NodeApi, name: str, payload: bytes) -> bytes:
    """The answer of a service that is loaded for it. Raises UnloadedError."""
    if not await late.load(module_of(name)):
        raise UnloadedError(name)
    answer = service(name).answer
    assert answer is not None
    return await answer(node, payload)


def effects() -> tuple[str, ...]:
    """The services for which the agent acts on orders with a signature. One that reads may be among them, or have an
    `agent.py` that only follows documents."""
    return tuple(name for name in NAMES if traits_of(name).acts)


def record_checks() -> dict[str, RecordCheck]:
    """The checks of records of the registered services, by kind."""
    recording = [service(name) for name in NAMES if traits_of(name).records]
    found = [each.records for each in recording if isinstance(each, Service)]
    return {kind: check for checks in found for kind, check in checks.items()}


def publishings() -> dict[str, Publishing]:
    """The reports of the registered services."""
    found = {name: service(name) for name in NAMES if name not in LATE}
    return {name: each.publishing for name, each in found.items() if isinstance(each, ReportService)}


def publish_all(node: NodeApi, nursery: trio.Nursery) -> None:
    """Publish every report of the registered services until cancelled."""
    for name, publishing in publishings().items():
        nursery.start_soon(publish_forever, node, name, publishing)


def service_app(node: NodeApi, names: Iterable[str] | None = None) -> App:
    """The paths of the services that read; of one with effects, what its orders are signed for, which a service that
    does both has at a path of its own. `names`: None: all."""
    found: dict[str, Handler] = {}
    for name in NAMES if names is None else names:
        one, path = service(name), f"/v1/{name}"
        reads, acts, _ = traits_of(name)
        found[path] = partial(_read, node, name) if reads else partial(_cluster, node)
        if reads and acts:
            found[signing_path(name)] = partial(_cluster, node)
        found.update(one.paths(node))
    return found


def signing_path(name: str) -> str:
    """What signed orders of a service are for, if the service reads as well."""
    return f"/v1/{name}/cluster"


async def _cluster(node: NodeApi, _: Query) -> Response:
    await trio.lowlevel.checkpoint()
    name, network = node.gate.cluster
    return document(ClusterDocument(name=name, network=network))


def signed_handlers(node: NodeApi) -> Orders:
    """The paths of all that operators sign, for every client of the control socket: the signature is the authority.
    Orders of services with effects are judged by each agent. Also the few that need no authority."""
    return {
        **service_orders(node, NAMES),
        **order_handlers(node),
        **record_handlers(node, record_checks()),
        **blob_handlers(node),
    }


def service_orders(node: NodeApi, names: Iterable[str]) -> Orders:
    """Those of the services alone."""
    found: dict[str, Callable[[Call], Awaitable[Response | EventStream]]] = {}
    for name in names:
        one = service(name)
        if isinstance(one, Service):
            found.update(one.posts(node))
        if traits_of(name).acts:
            found[f"/v1/{name}"] = partial(_give, node, name)
            if is_live(name):
                found[f"/v1/{name}/follow"] = partial(_follow, node, name)
    return found


def changes_of(node: NodeApi) -> App:
    """The paths that change something, for root and the daemon's own user."""
    return {**control_changes(node), **blob_changes(node)}


class Served:
    """Which handlers answer a request to one node, by its path; a late service is loaded with the first request for
    it. No path is in two parts, so which services are loaded does not change an answer. Each part is made once: some
    keep their last answer."""

    def __init__(self, node: NodeApi) -> None:
        self._node = node
        orders = {**order_handlers(node), **blob_handlers(node)}
        self._own = Handlers(control_app(node), changes_of(node), orders, awaited=frozenset(blob_changes(node)))
        self._web = Handlers(web_app(node, self._own.app), named=frozenset(PUBLIC))
        self._records: Handlers | None = None
        self._parts: dict[str, Handlers] = {}

    async def control(self, path: str) -> Handlers | None:
        """Of the control socket. None: what answers cannot be loaded, which was logged."""
        if path in self._own.paths:
            return self._own
        if path == RECORDS:
            return await self._of_records()
        for names in (_likely(path), registered()):
            if not await _load(names):
                return None
            for name in names:
                if path in self._part(name).paths:
                    return self._part(name)
        paths = frozenset((RECORDS,)).union(self._own.paths, *(each.paths for each in self._parts.values()))
        return Handlers(named=paths)

    async def web(self, path: str) -> Handlers | None:
        """Of the web address."""
        if path in self._web.app or path not in PUBLIC:
            return self._web
        found = await self.control(path)
        if found is None:
            return None
        return Handlers({path: found.app[path]}) if path in found.app else self._web

    async def _of_records(self) -> Handlers | None:
        if not await _load(name for name in registered() if traits_of(name).records):
            return None
        if self._records is None:
            self._records = Handlers(orders=record_handlers(self._node, record_checks()))
        return self._records

    def _part(self, name: str) -> Handlers:
        """Of a service that is loaded."""
        if name not in self._parts:
            app = service_app(self._node, (name,))
            self._parts[name] = Handlers(app, orders=service_orders(self._node, (name,)), awaited=frozenset(app))
        return self._parts[name]


def _likely(path: str) -> list[str]:
    """The services that may have the path: those that are loaded at the start, and one that the path names."""
    named = path.split("/")[2:3] if path.startswith("/v1/") else []
    return [name for name in registered() if name in named or name not in LATE]


async def _load(names: Iterable[str]) -> bool:
    for name in names:
        if not await late.load(module_of(name)):
            return False
    return True


async def _read(node: NodeApi, name: str, query: Query) -> Response:
    """Give an order that needs no signature, and answer with the document of the service."""
    wanted = service(name)
    if isinstance(wanted, ReportService):
        return await _give_fold(node, name, wanted, query)
    if why := wanted.refusal(node):
        return failure(409, why)
    try:
        targets = targets_of(query.get("nodes"), node.settings.network.size)
        payload = wanted.payload(query.get("payload", ""))
    except ValueError as error:
        return failure(400, f"{error}: no node was asked")
    given = NEW._replace(receipts=query.get("receipts") == "1")
    found = await asked(
        node, name, budget_s(query), payload=payload, targets=targets, older=wanted.older, given=given
    )
    return document(wanted.document(found))


async def _give(node: NodeApi, name: str, call: Call) -> Response | EventStream:
    """Give the signed order of the body, and answer with the document of the service."""
    try:
        order = _signed.decode(call.body)
        targets = targets_of(order.nodes, node.settings.network.size)
    except (msgspec.MsgspecError, RecursionError, OverflowError):
        return failure(400, "the body is no signed order: no node was asked")
    except ValueError as error:
        return failure(400, f"{error}: no node was asked")
    wanted = service(name)
    most_s = LEFT_MS_MAX / 1000 if is_live(name) else BUDGET_S_MAX
    give = partial(
        asked,
        node,
        name,
        budget_s(call.query, most_s),
        payload=order.payload,
        targets=targets,
        given=Given(order.tag, order.authority, order.receipts),
    )
    if is_live(name):
        return live.stream(node, lambda progress: give(progress=progress), wanted.document, receipts=order.receipts)
    acted = wanted.acted if isinstance(wanted, Service) and wanted.acted is not None else wanted.document
    return document(acted(await give()))


async def _follow(node: NodeApi, name: str, call: Call) -> Response | EventStream:
    """What a command of this node is told of its order, for root and the daemon's own user."""
    if not call.is_owner:
        return failure(403, "only root and the daemon's user may follow an order: use sudo")
    try:
        waiting = node.orders.waiting(bytes.fromhex(call.query.get("tag", "")))
    except ValueError:
        return failure(400, "the tag of the order is no hexadecimal number")
    if waiting is None or waiting.service != name:
        return failure(404, "no command on this node waits for the results of such an order just now")

    async def give(progress: live.Progress | None) -> Answered:
        answer = await waiting.follow(progress)
        return Answered(node, answer, covered(node, answer, trio.current_time() - waiting.began))

    return live.stream(node, give, service(name).document, receipts=False)


async def _give_fold(node: NodeApi, name: str, wanted: ReportService, query: Query) -> Response:
    """Without the answer of the root the document says that the root is missing."""
    return document(wanted.document(await asked_fold(node, name, budget_s(query))))


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
