"""The sets of a node at its daemon: which documents it hands to the agent, how often, and which blobs it keeps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import trio
import trio.testing

from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Verdict
from subord.core.carriage.published import WITHDRAWN, Content, Past, Published, order_of
from subord.core.members.register import Record, Run, State
from subord.runtime.blobs.store import BlobError
from subord.runtime.orders.agent import SOURCES_MAX, Done
from subord.services.files.sets import handing
from subord.services.files.sets.handing import Handing
from subord.services.files.sets.words import Followed, encode_followed
from tests.api.fake_node_api import World

POSITION = 4


def blob(number: int) -> bytes:
    return bytes([number]) * 32


def current(document: Document) -> Followed:
    """It is in place, and holds its blob."""
    return Followed("current", holds=(blob(document.version),))


class Stage:
    """A daemon: `answers` of its agent by text of the document's version; blobs that are held."""

    def __init__(self) -> None:
        self.node: Any = World().node(POSITION)
        self.node.tracker.on_documents = []
        self.node.blobs = self
        self.handed: list[tuple[str, int, float, tuple[int, ...]]] = []
        self.answer: Callable[[Document], Followed | None] = lambda _: None
        self.held: list[bytes] = []
        self.ended: list[int] = []
        self.lacks: set[bytes] = set()

    async def hand(self, document: Document, sources: tuple[int, ...]) -> Done | None:
        await trio.lowlevel.checkpoint()
        self.handed.append((document.tag, document.version, trio.current_time(), sources))
        found = self.answer(document)
        if found is not None and found.state == "hangs":
            try:
                await trio.sleep_forever()
            finally:
                self.ended.append(document.version)
        return None if found is None else Done(result=encode_followed(found))

    async def fetch(self, blob: bytes, _: int) -> None:
        await trio.lowlevel.checkpoint()
        if blob in self.lacks:
            raise BlobError("no room")
        self.held.append(blob)

    def release(self, blob: bytes) -> None:
        self.held.remove(blob)

    def put(self, version: int, name: str = "motd", **changes: Any) -> None:
        said = Published(b"/srv/" + name.encode(), None, Content(blob(version), 1, 2, 8))
        for each, value in changes.items():
            said = type(said)(**{**{f: getattr(said, f) for f in said.__struct_fields__}, each: value})
        document = Document(*order_of(name, version, version, said), b"signed")
        self.node.tracker.membership.take_documents([(document, Verdict("", "ann", "x"))])
        for tell in self.node.tracker.on_documents:
            tell([document])

    def versions(self) -> list[tuple[str, int]]:
        return [each[:2] for each in self.handed]


async def started(stage: Stage, nursery: trio.Nursery) -> None:
    nursery.start_soon(Handing(stage.node, stage).run)  # type: ignore[arg-type]
    await settled()


async def settled() -> None:
    """All that is to happen at once has happened."""
    await trio.testing.wait_all_tasks_blocked()


