"""The document of a signed order of the queue's node: what the added nodes say of a step.

Input is the answer of the engine; output is a StepsDocument. Invariant: what cannot be read is counted and passed
over.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from subord.api.models import nodes
from subord.api.models.coverage import CoverageDocument
from subord.api.query.orders import Answered
from subord.services.elastic.task import decode_result
from subord.services.serving import of_coverage


class StepDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`fault` "": it is done. `changed`: it was not as wanted before. `slots`: processors."""

    fault: str
    changed: bool
    slots: int
    addresses: tuple[str, ...]


class StepsDocument(CoverageDocument, frozen=True, kw_only=True):
    """`unread`: nodes whose answers are of another release."""

    steps: tuple[StepDocument, ...]
    unread: int


def document(answered: Answered) -> CoverageDocument:
    """Of all nodes that were asked; the queue's node asks one at a time."""
    steps = tuple(_steps(answered))
    read = sum(len(each.addresses) for each in steps)
    return of_coverage(StepsDocument, answered, steps=steps, unread=answered.answer.told - read)


def _steps(answered: Answered) -> Iterator[StepDocument]:
    for result, told in answered.answer.groups:
        found = decode_result(result)
        if found is not None:
            addresses = nodes.addresses(answered.node.settings, told)
            yield StepDocument(
                fault=found.fault, changed=found.is_changed, slots=found.slots, addresses=tuple(addresses)
            )
