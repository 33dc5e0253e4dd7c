"""The register travels along real edges, between releases that take part, and is saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec
import pytest
import trio
from conditions import until
from trio.testing import MockClock

from subord.core.address.network import Network
from subord.core.carriage.documents import Document
from subord.core.members.membership import DOCUMENTS, REGISTER
from subord.core.members.register import Record, Register, Run, State, runs_of
from subord.core.messages import Terms
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Sender, frame
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.streams import Opening, Streams
from subord.runtime.state.memory import FILE_NAME, RETRY_S, SAVE_S, WRITING, Memory
from subord.runtime.state.tracker import Tracker
from tests.runtime.test_streams import LEADER, SUBORDINATE, listener, node

pytestmark = pytest.mark.slow
SETTINGS = Settings(network=Network.parse("127.0.0.0/24"))
UP = Record(1, State.UP)


class Side(NamedTuple):
    tracker: Tracker
    streams: Streams
    counters: Counters

    @property
    def up(self) -> list[int]:
        return self.tracker.membership.register.positions(State.UP)


def side(address: str, port: int, directory: Path | str = "") -> Side:
    core = Node(SETTINGS, 1, 1, Random(1), 0.0)
    tracker, counters = Tracker(core, Memory(str(directory), SETTINGS)), Counters()
    return Side(tracker, node(address, port, counters, carrier=Carrier(tracker)), counters)


class Joined(NamedTuple):
    leader: Side
    subordinate: Side
    nursery: trio.Nursery

    def open_edge(self) -> None:
        self.nursery.start_soon(self.subordinate.streams.hold_edge, LEADER)


@pytest.fixture
def joined(nursery: trio.Nursery) -> Iterator[Joined]:
    """A leader that serves, and a subordinate that may open an edge."""
    with listener() as listening:
        port = listening.getsockname()[1]
        leader, subordinate = side(LEADER, port), side(SUBORDINATE, port)
        nursery.start_soon(leader.streams.serve, listening)
        yield Joined(leader, subordinate, nursery)


def write(one: Side, *positions: int) -> None:
    one.tracker.spread(REGISTER, list(runs_of(positions, UP)))


async def test_both_ends_get_what_the_other_has_as_soon_as_the_edge_opens(joined: Joined) -> None:
    leader, subordinate, _ = joined
    write(leader, 1, 2)
    write(subordinate, 2, 3)
    joined.open_edge()
    await until(lambda: leader.up == subordinate.up == [1, 2, 3], "equal")


async def test_changes_go_both_ways_at_once(joined: Joined) -> None:
    leader, subordinate, _ = joined
    joined.open_edge()
    write(leader, 1)
    await until(lambda: subordinate.up == [1], "sent down")
    write(subordinate, 2)
    await until(lambda: leader.up == [1, 2], "sent up")
    said = Document("forget/a", 1, leader.tracker.wall_ms + 10_000, b"x")
    leader.tracker.spread(DOCUMENTS, [said])
    held = subordinate.tracker.membership.documents
    await until(lambda: held.by_name == {"forget/a": said}, "a document")


async def test_a_release_that_takes_no_frames_gets_none(joined: Joined) -> None:
    leader = joined.leader
    write(leader, 1)
    stream = await trio.open_tcp_stream(LEADER, leader.streams._port, local_address=SUBORDINATE)
    async with stream:
        await stream.send_all(frame(msgspec.msgpack.encode(Opening("edge"))))
        with trio.move_on_after(0.5) as scope:
            await Frames(stream).next(1000)
        assert scope.cancelled_caught


async def test_a_malformed_frame_ends_the_edge_and_is_counted(joined: Joined) -> None:
    leader = joined.leader
    stream = await trio.open_tcp_stream(LEADER, leader.streams._port, local_address=SUBORDINATE)
    async with stream:
        await stream.send_all(frame(msgspec.msgpack.encode(Opening("edge", carries=True))) + frame(b"\x92\xc1"))
        frames = Frames(stream)
        while await frames.next(1000) is not None:
            pass
    assert leader.counters.dropped["carrier_malformed"] == 1


async def test_a_frame_without_news_wakes_its_own_edge_alone(joined: Joined) -> None:
    """A leader with a thousand subordinates gets their digests every minute."""
    leader = joined.leader
    joined.open_edge()
    write(joined.subordinate, 1)
    await until(lambda: leader.up == [1], "the edge is open")
    carrier = leader.streams._carrier
    assert carrier is not None
    (edge,) = carrier._wakes
    other = Sender(edge._stream)  # an edge of its own to the carrier
    carrier._wakes[other] = wake = trio.Event()
    carrier._exchange.opened(edge)
    digests = carrier._exchange.next_frame(edge, trio.current_time())
    assert digests is not None
    assert carrier.receive(edge, digests)
    assert carrier._wakes[edge].is_set()
    assert not wake.is_set()
    carrier._wakes.pop(other)


# -- the disk -------------------------------------------------------------------------------------------------


async def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    one = side(LEADER, 1, tmp_path)
    write(one, 1, 2)
    assert await one.tracker.memory.save()
    again = Memory(str(tmp_path), SETTINGS)
    assert again.membership.register.runs == [Run(1, 2, UP)]
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


async def test_a_file_of_another_network_is_not_used(tmp_path: Path) -> None:
    one = side(LEADER, 1, tmp_path)
    write(one, 1)
    await one.tracker.memory.save()
    other = msgspec.structs.replace(SETTINGS, network=Network.parse("10.0.0.0/24"))
    assert len(Memory(str(tmp_path), other).membership.register) == 0


@pytest.mark.parametrize("content", [b"", b"\xc1", msgspec.msgpack.encode([1, 2])])
def test_an_unusable_file_is_ignored(tmp_path: Path, content: bytes, warnings: list[str]) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert len(Memory(str(tmp_path), SETTINGS).membership.register) == 0
    assert len(warnings) == 1


async def test_a_disk_that_refuses_is_said_once(tmp_path: Path, warnings: list[str]) -> None:
    one = side(LEADER, 1, tmp_path / "absent")
    for position in (1, 2):
        write(one, position)
        assert not await one.tracker.memory.save()
    assert len(warnings) == 1


async def test_a_write_that_was_abandoned_is_not_taken_for_done(tmp_path: Path) -> None:
    """As at the end of the daemon, which saves the goodbye after its tasks were cancelled."""
    one = side(LEADER, 1, tmp_path)
    write(one, 1)
    with WRITING:  # the disk does not answer
        with trio.move_on_after(0.05) as scope:
            await one.tracker.memory.save()
        assert scope.cancelled_caught
    assert await one.tracker.memory.save()
    assert Memory(str(tmp_path), SETTINGS).membership.register.positions(State.UP) == [1]


def test_an_older_state_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    """Two writes may wait for the disk; threads get a lock in any order."""
    memory = Memory(str(tmp_path), SETTINGS)
    path = tmp_path / FILE_NAME
    assert memory._write(path, b"newer", 2)
    assert memory._write(path, b"older", 1)
    assert path.read_bytes() == b"newer"


async def test_a_disk_that_refused_is_tried_again(tmp_path: Path, autojump_clock: MockClock) -> None:
    autojump_clock.autojump_threshold = 0.05  # for the threads that write
    directory = tmp_path / "later"
    one = side(LEADER, 1, directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.tracker.memory.save_forever)
        write(one, 1)
        await trio.sleep(2 * SAVE_S)
        directory.mkdir()
        await trio.sleep(2 * RETRY_S)
        assert (directory / FILE_NAME).exists()
        nursery.cancel_scope.cancel()


async def test_the_rename_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document is on the disk before its command returns; after a power cut the name may else be the old file's."""
    synced: list[bool] = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(stat.S_ISDIR(os.fstat(file).st_mode)))
    one = side(LEADER, 1, tmp_path)
    write(one, 1)
    assert await one.tracker.memory.save()
    assert synced == [False, True]


def test_a_file_of_another_format_is_not_used(tmp_path: Path) -> None:
    content = Register(10, runs_of([1], UP))
    saved = (2, msgspec.to_builtins(Terms.of(SETTINGS)), content.encode(content.items()), b"\x90")
    (tmp_path / FILE_NAME).write_bytes(msgspec.msgpack.encode(saved))
    assert len(Memory(str(tmp_path), SETTINGS).membership.register) == 0
