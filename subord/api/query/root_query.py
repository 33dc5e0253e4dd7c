"""Finding somebody who knows the whole tree.

Intuition: a visitor wants the list of everybody. He asks for the head of the house; if the one he was
sent to is not the head any more, that one says who is. If the head does not open, he climbs the stairs
from where he stands, and takes the list from the highest floor that answers. He never waits long at one
door, so one sleeper cannot keep him from an answer.
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
"""Nodes asked before we content ourselves with what we know."""
NAMED_MAX = 4
"""Nodes that are named of those whom the root does not list."""
SEARCH_S_MAX = 0.8
"""All questions together. The command line promises an answer within one second."""
ASK_SHARE = 0.45
"""One node gets this share of the time that is left, so there is always some for the next."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A roster, and whether it is the root's; if not, `note` says so in one sentence."""

    roster: RosterDocument
    complete: bool
    note: str | None


async def find_roster(shown: NodeApi) -> Found:
    """The root's roster, or the largest one that could be had. Takes at most `SEARCH_S_MAX`."""
    own = nodes.roster(shown.settings, shown.roster())
    if own.is_root:
        return _of_root(own, own.owner)
    search = _Search(shown, own)
    with trio.move_on_after(SEARCH_S_MAX) as scope:
        await search.run(scope.deadline)
    return search.found()


class _Search:
    """Who was asked, and the best answer so far."""

    def __init__(self, shown: NodeApi, own: RosterDocument) -> None:
        self._shown = shown
        self._own = own
        self._best = own
        self._silent: dict[str, str] = {}  # address -> reason
        self._asked: set[str] = {own.owner}

    async def run(self, deadline: float) -> None:
        """Ask the root, then whoever the answers name, then our own path from below."""
        path = nodes.path(self._shown)
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
        # `ask` keeps to its time by contract; a bug there must not make the command hang.
        with trio.move_on_after(timeout_s):
            answer = await self._shown.ask(address, Question("roster"), timeout_s)
            if isinstance(answer, AskFailure):
                return answer
            try:
                return msgspec.json.decode(answer, type=RosterDocument)
            except UNREADABLE:
                return AskFailure("answers something else than a roster")
        return AskFailure("does not answer")

    def found(self) -> Found:
        """What the search came to."""
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
        return f"nobody above {self._own.owner} says that it is the root (it was {root}): {known}"


def _of_root(roster: RosterDocument, asker: str) -> Found:
    """All that the root lists. `asker` stands in its tree; some others may have told it that they do."""
    unlisted = dict.fromkeys(roster.unlisted)
    if all(row.address != asker for row in roster.rows):
        unlisted[asker] = None
    if not unlisted:
        return Found(roster=roster, complete=True, note=None)
    named = ", ".join(list(unlisted)[:NAMED_MAX]) + (" and others" if len(unlisted) > NAMED_MAX else "")
    note = f"{roster.owner} (root) does not list {named}: a leader above does not report it"
    return Found(roster=roster, complete=False, note=note)


def _above(roster: RosterDocument) -> Iterable[str]:
    """The owner's leader and root; the root, which comes last, is to be asked first."""
    return [address for address in (roster.leader, roster.root) if address is not None]
