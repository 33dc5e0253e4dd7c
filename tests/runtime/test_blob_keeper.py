"""Blobs on disks and streams: what is put, fetched over a stream of its own, copied, damaged, and what survives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio
from conditions import until

from subord.core.address.network import Network
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX as CHUNK
from subord.core.carriage.blobs.manifests import name_of
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.blobs.keeper import NO_DIRECTORY, BlobKeeper
from subord.runtime.blobs.store import BlobError, ChunkStore
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Stream
from subord.runtime.orders.driver import OrderDriver

NETWORK = Network.parse("10.0.0.0/24")
CONTENT = Random(1).randbytes(3 * CHUNK + 17)


class Host:
    """A node without leader, whose calls reach the other."""

    def __init__(self, position: int, directory: str, nursery: trio.Nursery, bytes_max: int = 1 << 30) -> None:
        node = Node(Settings(network=NETWORK), position, position * 1000, Random(1), trio.current_time())
        self.counters = Counters()
        self.position = position
        self.keeper = BlobKeeper(directory, bytes_max, NETWORK.address_text_of)
        self.driver = OrderDriver(node, self.counters, {}, parts=[self.keeper])
        self.other: Host
        self.driver.called = self._called  # type: ignore[assignment]
        self._nursery = nursery
        nursery.start_soon(self.driver.run)
        nursery.start_soon(self.keeper.run)

    @asynccontextmanager
    async def _called(self, _address: str) -> AsyncIterator[Stream | None]:
        ours, theirs = (trio.SocketStream(each) for each in trio.socket.socketpair())
        address = NETWORK.address_text_of(self.position)
        self._nursery.start_soon(self.other.driver.hold_call, address, theirs, Frames(theirs))
        async with ours, theirs:
            yield ours

    @property
    def wants(self) -> int:
        return self.driver.sizes()["blob_wants"]


@asynccontextmanager
async def two(one: str, other: str, bytes_max: int = 1 << 30) -> AsyncIterator[tuple[Host, Host]]:
    async with trio.open_nursery() as nursery:
        hosts = Host(1, one, nursery), Host(2, other, nursery, bytes_max)
        hosts[0].other, hosts[1].other = hosts[1], hosts[0]
        await trio.testing.wait_all_tasks_blocked()
        yield hosts
        nursery.cancel_scope.cancel()


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    places = tmp_path / "one", tmp_path / "other"
    for each in places:
        each.mkdir()
    (tmp_path / "file").write_bytes(CONTENT)
    return places


async def test_a_file_comes_from_its_source(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(*map(str, places)) as (one, other):
        blob = await one.keeper.put(tmp_path / "file")
        await other.keeper.fetch(blob, 1)
        await other.keeper.copy(blob, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == CONTENT
        assert other.wants == 0
        assert not other.counters.dropped
        await other.keeper.fetch(blob, 1)  # it is here
        other.keeper.release(blob)


async def test_what_the_disk_has_is_not_fetched_again(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(*map(str, places)) as (one, other):
        blob = await one.keeper.put(tmp_path / "file")
        await other.keeper.fetch(blob, 1)
    for each in (places[0] / "blobs").iterdir():
        each.unlink()
    (places[1] / "blobs" / ("ab" * 32 + ".part")).write_bytes(b"of a process that was killed")
    async with two(*map(str, places)) as (_, other):
        await until(lambda: other.driver.sizes()["blob_chunks"] == 5, "the disk was read")
        await other.keeper.fetch(blob, 1)
    assert not list((places[1] / "blobs").glob("*.part"))


async def test_a_damaged_chunk_is_given_to_no_node(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(*map(str, places)) as (one, other):
        blob = await one.keeper.put(tmp_path / "file")
        damaged = places[0] / "blobs" / name_of(CONTENT[:CHUNK]).hex()
        damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.keeper.fetch, blob, 1)
            await until(lambda: one.counters.dropped["blob_unreadable"], "it is seen")
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert not other.counters.dropped["blob_wrong_chunk"]
        with pytest.raises(BlobError, match="is not on this node"):
            await other.keeper.copy(blob, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        other.keeper.release(blob)
        assert other.wants == 0


async def test_a_blob_larger_than_the_cache_is_refused(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(*map(str, places), bytes_max=2 * CHUNK) as (one, other):
        blob = await one.keeper.put(tmp_path / "file")
        with pytest.raises(BlobError, match="no room"):
            await other.keeper.fetch(blob, 1)
        with pytest.raises(BlobError, match="larger than the cache"):
            await other.keeper.put(tmp_path / "file")


async def test_blobs_in_use_leave_no_room(places: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "second").write_bytes(bytes(reversed(CONTENT)))
    async with two(*map(str, places), bytes_max=5 * CHUNK) as (_, other):
        blob = await other.keeper.put(tmp_path / "file")
        with pytest.raises(BlobError, match="no room"):
            await other.keeper.put(tmp_path / "second")
        other.keeper.release(blob)
        await other.keeper.put(tmp_path / "second")


async def test_without_a_directory_nothing_is_kept(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(str(places[0]), "") as (one, other):
        blob = await one.keeper.put(tmp_path / "file")
        with pytest.raises(BlobError, match="state_directory"):
            await other.keeper.fetch(blob, 1)
        with pytest.raises(BlobError, match=NO_DIRECTORY):
            await other.keeper.put(tmp_path / "file")


async def test_a_file_that_is_not_there(places: tuple[Path, Path], tmp_path: Path) -> None:
    async with two(*map(str, places)) as (one, _):
        with pytest.raises(BlobError, match="No such file"):
            await one.keeper.put(tmp_path / "absent")


def test_a_chunk_with_another_name_is_not_kept(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "blobs")
    assert not store.write(name_of(b"a"), b"b")
    assert store.write(name_of(b"a"), b"a")
    assert store.held() == ((name_of(b"a"), 1),)
    assert store.read(name_of(b"a")) == b"a"
    store.delete(name_of(b"a"))
    store.delete(name_of(b"a"))
    assert store.read(name_of(b"a")) is None


async def test_the_second_of_two_fetches_goes_on_when_the_first_is_given_up(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    async with two(*map(str, places)) as (one, other):
        blob = await other.keeper.put(tmp_path / "file")
        other.keeper.release(blob)
        is_over = trio.Event()

        async def second() -> None:
            await one.keeper.fetch(blob, 2)
            is_over.set()

        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                scope.cancel()
                await one.keeper.fetch(blob, 2)
            nursery.start_soon(second)
            await trio.testing.wait_all_tasks_blocked()
            one.keeper.release(blob)
            with trio.fail_after(5):
                await is_over.wait()
        one.keeper.release(blob)
        assert (one.wants, len(one.keeper._users)) == (0, 0)


def test_a_file_that_cannot_be_put_leaves_no_new_chunks(tmp_path: Path) -> None:
    store = ChunkStore(tmp_path / "blobs")
    (tmp_path / "file").write_bytes(CONTENT)
    first = CONTENT[:CHUNK]
    store.write(name_of(first), first)
    with pytest.raises(BlobError, match="larger than the cache"):
        store.put(tmp_path / "file", 2 * CHUNK)
    assert store.held() == ((name_of(first), CHUNK),)


def test_a_disk_that_fails_leaves_no_part_of_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space")

    store = ChunkStore(tmp_path / "blobs")
    monkeypatch.setattr("subord.runtime.blobs.store.os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        store.write(name_of(b"a"), b"a")
    assert not list((tmp_path / "blobs").iterdir())
