"""The answer of one node to a question that any client may ask, for a document with a coverage.

Inputs are what has come of the question, the node, and how its result is read; outputs are what the node has said,
and the coverage. Invariant: without an answer that can be read the coverage is not complete, and says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from subord.api.models.coverage import Coverage, MissingDocument
from subord.api.query.orders import Answered
from subord.core.carriage.reports.coverage import UNREADABLE
from subord.core.view import Position

Said = TypeVar("Said")
NONE_ASKED: Final = Coverage(asked=0, told=0, complete=True, missing=(), oldest_ms=0.0)


def said_by(
    answered: Answered, position: Position, address: str, decode: Callable[[bytes], Said | None]
) -> tuple[Said | None, Coverage]:
    """What the node has said, with the coverage. None: it has not answered, or `decode` cannot read its result."""
    coverage = answered.coverage
    for result, positions in answered.answer.groups:
        said = decode(result)
        if said is not None and position in positions:
            return said, coverage
    if coverage.told:
        text = "the node has answered what this release of subord cannot read"
        missing = MissingDocument(cause=UNREADABLE, text=text, count=1, addresses=(address,))
        coverage = msgspec.structs.replace(coverage, told=0, missing=(missing,))
    return None, msgspec.structs.replace(coverage, complete=False)
