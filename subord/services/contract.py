"""What a service is to the daemon, and what it may rely on.

A service reads (`answer`), or it has effects: then its folder has an `agent.py` (acting.py), and an operator signs
its orders. Invariants: `answer` changes nothing on the node and names no node, so that equal answers travel as one;
its result has at most bounds.RESULT_BYTES_MAX bytes. `document` is called at the issuer alone, once for each order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from subord.api.models.coverage import CoverageDocument
from subord.api.node_api import NodeApi
from subord.core.carriage.engine.interface import Answer


class Answered(NamedTuple):
    """What has come of an order, after `after_s`. Its fields of coverage are those of CoverageDocument."""

    node: NodeApi
    answer: Answer
    after_s: float
    coverage: CoverageDocument


class Service(NamedTuple):
    """`answer`: the result of a node for a payload, in the daemon, without agent and signature; None: the service has
    effects. `document`: the JSON document of the issuer; its type has the fields of CoverageDocument. `payload`: the
    payload of a request (`?payload=TEXT`); raises ValueError with a sentence.
    """

    answer: Callable[[NodeApi, bytes], Awaitable[bytes]] | None
    document: Callable[[Answered], CoverageDocument]
    payload: Callable[[str], bytes] = lambda _: b""
