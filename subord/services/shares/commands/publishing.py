"""`subord shares set` and `subord shares off`: an order that an operator signs.

Input is a text with shares, and what nodes say of their classes; output is a document for all nodes. Invariant: wrong
shares are named, and then nothing is signed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from subord.client import exit_codes
from subord.client.daemon import DAEMON_GRACE_S, Document, ask, asked
from subord.client.errors import CommandError
from subord.client.naming import names_for
from subord.client.options import socket_path
from subord.client.orders.publishing import NOTHING, Kind, ordered
from subord.client.text import count, printable
from subord.services.asking import DAEMON_BUDGET_S_MAX, shown_document
from subord.services.shares.commands.layout import plan_lines, set_of
from subord.services.shares.telling.published import of_shares
from subord.services.shares.wanted import Share, WantedError, check_known, parse

KIND: Final = Kind({"action": "shares-plan"}, "shares", "/v1/shares/plan", ("classes", "round_s"))
NAMED_MAX: Final = 512
"""As in api/query/orders.py."""
ROUND_S: Final = 1.0
"""Of the first document."""


def publish(arguments: argparse.Namespace) -> int:
    """Publishes shares. Raises CommandError: nothing was changed."""
    try:
        shares = parse(arguments.shares)
    except WantedError as error:
        raise CommandError(f"{error}; {NOTHING}", exit_codes.USAGE) from None
    found = _asked_nodes(arguments)
    if not arguments.force:
        _check(found, shares)
    known = _known(found, shares)
    plan, would = _ordered(arguments, shares, found["plan"], arguments.round)
    if arguments.json:
        print(json.dumps({**plan, "known": known, "unknown_nodes": found["asked"] - _read(found)}))
        return exit_codes.OK
    names = names_for(arguments, [known, found["missing"]])
    lines = [*plan_lines(plan, would), *_without_share(found, shares), *_lacking(found, known, names)]
    return shown_document(arguments, plan, lines)


def switch_off(arguments: argparse.Namespace) -> int:
    """Publishes that shares are off. Raises CommandError: nothing was changed."""
    plan, would = _ordered(arguments, (), asked(arguments, "/v1/shares/plan"))
    return shown_document(arguments, plan, plan_lines(plan, would))


# -- the classes of nodes -------------------------------------------------------------------------------------------


def _asked_nodes(arguments: argparse.Namespace) -> Document:
    """What all nodes say."""
    budget_s = min(arguments.timeout, DAEMON_BUDGET_S_MAX)
    target = f"/v1/shares?budget={budget_s:.3f}"
    return ask(socket_path(arguments), target, arguments.timeout + DAEMON_GRACE_S)


def _read(found: Document) -> int:
    """How many nodes have told their classes."""
    told: int = found["told"] - found["unread"]
    return told


def _check(found: Document, shares: Sequence[Share]) -> None:
    """Raises CommandError when no node has one of the classes."""
    if not _read(found):
        text = "no node has told which classes it has: try again, or publish with --force"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.TRY_AGAIN)
    try:
        check_known(shares, [printable(each["name"]) for each in found["known"] if each["nodes"]])
    except WantedError as error:
        text = f"{error}; nodes have those of shares.classes in their configuration; --force publishes nevertheless"
        raise CommandError(f"{text}; {NOTHING}", exit_codes.USAGE) from None


def _known(found: Document, shares: Sequence[Share]) -> list[Document]:
    """The classes on the nodes; one that is forced may be known to none."""
    everyone = [address for each in found["states"] for address in each["addresses"]][:NAMED_MAX]
    absent = {"nodes": 0, "lacking": _read(found), "addresses": everyone}
    known = {each["name"]: each for each in found["known"]}
    return [known.get(share.name, {"name": share.name, **absent}) for share in shares]


def _without_share(found: Document, shares: Sequence[Share]) -> Iterator[str]:
    """Classes of nodes that the shares leave out."""
    named = {share.name for share in shares}
    for each in found["known"]:
        if each["nodes"] and each["name"] not in named:
            number = f"{each['nodes']} of {count(_read(found), 'node')}"
            title = f"class {each['name']}, configured on {number}, gets no share"
            yield f"{title}: its groups keep the weights from before"


def _lacking(found: Document, known: Sequence[Document], names: Mapping[str, str]) -> Iterator[str]:
    """Which nodes do not have a class."""
    for each in known:
        if each["lacking"]:
            lacking = set_of(each["addresses"], each["lacking"], names)
            number = f"{each['lacking']} of {count(_read(found), 'node')}"
            yield f"class {each['name']} is not configured on {number}, so nothing is divided there: {lacking}"
    for each in found["missing"]:
        silent = set_of(each["addresses"], each["count"], names)
        yield f"the classes of {count(each['count'], 'node')} are not known: {silent} {each['cause']}"
    if found["unread"]:
        yield f"the classes of {count(found['unread'], 'node')} are not known: of another release"


# -- the order ------------------------------------------------------------------------------------------------------


def _ordered(
    arguments: argparse.Namespace, shares: Sequence[Share], before: Document, round_s: float | None = None
) -> tuple[Document, str]:
    """The document that counts now, or would, and the word for that. `before`: the one that counted until now. Raises
    CommandError."""
    round_s = round_s or before["round_s"] or ROUND_S
    thousandths = [[each.name, round(each.percent * 1000)] for each in shares]
    body = json.dumps({"round_ms": round(round_s * 1000), "shares": thousandths}).encode()

    def shown(version: int, principal: str | None) -> Document:
        found: Document = json.loads(msgspec.json.encode(of_shares(shares, version, principal, None, round_s)))
        return found

    return ordered(arguments, KIND, body, before, shown)
