"""Tables for people: aligned columns, and the median and spread of repeated runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from netlab.common.results import Record


class Column(NamedTuple):
    """A figure of a record: its key, its title, and how many digits of it are shown."""

    key: str
    title: str
    digits: int


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> str:
    """One line a row; the first `left` columns are flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [cell.ljust(width) if number < left else cell.rjust(width) for number, (cell, width) in enumerate(pairs)]
        for pairs in (zip(row, widths, strict=True) for row in rows)
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def cell(value: object) -> str:
    """`-` for None; two digits of a number that is not whole."""
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def spread(values: Iterable[float | None], digits: int) -> str:
    """Median, and lowest and highest in brackets when they differ; `-`: there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in (min(known), statistics.median(known), max(known)))
    return middle if low == high else f"{middle} ({low}..{high})"


def groups(records: Iterable[Record], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Record]]:
    """Records by the values of these keys, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        found.setdefault(tuple(record[key] for key in keys), []).append(record)
    return found


def comparison(
    records: Iterable[Record],
    keys: Sequence[str],
    columns: Iterable[Column],
    is_whole: Callable[[Record], bool],
    *,
    counted: str = "whole runs",
    measured: Callable[[Record], bool] | None = None,
    show: Callable[[list[Record], Column], str] | None = None,
) -> str:
    """One line for each value of the keys: how many runs are whole, and the spread of their figures.

    `measured`: which runs have figures, if not just the whole ones; `show` writes a cell in another way.
    """
    shown = show or (lambda some, column: spread([record.get(column.key) for record in some], column.digits))
    chosen = list(columns)
    rows = [[*keys, counted, *(column.title for column in chosen)]]
    for values, some in groups(records, keys).items():
        whole = f"{sum(map(is_whole, some))} of {len(some)}"
        good = list(filter(measured or is_whole, some))
        rows.append([*map(str, values), whole, *(shown(good, column) for column in chosen)])
    return aligned(rows)
