"""The sets of a node, as its daemon looks after them: hands documents to the agent, and keeps the blobs it names.

Inputs are the documents of the node, and what the agent tells of each; outputs are calls of the agent, and blobs that
are held, also at the node where a version was published. A document is handed over until the agent has carried it
out, after pauses that double. Invariants: of a set one document is handed over at a time, the newest; without sets
nothing is done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final, NoReturn

import trio

from subord.api.node_api import NodeApi
from subord.core.carriage.documents import FILES, Document
from subord.core.carriage.published import Published, mark_of, read
from subord.core.members.register import State
from subord.core.pacing.backoff import Backoff
from subord.core.view import Position
from subord.runtime.blobs.store import BlobError
from subord.runtime.orders.agent import SOURCES_MAX, Agent
from subord.services.files.sets.words import Followed, decode_followed

logger = logging.getLogger("subord")
RETRY_S: Final = 2.0
RETRY_S_MAX: Final = 600.0
NO_AGENT_S_MAX: Final = 60.0
Blob = bytes


class _Set:
    """A set, as long as its newest document is this one."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.scope = trio.CancelScope()


class Handing:
    """The sets of one daemon."""

    def __init__(self, node: NodeApi, agent: Agent) -> None:
        self._node = node
        self._agent = agent
        self._sets: dict[str, _Set] = {}
        self._named: dict[str, set[Blob]] = {}
        """By set, the blobs that the agent has named last."""
        self._held: dict[str, dict[Blob, trio.CancelScope]] = {}
        """By set, the blobs that are held for it."""
        self._changed = trio.Event()
        self._nursery: trio.Nursery

    async def run(self) -> NoReturn:
        """Follow the documents until cancelled."""
        self._node.tracker.on_documents.append(self._note)
        async with trio.open_nursery() as self._nursery:
            while True:
                self._look()
                await self._changed.wait()
                self._changed = trio.Event()
        raise AssertionError("unreachable")

    def _note(self, _: Iterable[Document]) -> None:
        self._changed.set()

    def _look(self) -> None:
        """Begin with what is new, and end what is gone."""
        found = {each.tag: each for each in self._node.tracker.membership.documents.of_kind(FILES)}
        for name in [name for name in self._sets if name not in found]:
            self._sets.pop(name).scope.cancel()
            self._named.pop(name, None)
            self._hold(name, (), 0)
        for name, document in found.items():
            mark, before = mark_of(document.order), self._sets.get(name)
            if before is None or before.mark != mark:
                if before is not None:
                    before.scope.cancel()
                self._sets[name] = _Set(mark)
                self._nursery.start_soon(self._hand, name, document, self._sets[name])

    async def _hand(self, name: str, document: Document, one: _Set) -> None:
        """Hand a document over until it is settled, or a newer one comes."""
        said = read(document.order)
        if said is None:  # of a later release
            return
        position = self._node.snapshot().position
        is_target, given = said.is_for(position) and not said.is_withdrawn, _given_by(said, position)
        self._hold(name, given | self._named.get(name, set()), said.content.source)
        pause = Backoff(RETRY_S)
        with one.scope:
            while True:
                done = await self._agent.hand(document, self._sources(said))
                found = None if done is None else decode_followed(done.result)
                if found is not None:
                    self._named[name] = {*found.holds}
                    self._hold(name, given | self._named[name], said.content.source)
                if _is_over(found, is_target=is_target):
                    return
                await trio.sleep(pause.step(NO_AGENT_S_MAX if done is None else RETRY_S_MAX))

    def _sources(self, said: Published) -> tuple[Position, ...]:
        """Other nodes that should have the content: targets that are up, from this one on, so nodes ask several."""
        own = self._node.snapshot().position
        up = self._node.tracker.membership.register.positions(State.UP)
        others = [each for each in up if each != own and said.is_for(each)]
        turned = [each for each in others if each > own] + [each for each in others if each < own]
        return tuple(islice(turned, SOURCES_MAX))

    # -- blobs ----------------------------------------------------------------------------------------------------

    def _hold(self, name: str, blobs: Iterable[Blob], source: Position) -> None:
        """Keep these blobs for a set, and no others."""
        before, wanted = self._held.get(name, {}), set(blobs)
        self._held[name] = {blob: scope for blob, scope in before.items() if blob in wanted}
        for blob in wanted - before.keys():
            scope = self._held[name][blob] = trio.CancelScope()
            self._nursery.start_soon(self._keep, name, blob, source, scope)
        for blob in before.keys() - wanted:
            before[blob].cancel()
        if not self._held[name]:
            del self._held[name]

    async def _keep(self, name: str, blob: Blob, source: Position, scope: trio.CancelScope) -> None:
        pause, is_kept = Backoff(RETRY_S), False
        try:
            with scope:
                while not is_kept:
                    is_kept = True  # also while it comes
                    try:
                        await self._node.blobs.fetch(blob, source)
                    except BlobError as error:
                        is_kept = False
                        logger.warning("a version of the set %s is not kept in the cache of blobs: %s", name, error)
                        await trio.sleep(pause.step(RETRY_S_MAX))
                await trio.sleep_forever()
        finally:
            if is_kept:
                self._node.blobs.release(blob)


def _given_by(said: Published, position: Position) -> set[Blob]:
    """The blobs that others ask this node for: of the version that counts, and of the one before."""
    contents = () if said.is_withdrawn else (said.content, *(each.content for each in said.past[:1]))
    return {each.blob for each in contents if each.blob and each.source == position}


def _is_over(found: Followed | None, *, is_target: bool) -> bool:
    """Whether a document need not be handed over again. A node that it is not for does not wait for an agent."""
    return not is_target if found is None else found.is_settled
