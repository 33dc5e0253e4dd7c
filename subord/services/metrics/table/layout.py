"""Figures of metrics as lines of a table, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

from subord.client.daemon import Document
from subord.client.text import columns

HEADS = ("metric", "nodes", "sum", "least", "median", "95 %", "greatest", "on")
PREFIXES = ("", "k", "M", "G", "T", "P", "E")
NUMBERS = range(1, len(HEADS) - 1)


def table(metrics: Sequence[Document], names: dict[str, str]) -> list[str]:
    """One row for each metric."""
    rows = [(each["name"], *numbers(each), _busiest(each, names)) for each in metrics]
    return columns([HEADS, *rows], right=NUMBERS)


def numbers(metric: Document) -> tuple[str, ...]:
    """The cells of HEADS between the first and the last."""
    quantiles = metric["quantiles"]
    values = metric["sum"], metric["min"], quantiles["0.5"], quantiles["0.95"], metric["max"]
    return str(metric["count"]), *map(short, values)


def _busiest(metric: Document, names: dict[str, str]) -> str:
    top = metric["top"]
    return names.get(top[0]["address"], top[0]["address"]) if top else ""


def top_nodes(metrics: Sequence[Document], count: int, names: dict[str, str]) -> Iterator[str]:
    """The nodes with the greatest values."""
    for each in metrics:
        yield each["name"]
        for one in each["top"][:count]:
            yield f"  {short(one['value']):>8}  {names.get(one['address'], one['address'])}"


def to_second(time: str) -> str:
    """A time of a document without its milliseconds."""
    return f"{time[:19]}Z"


def short(value: float) -> str:
    """Three digits: 0.0123, 1.23, 12.3k, 4.56G."""
    if not value:
        return "0"
    power = min(max(0, int(log10(abs(value)) // 3)), len(PREFIXES) - 1)
    text = f"{value / 1000**power:.3g}"
    if text in ("1e+03", "-1e+03") and power + 1 < len(PREFIXES):
        power, text = power + 1, text.replace("1e+03", "1")
    return text + PREFIXES[power]
