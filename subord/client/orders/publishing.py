"""What commands share that publish a document which an operator signs: the order, a dry run, and who was first.

Inputs are the options, the body, and the document that counted before, as the daemon shows it; output is the one that
counts now, or would. Invariant: nothing is signed for a dry run but a question.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.orders import order, prepare
from subord.client.text import printable

NOTHING: Final = "nothing was changed"


class Kind(NamedTuple):
    """Of documents. `prepare`: what the daemon is to prepare. `power`: which the operator needs. `path`: where the
    daemon shows it, with `version` and `principal`. `own`: fields of that which the operator decides."""

    prepare: Mapping[str, str]
    power: str
    path: str
    own: tuple[str, ...]


def ordered(
    arguments: argparse.Namespace,
    kind: Kind,
    body: bytes,
    before: Document,
    shown: Callable[[int, str | None], Document],
) -> tuple[Document, str]:
    """The document that counts now, or would with `arguments.dry_run`, and the word for that. `shown`: as the daemon
    would show it, by version and principal. Raises CommandError."""
    if arguments.dry_run:
        return _tried(arguments, kind, body, shown), "would be "
    try:
        (ours,) = order(arguments, kind.prepare, body)["orders"]
    except CommandError as error:
        now = asked(arguments, kind.path) if error.exit_code == exit_codes.PERMISSION else before
        if now["version"] == before["version"]:
            raise
        raise _overtaken(now) from None
    now, wanted = asked(arguments, kind.path), shown(ours["version"], None)
    if now["version"] != ours["version"] or any(now[name] != wanted[name] for name in kind.own):
        raise _overtaken(now)
    return now, ""


def _overtaken(now: Document) -> CommandError:
    other = printable(now["principal"] or "another operator")
    text = f"version {now['version']} of {other} counts, which was published at the same time: publish again"
    return CommandError(text, exit_codes.NOT_REACHED)


def _tried(
    arguments: argparse.Namespace, kind: Kind, body: bytes, shown: Callable[[int, str | None], Document]
) -> Document:
    """What the order would be, if this node would take it."""
    (ours,) = prepare(arguments, kind.prepare, body)["orders"]
    tried = order(arguments, {"action": "test", "power": kind.power})
    (verdict,) = (each for answer in tried["judged"] for each in answer["orders"])
    if verdict["word"]:
        raise CommandError(f"it would be refused: {verdict['sentence']}; {NOTHING}", exit_codes.PERMISSION)
    return shown(ours["version"], verdict["principal"])
