"""Blobs whose cache is a small real disk: full or read-only at the node that fetches, on the way, and that gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from conditions import until
from disks import PAGE, Disk, apart
from loops import over

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX as CHUNK
from subord.core.carriage.blobs.manifests import name_of
from subord.runtime.blobs.holds import BlobHolds
from subord.runtime.blobs.store import CANNOT_WRITE, BlobError
from tests.runtime.test_blob_holds import BLOB, CHUNKS, CONTENT, LISTING, given, holding
from tests.runtime.test_blob_keeper import Host

FULL, READ_ONLY = (f"{CANNOT_WRITE}: {each}" for each in ("No space left on device", "Read-only file system"))
ROOM = 8 * CHUNK


def left(top: Path) -> list[str]:
    return sorted(each.name for each in (top / "blobs").glob("*.part"))


@asynccontextmanager
async def on_disk(top: Path, place: str) -> AsyncIterator[tuple[Disk, BlobHolds, BlobHolds, Host]]:
    """Two nodes, of which one has a small disk; the last is the second one's daemon."""
    for each in ("one", "other"):
        (top / each).mkdir()
    disk = Disk(top / place, ROOM)
    async with holding(top) as (one, other, host):
        yield disk, one, other, host


@pytest.mark.slow
@over(
    ("fault", "reason"),
    [
        (Disk.fill, FULL),
        (lambda disk: disk.fill(CHUNK + 8 * PAGE), FULL),
        (lambda disk: disk.fill(3 * CHUNK + PAGE), FULL),
        (Disk.close, READ_ONLY),
    ],
)
@apart
def test_a_node_without_room_says_so_and_gets_the_blob_when_there_is_room(
    fault: Callable[[Disk], None], reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("nodes")

    async def fetch() -> None:
        async with on_disk(top, "other") as (disk, one, other, host):
            await given(one)
            fault(disk)
            for _ in range(2):
                with pytest.raises(BlobError) as found:
                    await other.fetch(BLOB, one.position, "agent", 60.0)
                assert str(found.value) == reason
            await until(lambda: not host.wants, "nothing is under way")
            disk.open()
            disk.free()
            assert left(disk.path) == []
            await other.fetch(BLOB, one.position, "agent", 60.0)
            assert b"".join([await other.chunk(name_of(each)) for each in CHUNKS]) == CONTENT

    trio.run(fetch)


@over(("fault", "reason"), [(Disk.fill, FULL), (Disk.close, READ_ONLY)])
@apart
def test_the_node_that_gives_says_so(
    fault: Callable[[Disk], None], reason: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("nodes")

    async def give() -> None:
        async with on_disk(top, "one") as (disk, one, other, _):
            fault(disk)
            with pytest.raises(BlobError) as found:
                await one.add(CHUNKS[0])
            assert str(found.value) == reason
            disk.open()
            disk.free()
            for each in CHUNKS:
                await one.add(each)
            fault(disk)
            with pytest.raises(BlobError) as found:
                await one.join(LISTING, "command", 60.0)
            assert str(found.value) == reason
            disk.open()
            disk.free()
            assert left(disk.path) == []
            await one.join(LISTING, "command", 60.0)
            await other.fetch(BLOB, one.position, "agent", 60.0)

    trio.run(give)


async def test_a_chunk_that_is_gone_is_fetched_again(tmp_path: Path) -> None:
    """Something else has deleted it, or the disk has damaged it."""
    async with holding(tmp_path) as (one, other, host):
        await given(one)
        for number, spoil in enumerate((Path.unlink, lambda path: path.write_bytes(b"damaged"))):
            await other.fetch(BLOB, one.position, str(number), 60.0)
            spoil(tmp_path / "other" / "blobs" / name_of(CHUNKS[1]).hex())
            with pytest.raises(BlobError, match="not on this node"):
                await other.chunk(name_of(CHUNKS[1]))
            other.release(BLOB, str(number))
            await until(lambda: host.driver.sizes()["blob_fetches"] == 0, "it is released")
        await other.fetch(BLOB, one.position, "last", 60.0)
        assert await other.chunk(name_of(CHUNKS[1])) == CHUNKS[1]
