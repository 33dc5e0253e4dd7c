"""Numbers, ages and foreign text for display."""

from __future__ import annotations

from collections.abc import Sequence

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def age(seconds: float) -> str:
    """How long ago: "0.3 s", "12 s", "5 min", "3 h", "2 d"; rounded down."""
    for length_s, unit in _UNITS:
        if seconds >= length_s:
            return f"{int(seconds // length_s)} {unit}"
    return f"{int(seconds)} s" if seconds >= 10 else f"{max(seconds, 0.0):.1f} s"


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "2 nodes"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """Text of other nodes without control characters for the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Rows of equal length as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [indent + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
