"""A question to many nodes as one order: what they answered, and which nodes the answer covers.

Input: a service, and the targets, None for all members. Output: the answer of the engine of orders with its coverage
in addresses, and what nodes say that are of an older release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from secrets import token_bytes
from typing import Final, NamedTuple, TypeVar

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.node_api import NodeApi
from subord.api.query.older_nodes import OlderNode, OlderQuestion, report_of_root, statuses
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.causes import (
    BUSY,
    CANCELLED,
    EXPIRED,
    NO_TIME,
    OLDER,
    REFUSED,
    TOO_LARGE,
    YOUNG_ROOT,
    sentence,
)
from subord.core.carriage.engine.frames import order_of
from subord.core.carriage.engine.interface import Answer
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.reports.reports import Fold
from subord.core.identity import receipts
from subord.core.view import Position

Kind = TypeVar("Kind")
BUDGET_S: Final = 2.0
"""Of an order without a time of its own. Without hung nodes it ends much earlier; nodes that stand in for a hung root
take more than a second."""
YOUNG_NOTE: Final = "the root has only just become root and may not know all members yet"
"""Without the advice to ask again, which is wrong after an order with effects."""
UNCOORDINATED: Final = "no coordinator that knows all members was found"
NOT_PASSED_ON: Final = (BUSY, CANCELLED, EXPIRED, NO_TIME, REFUSED, TOO_LARGE)
"""What an answer lacks although there may be a coordinator. Missing nodes have the same word as their cause."""
NAMED_MAX: Final = 512
"""Addresses of one cause; `count` counts all."""


class Given(NamedTuple):
    """What an order has beside service, payload and targets. `tag`, `authority`: of an order that an operator has
    signed; empty: a new tag, no signature. `receipts`: each node signs its result."""

    tag: bytes = b""
    authority: bytes = b""
    receipts: bool = False


NEW: Final = Given()


class Answered(NamedTuple):
    """What has come of an order. `older`: nodes that are missing as an older release and have told their status.
    `report`: of a root of an older release, which knows all members, and cannot coordinate an order."""

    node: NodeApi
    answer: Answer
    coverage: Coverage
    older: Mapping[Position, OlderNode] = {}
    report: msgspec.Struct | None = None
    fold: Fold | None = None
    """Of a service with a report: what the root knows; None: the root has not answered."""

    def value(self, name: str, kind: type[Kind]) -> Kind:
        """A field of the fold; of no node when it is absent, or of another kind."""
        found = None if self.fold is None else self.fold.record.get(name)
        return found if isinstance(found, kind) else kind()

    @property
    def asked(self) -> str:
        """The address of the node that knows all members: of the root, else of this one."""
        root = nodes.address(self.node.settings, self.node.snapshot().root)
        is_known = self.answer.is_coordinated or self.report is not None
        return root if root is not None and is_known else self.node.address

    @property
    def note(self) -> str | None:
        """Why not all members were asked; None: they were."""
        if self.fold is not None and (note := _note_of(self.fold)):
            return note
        if self.answer.is_resolved or self.report is not None:
            return None
        if self.answer.lacks == YOUNG_ROOT:
            return YOUNG_NOTE
        if self.answer.lacks in NOT_PASSED_ON:
            return sentence(self.answer.lacks)
        node = self.node
        root = nodes.address(node.settings, node.snapshot().root)
        if root is None or root == node.address:
            return f"{node.address} knows no root just now: other nodes than those below it could not be asked"
        return f"{root} (root) could not be asked, nor another node that lists all members"


async def asked(
    node: NodeApi,
    service: str,
    budget_s: float,
    *,
    payload: bytes = b"",
    targets: Ranges | None = None,
    older: OlderQuestion | None = None,
    given: Given = NEW,
    progress: Callable[[Answer], None] | None = None,
) -> Answered:
    """Give an order. Takes at most `budget_s`. `older`: ask also nodes of older releases. `progress` gets what is
    known so far, without receipts checked."""
    began = trio.current_time()
    tag = given.tag or token_bytes(TAG_BYTES)
    answer = await node.orders.order(
        service,
        payload,
        targets,
        budget_s,
        tag=tag,
        authority=given.authority,
        receipts=given.receipts,
        progress=progress,
    )
    after_s = trio.current_time() - began
    if given.receipts:
        pins = node.tracker.membership.pins
        assert pins is not None
        order = order_of(tag, service, payload, targets, node.snapshot().position, authority=given.authority)
        answer = receipts.checked(answer, node.gate.cluster, order, pins.key_of, node.identity.signer)
    found = Answered(node, answer, covered(node, answer, after_s))
    passed_by = dict(answer.missing).get(OLDER)
    if older is None or not passed_by:
        return found
    if targets is None and not answer.is_coordinated:
        report = await report_of_root(node, older, budget_s - after_s)
        if report is not None:
            return found._replace(report=report)
    return found._replace(older=await statuses(node, passed_by, budget_s - after_s))


def _note_of(fold: Fold) -> str:
    """Why a fold does not cover all members with all that they publish; "": it does."""
    if not fold.is_root:
        return "the node that was asked is no root just now: it knows only the nodes below it"
    if fold.is_young:
        return YOUNG_NOTE
    if fold.left_out:
        return f"at least {fold.left_out} fields of nodes are not in the answer: no room, or another kind"
    return ""


def covered(node: NodeApi, answer: Answer, after_s: float) -> Coverage:
    """Whom an answer covers. Every result was made after the order was given, so none is older than `after_s`."""
    return Coverage(
        asked=len(answer.targets),
        told=answer.told,
        complete=answer.is_whole,
        missing=tuple(_missing(node, cause, positions) for cause, positions in answer.missing if positions),
        oldest_ms=round(after_s * 1000, 1),
        note=_note_of_coverage(answer),
    )


def _note_of_coverage(answer: Answer) -> str | None:
    """Why there may be targets that are not known; None: none, or the cause of the missing nodes says it."""
    if answer.is_resolved:
        return None
    if answer.lacks == YOUNG_ROOT:
        return YOUNG_NOTE
    if answer.lacks in NOT_PASSED_ON:
        return None if answer.missing else sentence(answer.lacks)
    return UNCOORDINATED


def _missing(node: NodeApi, cause: str, positions: Ranges) -> MissingDocument:
    addresses = nodes.addresses(node.settings, islice(positions, NAMED_MAX))
    return MissingDocument(cause=cause, text=sentence(cause), count=len(positions), addresses=addresses)


def branch(node: NodeApi) -> Ranges:
    """The node and the living nodes below it."""
    below = (row.position for row in node.roster().rows if row.liveness.value != "missing")
    return Ranges.of((node.snapshot().position, *below))
