"""Lines that several actions of `subord shares` print: the document, and sets of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from subord.client.daemon import Document
from subord.client.folding import in_short
from subord.client.text import columns
from subord.services.following import conflict_line, published_line

NEVER: str = "no shares are set"
CONFLICT: str = conflict_line("document")


def heading(plan: Document, would: str = "") -> str:
    """`version 3 published by ann at 2026-11-26 10:30:00 UTC: a round lasts 1 s`."""
    if not plan["version"]:
        return NEVER
    what = "this release cannot read it"
    if plan["off"]:
        what = "shares are off"
    elif plan["classes"]:
        what = f"a round lasts {plan['round_s']:g} s"
    return published_line(plan, what, would)


def plan_lines(plan: Document, would: str = "") -> Iterator[str]:
    """The document with its classes."""
    yield heading(plan, would)
    if plan["classes"]:
        rows = [("class", "wanted"), *((each["name"], f"{each['percent']:g}") for each in plan["classes"])]
        yield from columns(rows, right=(1,))
    if plan["conflict"]:
        yield CONFLICT


def set_of(addresses: Iterable[str], total: int, names: Mapping[str, str]) -> str:
    """`10.0.0.[3,7-9] and 20 more`."""
    return in_short([names.get(each, each) for each in addresses], total=total)


def of_branch(address: str, nodes: int | None, names: Mapping[str, str]) -> str:
    """`10.0.0.3 and below`; one node has none below. `nodes` None: not known."""
    return names.get(address, address) + ("" if nodes == 1 else " and below")


def one_digit(number: float | None) -> str:
    """Without a sign for zero."""
    return "-" if number is None else f"{round(number, 1) + 0.0:.1f}"


def yes(flag: bool | None) -> str:
    return "-" if flag is None else "yes" if flag else "no"
