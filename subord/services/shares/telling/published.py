"""The document of shares that a node holds, for the node itself and for the commands.

Input is the node; outputs are the plan, and its JSON document. Invariant: a document that this release cannot read
has a version, and no classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from subord.api.models.document import time_text
from subord.api.node_api import NodeApi
from subord.core.carriage.documents import SHARES
from subord.core.carriage.shares import plan
from subord.core.carriage.shares.plan import Plan
from subord.services.shares.telling.documents import PlanDocument, WantedDocument
from subord.services.shares.wanted import Share


class Published(NamedTuple):
    """`plan` None: no operator has published one, or this release cannot read it."""

    plan: Plan | None
    shown: PlanDocument


def published(node: NodeApi) -> Published:
    """What the node holds."""
    membership = node.tracker.membership
    held = membership.documents.by_name.get(SHARES)
    if held is None:
        return Published(None, of_shares((), 0, None, None, None))
    found = plan.read(held.order)
    principal, _ = membership.signers.get(SHARES, ("", ""))
    shares = () if found is None else map(Share, found.classes, found.wanted)
    shown = of_shares(
        shares,
        held.version,
        principal or None,
        time_text(held.at_ms / 1000),
        None if found is None else found.round_s,
        conflict=SHARES in membership.documents.conflicts,
    )
    return Published(found, shown)


def of_shares(
    shares: Iterable[Share],
    version: int,
    principal: str | None,
    time: str | None,
    round_s: float | None,
    *,
    conflict: bool = False,
) -> PlanDocument:
    """No shares: they are off, if there is a round; else there is nothing that can be read."""
    classes = tuple(WantedDocument(name=each.name, percent=each.percent) for each in shares)
    return PlanDocument(
        version=version,
        principal=principal,
        time=time,
        off=round_s is not None and not classes,
        round_s=round_s,
        classes=classes,
        conflict=conflict,
    )
