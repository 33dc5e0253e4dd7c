"""Which leaders do not report nodes of their branches, by what those nodes say.

The root knows nodes that it does not list: they have told it so (core/edges/listing.py), or the register has them as
up. It asks some of them for their paths: the lowest node of a path that the root lists is the one that does not
report the rest. No question is asked at other nodes, while the roster changes, and when all are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.document import Addresses
from subord.api.node_api import AskFailure, NodeApi
from subord.api.query.peer import ask
from subord.core.members.register import State

QUIET_S: Final = 5.0
"""Without a change, or a node may be moving."""
ASKED_MAX: Final = 16
ASK_S: Final = 0.3
"""Much less than the time of an order."""


class Placed(msgspec.Struct, frozen=True):
    """What is read of the status of a node. `path`: the root first."""

    path: Addresses


async def hidden_branches(node: NodeApi) -> Mapping[str, int]:
    """The number of nodes that each leader does not report, as far as they were asked."""
    await trio.lowlevel.checkpoint()
    view, roster = node.snapshot(), node.roster()
    found: Counter[str] = Counter()
    if not roster.is_root or roster.quiet_s < QUIET_S:
        return found
    rows = {row.position for row in roster.rows}
    up = node.tracker.membership.register.positions(State.UP)
    hidden = [each for each in dict.fromkeys((*view.unlisted, *up)) if each not in rows][:ASKED_MAX]
    listed = set(nodes.addresses(node.settings, rows))

    async def ask_one(address: str) -> None:
        told = await ask(node, address, "status", Placed, ASK_S)
        if not isinstance(told, AskFailure):
            by = next((each for each in reversed(told.path) if each in listed), node.address)
            found[by] += by != node.address

    async with trio.open_nursery() as nursery:
        for address in nodes.addresses(node.settings, hidden):
            nursery.start_soon(ask_one, address)
    return +found
