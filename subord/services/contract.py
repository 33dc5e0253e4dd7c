"""What a service is to the daemon, and what it may rely on.

Invariants: `answer` changes nothing on the node and names no node, so that equal answers travel as one; its result
has at most bounds.RESULT_BYTES_MAX bytes. `document` is called at the issuer alone, once for each order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.reports.records import Record
from subord.core.carriage.reports.reports import Fold

Kind = TypeVar("Kind")


class Answered(NamedTuple):
    """What has come of an order, after `after_s`. Its fields of coverage are those of CoverageDocument."""

    node: NodeApi
    answer: Answer
    after_s: float
    coverage: CoverageDocument
    fold: Fold | None = None
    """Of a service with a report: what the root knows; None: the root has not answered."""

    def value(self, name: str, kind: type[Kind]) -> Kind:
        """A field of the fold; of no node when it is absent, or of another kind."""
        found = None if self.fold is None else self.fold.record.get(name)
        return found if isinstance(found, kind) else kind()


class Publishing(NamedTuple):
    """The report of a service. `record`: of this node, from the algebra (core/carriage/reports/algebra.py); leaders
    fold it without code of the service. Renewed every `interval_s`."""

    record: Callable[[NodeApi], Awaitable[Record]]
    interval_s: float


class Service(NamedTuple):
    """A service without effects, so it needs no agent and no operator's signature.

    `answer`: the result of a node for a payload. `document`: the JSON document of the issuer; its type has the fields
    of CoverageDocument. `payload`: the payload of a request (`?payload=TEXT`); raises ValueError with a sentence.
    """

    answer: Callable[[NodeApi, bytes], Awaitable[bytes]]
    document: Callable[[Answered], CoverageDocument]
    payload: Callable[[str], bytes] = lambda _: b""


class ReportService(NamedTuple):
    """A service whose document comes of a report: each node publishes, and the root is asked for the fold."""

    publishing: Publishing
    document: Callable[[Answered], CoverageDocument]
