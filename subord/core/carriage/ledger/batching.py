"""How much of a spool makes a batch, and how much a spool takes: arithmetic that every spool shares.

Inputs are records and sizes; outputs are counts. Invariant: what `fitting` counts fits in one frame, and is at least
one record.
"""

from __future__ import annotations

from collections.abc import Iterable

from subord.core.carriage.ledger import bounds
from subord.core.carriage.ledger.bodies import Record


def fitting(records: Iterable[Record]) -> int:
    """How many of the oldest records make the next batch."""
    count = size = 0
    for each in records:
        size += each.cost_bytes
        if count and (size > bounds.BATCH_BYTES_MAX or count == bounds.BATCH_RECORDS_MAX):
            break
        count += 1
    return count


def has_room(used_bytes: int, bytes_max: int, records: Iterable[Record]) -> bool:
    """Whether a spool takes all of these."""
    return used_bytes + sum(each.cost_bytes for each in records) <= bytes_max
