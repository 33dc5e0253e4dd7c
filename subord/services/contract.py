"""What a service is to the daemon, and what it may rely on.

A service reads (`answer`), or it has effects: then its folder has an `agent.py` (acting.py), and an operator signs
its orders. One that reads may have an `agent.py` as well, which follows documents; with `acted` the agent acts on
the orders that are signed, and `answer` is for the others. Invariants:
`answer` changes nothing on the node and does not name it, so equal answers travel as one; its result has at most
bounds.RESULT_BYTES_MAX bytes. `document` is called at the issuer alone, once for each order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from subord.api.http.server import Handler, Orders
from subord.api.models.coverage import CoverageDocument, Covered
from subord.api.node_api import NodeApi
from subord.api.query.older_nodes import OlderQuestion
from subord.api.query.orders import Answered
from subord.core.carriage.reports.records import Record

__all__ = ["Answered", "Publishing", "RecordCheck", "ReportService", "Service"]


class Publishing(NamedTuple):
    """The report of a service. `record`: of this node, from the algebra (core/carriage/reports/algebra.py); leaders
    fold it without code of the service; None: the node publishes nothing. Renewed every `interval_s`."""

    record: Callable[[NodeApi], Awaitable[Record | None]]
    interval_s: float


RecordCheck = Callable[[bytes, float], str]
"""Of the body of a record, and the time of day: why it may not be written, a sentence without a full stop; "": it
may."""


class Service(NamedTuple):
    """`answer`: the result of a node for a payload, in the daemon, without agent and signature; None: the service has
    effects. `document`: the JSON document of the issuer, with its coverage. `payload`: the payload of a request
    (`?payload=TEXT`); raises ValueError with a sentence. `refusal`: why this node asks no other, a sentence; "": it
    does. `older`: nodes that do not know orders are asked in their way (api/query/older_nodes.py). `is_live`: the
    answer to a signed order is a stream of results, as they come, before the document (live.py). `records`: the kinds
    of records in the ledger that are of this service, and what checks them before a node accepts one; bodies of other
    kinds are not read. `acted`: of a service that reads, and whose agent acts on signed orders; the document of such
    an order. None: the agent acts on none, or, without `answer`, `document` is that of signed orders.
    """

    answer: Callable[[NodeApi, bytes], Awaitable[bytes]] | None
    document: Callable[[Answered], CoverageDocument | Covered]
    payload: Callable[[str], bytes] = lambda _: b""
    refusal: Callable[[NodeApi], str] = lambda _: ""
    older: OlderQuestion | None = None
    is_live: bool = False
    records: Mapping[str, RecordCheck] = MappingProxyType({})
    paths: Callable[[NodeApi], Mapping[str, Handler]] = lambda _: {}
    """Further ones that a node serves."""
    posts: Callable[[NodeApi], Orders] = lambda _: {}
    """Further ones to which every client of the control socket may POST: what is there needs no authority."""
    acted: Callable[[Answered], CoverageDocument] | None = None

    @property
    def has_effects(self) -> bool:
        """Whether the agent acts on signed orders."""
        return self.answer is None or self.acted is not None


class ReportService(NamedTuple):
    """A service whose document comes of a report: each node publishes, and the root is asked for the fold. `paths`:
    further ones that a node serves, such as pages for Prometheus. `answer`: of a node to an order of the service with
    a payload, as in `Service`; one without a payload is answered with the fold of the node's branch."""

    publishing: Publishing
    document: Callable[[Answered], CoverageDocument]
    paths: Callable[[NodeApi], Mapping[str, Handler]] = lambda _: {}
    answer: Callable[[NodeApi, bytes], Awaitable[bytes]] | None = None
