"""`subord hosts off`: an operator publishes a table without names, so each node takes its block of lines away."""

from __future__ import annotations

import argparse
from typing import Final

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.client.orders import order
from subord.client.text import printable
from subord.core.carriage.documents import HOSTS
from subord.services.asking import shown_document
from subord.services.hosts.showing import table_lines
from subord.services.hosts.table import Table, encode

PUBLISH: Final = {"action": "publish", "name": HOSTS}
TABLE: Final = "/v1/hosts/table"


def run(arguments: argparse.Namespace) -> int:
    """Publishes it, and prints what counts now. Raises CommandError: nothing was changed."""
    before = asked(arguments, TABLE)
    try:
        (ours,) = order(arguments, PUBLISH, encode(Table()))["orders"]
    except CommandError as error:
        now = asked(arguments, TABLE) if error.exit_code == exit_codes.PERMISSION else before
        if now["version"] == before["version"]:
            raise
        raise _overtaken(now) from None
    now = asked(arguments, TABLE)
    if now["version"] != ours["version"] or now["entries"]:
        raise _overtaken(now)
    return shown_document(arguments, now, table_lines(now))


def _overtaken(now: Document) -> CommandError:
    other = printable(now["principal"] or "another operator")
    text = f"version {now['version']} of {other} counts, which was published at the same time: try again"
    return CommandError(text, exit_codes.NOT_REACHED)
