"""Bounds the number of questions that a node answers at once.

An answer may take some MiB and several seconds. Topics form groups with PLACES_MAX places each, so that answers that
wait for nodes below never delay the roster. A peer has one place in each group. The leader may have several in the
groups that pass down the tree, because it asks on behalf of others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from subord.runtime.net.peer_query import Topic

PLACES_MAX: Final = 8
"""In each group. Only answers of the group `here` may reach the largest size."""
PLACE_S_MAX: Final = 8.0
"""Waiting for a place and answering together."""
HERE: Final = "here"
GROUPS: Final[dict[str, str]] = {"keys": "keys", "rotate": "keys", "problems": "problems"}
"""Topics that pass down the tree. The node answers all others by itself."""


class Places:
    """The places of one node."""

    def __init__(self, leader_address: Callable[[], str | None]) -> None:
        self._leader_address = leader_address
        self._groups = {group: trio.Semaphore(PLACES_MAX) for group in (HERE, *GROUPS.values())}
        self._peers: dict[tuple[str, str], tuple[trio.Lock, list[None]]] = {}

    def waiting(self, topic: Topic) -> int:
        """Number of questions that wait for a place in the group of `topic`, at most one of each peer."""
        return self._groups[_group_of(topic)].statistics().tasks_waiting

    def __len__(self) -> int:
        """Number of (peer, group) that have a place or wait for one."""
        return len(self._peers)

    @asynccontextmanager
    async def taken(self, peer: str, topic: Topic) -> AsyncIterator[None]:
        """Hold a place for one answer. Questions of one peer wait for each other first, in order of arrival."""
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
