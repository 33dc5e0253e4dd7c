"""Which records a database lacks that a sink had stored in it: ranges of names, and how many are missing still.

Inputs are ranges of the table `subord_missing`, which overlap where several sinks found the same; outputs are ranges
that do not. A record that came back, such as from a copy of the lost database, is not missing. Invariant: no record
counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from subord.runtime.ledger.sinks import Run

_ALL: Final = "select node, incarnation, first_sequence, last_sequence from subord_missing"
_PRESENT: Final = "select count(*) from record where node = {} and incarnation = {} and sequence between {} and {}"
_WRITE: Final = """
insert into subord_missing (node, incarnation, first_sequence, last_sequence) values ({}, {}, {}, {})
on conflict (node, incarnation, first_sequence) do update set last_sequence = excluded.last_sequence
where excluded.last_sequence > subord_missing.last_sequence
"""
_DELETE: Final = (
    "delete from subord_missing where node = {} and incarnation = {} and first_sequence between {} and {}"
)


class Range(NamedTuple):
    """Records of one life of one node, without gap."""

    node: str
    incarnation: int
    first: int
    last: int

    @property
    def records(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.node} incarnation {self.incarnation} sequence {self.first} to {self.last}"


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same records, each in one range."""
    found = list[Range]()
    for each in sorted(ranges):
        if found and found[-1][:2] == each[:2] and each.first <= found[-1].last + 1:
            found[-1] = found[-1]._replace(last=max(found[-1].last, each.last))
        else:
            found.append(each)
    return found


def write(run: Run, ranges: Iterable[Range]) -> None:
    """These are missing."""
    for each in ranges:
        run(_WRITE, *each)


def count_missing(run: Run) -> int:
    """How many of the table are not there; ranges that are there again are taken out of the table."""
    missing = 0
    for each in merged(Range._make(row) for row in run(_ALL).fetchall()):
        left = each.records - int(run(_PRESENT, *each).fetchone()[0])
        if not left:
            run(_DELETE, *each)
        missing += left
    return missing