async def test_without_sets_nothing_is_done(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    stage = Stage()
    await started(stage, nursery)
    await trio.sleep(3600)
    assert stage.handed == []


async def test_a_document_is_handed_over_until_it_is_settled(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    stage.put(1)
    answers = [
        None,
        Followed("failed", "disk full"),
        Followed("failed", "disk full"),
        Followed("current", holds=(blob(1),)),
    ]
    stage.answer = lambda _: answers.pop(0)
    await started(stage, nursery)
    await trio.sleep(3600)
    at = [each[2] for each in stage.handed]
    assert [round(later - earlier) for earlier, later in pairwise(at)] == [2, 4, 8]
    assert stage.held == [blob(1)]


async def test_pauses_have_a_bound(nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> None:
    for answer, most_s in ((None, handing.NO_AGENT_S_MAX), (Followed("failed", "x"), handing.RETRY_S_MAX)):
        stage = Stage()
        stage.put(1)
        stage.answer = lambda _, answer=answer: answer  # type: ignore[misc]
        await started(stage, nursery)
        await trio.sleep(4 * handing.RETRY_S_MAX)
        at = [each[2] for each in stage.handed]
        assert round(at[-1] - at[-2]) == most_s


async def test_the_next_version_ends_the_one_before(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    stage.answer = lambda document: Followed("hangs" if document.version == 1 else "current")
    await started(stage, nursery)
    stage.put(1)
    await settled()
    stage.put(2)
    await trio.sleep(3600)
    assert stage.versions() == [("motd", 1), ("motd", 2)]
    assert stage.ended == [1]


async def test_blobs_are_held_as_long_as_the_agent_names_them(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    holds: dict[int, tuple[bytes, ...]] = {1: (blob(1),), 2: (blob(2), blob(1)), 3: (blob(3), blob(2)), 4: ()}
    stage.answer = lambda document: Followed("current", holds=holds[document.version])
    await started(stage, nursery)
    for version, kept in holds.items():
        stage.put(version)
        await settled()
        assert sorted(stage.held) == sorted(kept)


async def test_the_publisher_keeps_what_others_ask_it_for(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Whether it has an agent or not."""
    stage = Stage()
    await started(stage, nursery)
    content = [Content(blob(each), POSITION, 1, 1) for each in range(4)]
    stage.put(1, content=content[1], nodes=((1, 3),))
    await settled()
    assert stage.held == [blob(1)]
    past = tuple(Past(each, each, "ann", content[each]) for each in (2, 1))
    stage.put(3, content=content[3], past=past)
    await settled()
    assert sorted(stage.held) == [blob(2), blob(3)]
    stage.put(4, content=Content(WITHDRAWN, 1, 0, 0), past=past)
    await settled()
    assert stage.held == []


async def test_a_set_that_is_dropped_holds_nothing(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Its operator was revoked."""
    stage = Stage()
    stage.answer = current
    await started(stage, nursery)
    stage.put(1)
    stage.put(7, name="other")
    await settled()
    assert len(stage.held) == 2
    stage.node.tracker.membership.documents.drop(["files/motd"])
    stage.put(8, name="other")
    await settled()
    assert stage.held == [blob(8)]


async def test_a_blob_that_has_no_room_is_not_held(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    stage.lacks = {blob(1)}
    stage.answer = current
    await started(stage, nursery)
    stage.put(1)
    await settled()
    assert stage.held == []
    stage.put(2)
    await settled()
    assert stage.held == [blob(2)]


async def test_a_blob_is_held_as_soon_as_it_has_room(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    stage.lacks = {blob(1)}
    stage.answer = current
    await started(stage, nursery)
    stage.put(1)
    await trio.sleep(10 * handing.RETRY_S)
    assert stage.held == []
    stage.lacks.clear()
    await trio.sleep(handing.RETRY_S_MAX)
    assert stage.held == [blob(1)]
    stage.lacks = {blob(2)}
    stage.put(2)
    await settled()
    assert stage.held == []


async def test_a_node_that_a_set_is_not_for_does_not_wait_for_an_agent(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    await started(stage, nursery)
    stage.put(1, nodes=((1, 3),))
    stage.put(2, name="other", content=Content(WITHDRAWN, 1, 0, 0))
    await trio.sleep(3600)
    assert sorted(stage.versions()) == [("motd", 1), ("other", 2)]


async def test_other_targets_that_are_up_are_named_as_sources(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    stage = Stage()
    up = Record(1, State.UP)
    stage.node.tracker.membership.register.merge([Run(1, 30, up)])
    await started(stage, nursery)
    stage.answer = lambda _: Followed("current")
    stage.put(1, nodes=((2, 6), (9, 9)))
    stage.put(2, name="other")
    await settled()
    named = {name: sources for name, _, _, sources in stage.handed}
    assert named == {"motd": (5, 6, 9, 2, 3), "other": tuple(range(5, 5 + SOURCES_MAX))}
