"""Numbers, ages and foreign text for display."""

from __future__ import annotations

from collections.abc import Container, Sequence

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


def canonical(address: str) -> str:
    """The spelling of the daemon; only IPv6 addresses have several."""
    if ":" not in address:
        return address
    from ipaddress import ip_address

    try:
        return str(ip_address(address))
    except ValueError:
        return address


def printable(text: str) -> str:
    """Text of other nodes without control characters for the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def columns(rows: Sequence[Sequence[str]], indent: str = "", right: Container[int] = ()) -> list[str]:
    """Rows of equal length as lines, each column as wide as its widest cell. `right`: columns that end flush."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [f"{{:{'>' if index in right else '<'}{width}}}" for index, width in enumerate(widths)]
    return [indent + "  ".join(cells).format(*row).rstrip() for row in rows]
