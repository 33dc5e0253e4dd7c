"""Finding a node that knows the whole tree.

Input: this node's path and roster. Output: the root's roster, or the largest one that could be had. The search asks
the root first, then the nodes that answers name, then the path from below. Each question gets a share of the time
that is left, so one silent node does not prevent an answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import trio

from subord.api.models import nodes
from subord.api.models.fields import RosterDocument
from subord.api.node_api import AskFailure, NodeApi, Question
from subord.wire.codec import UNREADABLE

HOPS_MAX = 16
"""Nodes that are asked before the search ends."""
NAMED_MAX = 4
"""Nodes that a note names of those that the root does not list."""
SEARCH_S_MAX = 0.8
"""For all questions together. The command line promises an answer within one second."""
ASK_SHARE = 0.45
"""One node gets this share of the time that is left."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A roster, and whether it is the root's; if not, `note` says why in one sentence."""

    roster: RosterDocument
    complete: bool
    note: str | None


async def find_roster(node: NodeApi) -> Found:
    """The root's roster, or the largest one that could be had. Takes at most `SEARCH_S_MAX`."""
    own = nodes.roster(node.settings, node.roster())
    if own.is_root:
        return _of_root(own, own.owner)
    search = _Search(node, own)
    with trio.move_on_after(SEARCH_S_MAX) as scope:
        await search.run(scope.deadline)
    return search.found()


class _Search:
    """The nodes that were asked, and the best answer so far."""

    def __init__(self, node: NodeApi, own: RosterDocument) -> None:
        self._node = node
        self._own = own
        self._best = own
        self._silent: dict[str, str] = {}  # address -> reason
        self._asked: set[str] = {own.owner}

    async def run(self, deadline: float) -> None:
        """Ask the root, then the nodes that the answers name, then the own path from below."""
        path = nodes.path(self._node)
        waiting = [*path, *_above(self._own)]  # the last one is asked first
        while waiting and len(self._asked) <= HOPS_MAX and not self._best.is_root:
            address = waiting.pop()
            if address in self._asked:
                continue
            self._asked.add(address)
            answer = await self._ask(address, max(0.0, deadline - trio.current_time()) * ASK_SHARE)
            if isinstance(answer, AskFailure):
                self._silent[address] = answer.reason
                continue
            if answer.is_root or len(answer.rows) >= len(self._best.rows):
                self._best = answer
            waiting += _above(answer)

    async def _ask(self, address: str, timeout_s: float) -> RosterDocument | AskFailure:
        # `ask` keeps to its time by contract; a bug there must not block the command.
        with trio.move_on_after(timeout_s):
            answer = await self._node.ask(address, Question("roster"), timeout_s)
            if isinstance(answer, AskFailure):
                return answer
            try:
                return msgspec.json.decode(answer, type=RosterDocument)
            except UNREADABLE:
                return AskFailure("answers something else than a roster")
        return AskFailure("does not answer")

    def found(self) -> Found:
        """The result of the search."""
        if self._best.is_root:
            return _of_root(self._best, self._own.owner)
        return Found(roster=self._best, complete=False, note=self._note())

    def _note(self) -> str:
        known = f"this is what {self._best.owner} knows"
        root = self._own.root
        if root is None or root == self._own.owner:
            return f"{self._own.owner} knows no root just now: {known}"
        if root in self._silent:
            return f"{root} (root) {self._silent[root]}: {known}"
        return f"no node above {self._own.owner} says that it is the root (it was {root}): {known}"


def _of_root(roster: RosterDocument, asker: str) -> Found:
    """All that the root lists. `asker` stands in its tree, and other nodes may have told the root that they do."""
    unlisted = dict.fromkeys(roster.unlisted)
    if all(row.address != asker for row in roster.rows):
        unlisted[asker] = None
    if not unlisted:
        return Found(roster=roster, complete=True, note=None)
    named = ", ".join(list(unlisted)[:NAMED_MAX]) + (" and others" if len(unlisted) > NAMED_MAX else "")
    note = f"{roster.owner} (root) does not list {named}: a leader above does not report it"
    return Found(roster=roster, complete=False, note=note)


def _above(roster: RosterDocument) -> Iterable[str]:
    """The owner's leader and root; the root comes last, because it is asked first."""
    return [address for address in (roster.leader, roster.root) if address is not None]
