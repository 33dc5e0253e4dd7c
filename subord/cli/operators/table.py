"""Operators as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from subord.client.daemon import Document
from subord.client.text import columns, printable

HEAD = ("operators", "powers", "key", "")


def table(operators: Sequence[Document], own: Collection[str] = ()) -> Iterator[str]:
    """A line for each. `own`: fingerprints of keys to mark."""
    if operators:
        yield from columns([HEAD, *(_row(each, own) for each in operators)], "  ")


def _row(each: Document, own: Collection[str]) -> tuple[str, str, str, str]:
    names = printable(",".join(each["principals"]))
    key = f"{each['key_type']} {each['fingerprint']}"
    return names, ", ".join(each["powers"]) or "none", printable(key), "; ".join(_notes(each, own))


def _notes(each: Document, own: Collection[str]) -> Iterator[str]:
    if each["authority"]:
        yield "signs certificates"
    if each["fingerprint"] in own:
        yield "your key"
    if each.get("revoked"):
        yield "revoked"
    if each["valid_after"] and not each["valid"]:
        yield f"valid from {each['valid_after'][:16]}Z"
    if each["valid_before"]:
        yield f"{'valid' if each['valid'] else 'not valid'} until {each['valid_before'][:16]}Z"
