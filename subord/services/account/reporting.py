"""`subord account report`: sums up the records of one or more databases of sinks.

Inputs are the options and the databases; outputs are a table, a JSON document or CSV, with what they cover: the
period, how many records, how many unreadable ones, and the newest record of each database. Nothing is written.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import groupby
from math import isinf

import msgspec

from subord.api.models.document import Count, Document, Time, time_text
from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.text import columns, count, printable
from subord.runtime.ledger.missing import Range, merged
from subord.services.account import reading, times
from subord.services.account.sums import Period, Report, Sums, each_once
from subord.services.account.words import CONFIG

HEAD = ("jobs", "failed", "wall_s", "slot_s", "cpu_s")


class RowDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`jobs`: those with several records count once. `failed`: of these, with a status or signal other than 0.
    `wall_s`: from their starts to their ends. `slot_s`: the same, times their slots. `cpu_s`: used by them."""

    name: str
    jobs: Count
    failed: Count
    wall_s: float
    slot_s: float
    cpu_s: float


class DatabaseDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`records`: read, also those outside the period. `newest`: when the last record of all was stored."""

    place: str
    records: Count
    newest: Time | None
    newest_node: str | None


class ReportDocument(Document, frozen=True, kw_only=True):
    """`since`, `until`: the ends of the jobs; null: all. `records`: in the sums. `unreadable`: stored in the period,
    and not in the sums. `repeated`: not in the sums, because the node had written the same record before. `late`:
    stored more than a day after the job had ended. `without_start`, `without_cpu`, `without_status`: records that do
    not say it. `missing`: records of any kind and time that a sink had stored, and that none of the databases has
    since one was restored; null: a database does not let this user know."""

    by: str
    since: Time | None
    until: Time | None
    rows: tuple[RowDocument, ...]
    total: RowDocument
    records: Count
    unreadable: Count
    repeated: Count
    late: Count
    without_start: Count
    without_cpu: Count
    without_status: Count
    missing: Count | None
    databases: tuple[DatabaseDocument, ...]


class _Source:
    """A database that is read. `records`: so far."""

    def __init__(self, database: reading.Database, kind: str) -> None:
        self.database = database
        self.newest = database.newest(kind)
        self.records = 0

    def counted(self, kind: str, since: float, *, in_order: bool) -> Iterator[reading.Stored]:
        for each in self.database.records(kind, since, in_order=in_order):
            self.records += 1
            yield each


def run(arguments: argparse.Namespace) -> int:
    """Prints the rows, and what they cover. Raises CommandError."""
    period = _period(arguments, time.time())
    places = arguments.database or [_configured(arguments)]
    with ExitStack() as resources:
        sources = [_Source(resources.enter_context(reading.opened(each)), arguments.kind) for each in places]
        report = Report(arguments.by, period)
        is_one, since = len(sources) == 1, period.stored_since
        for each in each_once([each.counted(arguments.kind, since, in_order=not is_one) for each in sources]):
            report.add(each)
        missing = _missing([each.database for each in sources])
    found = _document(arguments.by, period, report, sources, missing)
    if arguments.json:
        print(json.dumps(msgspec.to_builtins(found)))
    elif arguments.csv:
        _print_csv(found)
    else:
        print("\n".join((*_table(found), *_covered(found))))
    return exit_codes.OK


def _missing(databases: list[reading.Database]) -> int | None:
    """How many records all databases together lack. Another sink may have what one lacks."""
    told = [each.missing() for each in databases]
    if None in told:
        return None
    ranges = merged(each for found in told if found for each in found)
    return sum(each.records - _present(each, databases) for each in ranges)


def _present(names: Range, databases: Iterable[reading.Database]) -> int:
    """How many of these records any database has."""
    return sum(1 for _ in groupby(heapq.merge(*(each.present(names) for each in databases))))


def _period(arguments: argparse.Namespace, now: float) -> Period:
    given = {each: getattr(arguments, each) for each in Period._fields}
    found = Period(**{each: times.parsed(f"--{each}", text, now) for each, text in given.items() if text is not None})
    if found.since >= found.until:
        raise CommandError("--since is not before --until; nothing was read", exit_codes.USAGE)
    return found


def _configured(arguments: argparse.Namespace) -> str:
    """The database that the configuration of this node names."""
    from subord.config.load import load
    from subord.config.source import ConfigError

    file = arguments.config or CONFIG
    hint = "name the database of a sink with --database"
    try:
        sink = load(file).ledger.sink
    except ConfigError as error:
        raise CommandError(f"{error}; or {hint}; nothing was read", exit_codes.CONFIGURATION) from None
    if not sink:
        words = f"{file} names no ledger.sink: this node is no sink; run this on a sink, or {hint}; nothing was read"
        raise CommandError(words, exit_codes.CONFIGURATION)
    return sink


# -- output -----------------------------------------------------------------------------------------------------


def _document(
    by: str, period: Period, report: Report, sources: Iterable[_Source], missing: int | None
) -> ReportDocument:
    rows = sorted(report.rows.items()) if by == "day" else report.sorted_rows()
    return ReportDocument(
        by=by,
        since=None if isinf(period.since) else time_text(period.since),
        until=None if isinf(period.until) else time_text(period.until),
        rows=tuple(_row(name, sums) for name, sums in rows),
        total=_row("total", report.total()),
        records=report.records,
        unreadable=report.unreadable,
        repeated=report.repeated,
        late=report.late,
        without_start=report.without_start,
        without_cpu=report.without_cpu,
        without_status=report.without_status,
        missing=missing,
        databases=tuple(_database(each) for each in sources),
    )


def _row(name: str, sums: Sums) -> RowDocument:
    seconds = {each: round(getattr(sums, each), 3) for each in HEAD[2:]}
    return RowDocument(name=name, jobs=sums.jobs, failed=sums.failed, **seconds)


def _database(source: _Source) -> DatabaseDocument:
    newest = source.newest
    return DatabaseDocument(
        place=source.database.place,
        records=source.records,
        newest=time_text(newest.stored_at) if newest else None,
        newest_node=newest.node if newest else None,
    )


def _cells(row: RowDocument) -> list[str]:
    """Whole seconds."""
    return [printable(row.name) or "-", *(f"{getattr(row, each):.0f}" for each in HEAD)]


def _table(found: ReportDocument) -> list[str]:
    if not found.rows:
        return []
    rows = [[found.by, *HEAD], *map(_cells, found.rows), _cells(found.total)]
    return columns(rows, right=range(1, len(HEAD) + 1))


def _print_csv(found: ReportDocument) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([found.by, *HEAD])
    writer.writerows([_as_text(row.name), *(getattr(row, each) for each in HEAD)] for row in found.rows)
    to_stderr("\n".join(_covered(found)))


def _as_text(name: str) -> str:
    """Spreadsheets take a cell with such a begin for a formula, and names are those of writers of records."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _covered(found: ReportDocument) -> Iterator[str]:
    """What the sums cover."""
    since, until = (_time(each) for each in (found.since, found.until))
    period = " and ".join([f"from {since} on"] * bool(since) + [f"before {until}"] * bool(until)) or "at any time"
    counts = [count(found.records, "record"), f"{found.unreadable} unreadable"]
    missing = {"start": found.without_start, "CPU time": found.without_cpu, "exit status": found.without_status}
    counts += [f"{found.repeated} repeated and left out"] if found.repeated else []
    counts += [f"{found.late} late"] if found.late else []
    counts += [f"{number} without {what}" for what, number in missing.items() if number]
    yield f"jobs that ended {period}: {', '.join(counts)}"
    if found.missing is None:
        yield "whether records are missing since a restore is not known: grant select on the table subord_missing"
    elif found.missing:
        yield f"not complete: {count(found.missing, 'record')} missing since a database was restored (subord_missing)"
    for each in found.databases:
        newest = f"the newest of {each.newest_node}, {_time(each.newest)}" if each.newest else "there is none"
        yield printable(f"{each.place}: {count(each.records, 'record')} read, {newest}")


def _time(text: str | None) -> str:
    """`2026-11-01T12:30:00.000Z` for display."""
    return "" if text is None else f"{text[:19].replace('T', ' ')} UTC"
