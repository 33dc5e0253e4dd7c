"""How often each record is in the databases of the sinks, and how late it came there.

Inputs are the numbers of the records that were given, those whose answer was lost, and the rows of all databases;
output are counts. A row has the name of a record in the ledger (node, incarnation, sequence) and the number that its
writer gave it. Two databases may have the same name, which counts once (docs/protocol/ledger.md). A number with
several names is in the sinks more than once: by the ledger, or because its writer gave it again after an answer was
lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from netlab.common.results import Record
from netlab.errors import LabError
from subord.client.errors import CommandError
from subord.services.account.reading import opened
from subord.services.account.record import JOB, read

Name = tuple[str, int, int]
UNKNOWN = -1
"""The delay of a record that is in no sink."""
PERCENTILES = (50, 99, 100)


class Row(NamedTuple):
    """`number`: None: of no record that a writer gave. `delay_s`: from the end of the job until it was stored."""

    name: Name
    number: int | None
    delay_s: int


def rows_of(place: str, records: int) -> Iterator[Row]:
    """Those of a database; `records`: how many numbers there are. Raises LabError."""
    try:
        with opened(place) as database:
            for each in database.records(JOB, 0.0, in_order=False):
                job = read(each.body)
                if job is None or not job.id.isdecimal() or int(job.id) >= records:
                    yield Row(each.name, None, 0)
                else:
                    yield Row(each.name, int(job.id), max(0, each.stored_at - int(job.ended)))
    except CommandError as error:
        raise LabError(f"The records of a sink cannot be read: {error}.") from None


class Counts:
    """Of all databases, one after the other."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._first: dict[int, Name] = {}  # number -> the name that was read first
        self._others: dict[int, set[Name]] = {}  # number -> further names
        self._databases: dict[str, Record] = {}
        self._delays = array("i", [UNKNOWN]) * records
        self._strangers = 0

    def add(self, database: str, rows: Iterable[Row]) -> None:
        """`database`: the sink that it belongs to."""
        seen: set[int] = set()
        count = twice = 0
        for name, number, delay_s in rows:
            count += 1
            if number is None:
                self._strangers += 1
                continue
            twice += number in seen
            seen.add(number)
            self._note(number, name, delay_s)
        self._databases[database] = {"rows": count, "records": len(seen), "twice": twice}

    def _note(self, number: int, name: Name, delay_s: int) -> None:
        first = self._first.setdefault(number, name)
        if name != first:
            self._others.setdefault(number, set()).add(name)
        before = self._delays[number]
        self._delays[number] = delay_s if before == UNKNOWN else min(before, delay_s)

    def told(self, unsure: Collection[int]) -> Record:
        """`unsure`: numbers whose writer lost an answer. `double`: in the sinks more than once, by no other reason
        than the ledger; `given_again`: more than once, and their writer gave them more than once."""
        again = sum(number in unsure for number in self._others)
        copies = sum(each["records"] for each in self._databases.values())
        return {
            "databases": self._databases,
            "stored": len(self._first),
            "lost": self._records - len(self._first),
            "double": len(self._others) - again,
            "given_again": again,
            "in_several": copies - len(self._first),
            "strangers": self._strangers,
            "delay_s": percentiles(each for each in self._delays if each != UNKNOWN),
        }


def percentiles(numbers: Iterable[int]) -> Mapping[str, int | None]:
    """`p50`, `p99` and `p100`, which is the largest; each is the least number that so many percent do not exceed."""
    found = sorted(numbers)
    last = len(found) - 1
    return {
        f"p{each}": found[max(0, -(-each * len(found) // 100) - 1)] if last >= 0 else None for each in PERCENTILES
    }
