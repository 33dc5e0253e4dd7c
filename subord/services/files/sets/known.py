"""The sets that the daemon on this host knows, and what nodes tell of them.

Inputs are the options of a command; outputs are sets as their documents say, and the results of nodes. Invariant: a
version, its operator and its files are those of a document that the daemon has judged; what is in place on a node,
only its agent says.
"""

from __future__ import annotations

import argparse
import base64
import secrets
from collections.abc import Iterator
from typing import NamedTuple

from subord.client import exit_codes
from subord.client.daemon import Document, asked
from subord.client.errors import CommandError
from subord.core.carriage.documents import FILES
from subord.core.carriage.engine.bounds import TAG_BYTES
from subord.core.carriage.engine.ranges import Ranges
from subord.core.carriage.orders import Order
from subord.core.carriage.published import Published, mark_of, read
from subord.services import giving
from subord.services.files.pushing import SERVICE
from subord.services.files.sets.results import Result, decode
from subord.services.files.task import Task, Wanted, encode
from subord.services.giving import Told, give


class Known(NamedTuple):
    """A set, as its newest document says. `conflict`: another document had the same version."""

    name: str
    order: Order
    said: Published
    principal: str
    conflict: bool

    @property
    def wanted(self) -> Wanted:
        """As agents are asked for it."""
        return Wanted(self.name, self.order.version, self.order.at_ms, mark_of(self.order))

    @property
    def positions(self) -> str | None:
        """Its nodes, as the daemon reads them; None: all members."""
        return None if self.said.targets is None else str(self.said.targets)


Heard = giving.Heard[Result]


def known_sets(arguments: argparse.Namespace) -> dict[str, Known]:
    """By name; also those that are withdrawn. Raises CommandError."""
    found = {}
    for each in asked(arguments, "/v1/sets")["sets"]:
        body = base64.b64decode(each["body"])
        order = Order(f"{FILES}/{each['name']}", each["version"], each["at_ms"], each["expires_ms"], body)
        said = read(order)
        if said is not None:  # else of a later release
            found[each["name"]] = Known(each["name"], order, said, each["principal"], each["conflict"])
    return found


def known_set(arguments: argparse.Namespace, name: str) -> Known:
    """Raises CommandError: there is none."""
    found = known_sets(arguments).get(name)
    if found is None:
        text = f"there is no set {name!r}; `subord files status` shows all"
        raise CommandError(text, exit_codes.USAGE)
    return found


def hear(arguments: argparse.Namespace, task: Task, positions: str | None, left_s: float) -> Heard:
    """What nodes tell of a signed order. Raises CommandError."""
    tag = secrets.token_bytes(TAG_BYTES)
    given: Iterator[Told[Result] | Document] = give(
        arguments, SERVICE, encode(task), positions, decode, left_s=left_s, tag=tag
    )
    return giving.heard(given)


def joined(*targets: Ranges | None) -> str | None:
    """All nodes of some sets, as the daemon reads them; None: all members."""
    found = Ranges()
    for each in targets:
        if each is None:
            return None
        found |= each
    return str(found)
