"""What operators said about nodes, as lines of text, from the document `/v1/statements`.

Input: the document, with names in place of addresses where they are known. Output: one line a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from subord.client.daemon import Document
from subord.client.drawing import MARK_STYLES, Line
from subord.client.folding import in_short
from subord.client.text import count, printable


def maintenance_lines(found: Document) -> list[Line]:
    """A summary, and one line a maintenance."""
    listed = found["maintenances"]
    if not listed:
        return [[("no node is under maintenance", "bold")]]
    return [[(count(len(listed), "maintenance"), "bold")], *map(_maintenance, listed)]


def forgotten_lines(found: Document) -> list[Line]:
    """A summary, and one line for each order to forget."""
    listed = found["forgotten"]
    if not listed:
        return [[("no node was forgotten in the last 30 days", "bold")]]
    nodes = count(sum(each["nodes"] for each in listed), "node")
    return [[(f"{nodes} forgotten in the last 30 days", "bold")], *map(_forgotten, listed)]


def _maintenance(each: Document) -> Line:
    until = f" until {_clock(each['until'])}" if each["until"] else ""
    return [(_nodes(each), ""), (": ", ""), (_reason(each), MARK_STYLES["under"]), (f"{_by(each)}{until}", "dim")]


def _forgotten(each: Document) -> Line:
    nodes = in_short(each["addresses"], total=each["nodes"])
    return [(nodes, ""), (": ", ""), (_reason(each), ""), (_by(each), "dim")]


def _nodes(each: Document) -> str:
    parts = [in_short(each["addresses"], total=each["nodes"])] if each["nodes"] else []
    if each["absent_nodes"]:
        parts.append(f"{in_short(each['absent'], total=each['absent_nodes'])} (no members now)")
    return " and ".join(parts)


def _reason(each: Document) -> str:
    return printable(each["reason"])


def _by(each: Document) -> str:
    """The principal of the signature, and the name that the command gave if it is another."""
    principal, said_by = each["principal"], each["said_by"]
    names = [principal or said_by or "not known"]
    if principal and said_by and said_by != principal:
        names.append(f"as {said_by}")
    return f"  by {printable(' '.join(names))}, {_clock(each['time'])}"


def _clock(time: str) -> str:
    """In the time zone of this host."""
    return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")


def addresses_of(statements: list[Document]) -> Iterator[str]:
    """The nodes of several statements, each once."""
    yield from dict.fromkeys(address for each in statements for address in each["addresses"])
