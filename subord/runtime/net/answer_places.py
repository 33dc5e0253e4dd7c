"""Places for answers: how many questions of other nodes are answered at once, for which peer and about what.

An answer may hold some MiB and last seconds, so the number of answers at a time is bounded. The topics form groups,
each with places of its own: what waits for nodes below us never keeps the roster waiting. A peer has one place in
each group. Only our leader may have more of what passes down the tree: it asks for several others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from subord.runtime.net.peer_query import Topic

PLACES_MAX: Final = 8
"""In each group. Only answers of the first group may be as long as an answer can be."""
PLACE_S_MAX: Final = 8.0
"""Waiting and answering together."""
HERE: Final = "here"
GROUPS: Final[dict[str, str]] = {"keys": "keys", "rotate": "keys", "problems": "problems"}
"""Topics that pass down the tree. All others are answered by this node itself."""


class Places:
    """One per node."""

    def __init__(self, leader_address: Callable[[], str | None]) -> None:
        self._leader_address = leader_address
        self._groups = {group: trio.Semaphore(PLACES_MAX) for group in (HERE, *GROUPS.values())}
        self._peers: dict[tuple[str, str], tuple[trio.Lock, list[None]]] = {}

    def waiting(self, topic: Topic) -> int:
        """Questions of different peers about such topics that wait for a place."""
        return self._groups[_group_of(topic)].statistics().tasks_waiting

    def __len__(self) -> int:
        """Peers that have a place or wait for it, once for each group."""
        return len(self._peers)

    @asynccontextmanager
    async def taken(self, peer: str, topic: Topic) -> AsyncIterator[None]:
        """A place for one answer. The questions of one peer wait for each other first, in the order they came."""
        group = _group_of(topic)
        if group != HERE and peer == self._leader_address():
            async with self._groups[group]:
                yield
            return
        lock, users = self._peers.setdefault((peer, group), (trio.Lock(), []))
        users.append(None)
        try:
            async with lock, self._groups[group]:
                yield
        finally:
            users.pop()
            if not users:
                del self._peers[peer, group]


def _group_of(topic: Topic) -> str:
    return GROUPS.get(topic, HERE)
