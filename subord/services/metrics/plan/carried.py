"""What the plan that a node holds says, for the node itself and for `subord metrics --plan`.

Input is the document of the node; outputs are the patterns that its samples must fit, and a document. Invariant: a
node without a plan that it can read carries the usual metrics.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.api.models.document import Count, Document, Time, time_text
from subord.api.node_api import NodeApi
from subord.core.carriage import plan
from subord.core.carriage.documents import PLAN
from subord.services.metrics.wanted import USUAL, expanded


class PlanDocument(Document, frozen=True, kw_only=True):
    """Which metrics the cluster carries, as the asked node holds it. `version` 0: no operator has published a plan,
    and `time` is null. `principal`: the operator, as the file of the asked node names the key; null: not known.
    `patterns`: as published; `carried`: the same with the usual ones by name. `conflict`: another plan had the same
    version; this one counts."""

    version: Count
    principal: str | None
    time: Time | None
    patterns: tuple[str, ...]
    carried: tuple[str, ...]
    conflict: bool = False


def patterns_of(node: NodeApi) -> tuple[str, ...]:
    """Those that an operator has published, or the usual ones."""
    found = _published(node)
    return USUAL if found is None else expanded(found)


def _published(node: NodeApi) -> tuple[str, ...] | None:
    held = node.tracker.membership.documents.by_name.get(PLAN)
    return None if held is None else plan.read(held.order)


def shown_plan(node: NodeApi) -> PlanDocument:
    """Without a plan: the usual patterns."""
    membership = node.tracker.membership
    held, patterns = membership.documents.by_name.get(PLAN), _published(node)
    if held is None or patterns is None:
        return of_patterns((), 0, None, None)
    principal, _ = membership.signers.get(PLAN, ("", ""))
    is_disputed = PLAN in membership.documents.conflicts
    return of_patterns(patterns, held.version, principal or None, time_text(held.at_ms / 1000), conflict=is_disputed)


def of_patterns(
    patterns: Iterable[str], version: int, principal: str | None, time: str | None, *, conflict: bool = False
) -> PlanDocument:
    """No patterns: the usual ones."""
    said = tuple(patterns)
    carried = expanded(said) if said else USUAL
    return PlanDocument(
        version=version, principal=principal, time=time, patterns=said, carried=carried, conflict=conflict
    )
