"""Blobs that other processes of the host give and take: chunks, holds that end, paths of the control socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from conditions import until

from subord.api.http.server import Call
from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX as CHUNK
from subord.core.carriage.blobs.manifests import Manifest, name_of
from subord.runtime.blobs.holds import HOLDS_MAX, BlobHolds
from subord.runtime.blobs.parts import joined, split
from subord.runtime.blobs.store import BlobError
from subord.services.blob_paths import blob_changes, blob_handlers
from tests.runtime.test_blob_keeper import CONTENT, Host, two

CHUNKS = [CONTENT[at : at + CHUNK] for at in range(0, len(CONTENT), CHUNK)]
LISTING = Manifest(len(CONTENT), tuple(map(name_of, CHUNKS))).encode()
BLOB = name_of(LISTING)


@asynccontextmanager
async def holding(tmp_path: Path, bytes_max: int = 1 << 30) -> AsyncIterator[tuple[BlobHolds, BlobHolds, Host]]:
    """The holds of two nodes, and the second node."""
    places = tmp_path / "one", tmp_path / "other"
    for each in places:
        each.mkdir(exist_ok=True)
    async with two(*map(str, places), bytes_max=bytes_max) as (one, other), trio.open_nursery() as nursery:
        holds = BlobHolds(one.keeper, one.position), BlobHolds(other.keeper, other.position)
        for each in holds:
            nursery.start_soon(each.run)
        await trio.testing.wait_all_tasks_blocked()
        yield *holds, other
        nursery.cancel_scope.cancel()


async def given(holds: BlobHolds) -> None:
    for each in CHUNKS:
        assert await holds.add(each) == name_of(each)
    assert await holds.join(LISTING, "command", 60.0) == BLOB


async def test_chunks_become_a_blob_that_another_node_gets(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, host):
        await given(one)
        await other.fetch(BLOB, one.position, "agent", 60.0)
        assert b"".join([await other.chunk(name_of(each)) for each in CHUNKS]) == CONTENT
        assert host.driver.sizes()["blob_fetches"] == 1
        other.release(BLOB, "agent")
        await until(lambda: host.driver.sizes()["blob_fetches"] == 0, "it is released")


async def test_a_hold_ends_with_its_time_and_with_its_last_holder(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, host):
        await given(one)
        await other.fetch(BLOB, one.position, "first", 0.2)
        await other.fetch(BLOB, one.position, "second", 60.0)
        await until(lambda: len(other._holds) == 1, "the first is over")
        assert host.driver.sizes()["blob_fetches"] == 1
        other.release(BLOB, "second")
        await until(lambda: host.driver.sizes()["blob_fetches"] == 0, "it is released")


async def test_a_question_that_is_cancelled_goes_on(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, _):
        with trio.move_on_after(0.05):
            await other.fetch(BLOB, one.position, "agent", 60.0)
        assert len(other._holds) == 1
        await given(one)
        await other.fetch(BLOB, one.position, "agent", 60.0)


async def test_a_list_of_chunks_that_are_not_here_is_refused(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, _, _):
        await one.add(CHUNKS[0])
        with pytest.raises(BlobError, match="too small"):
            await one.join(LISTING, "command", 60.0)
        with pytest.raises(BlobError, match="no manifest"):
            await one.join(b"\xff" * 20, "command", 60.0)
        assert not one._holds


async def test_a_cache_that_is_too_small_says_so(tmp_path: Path) -> None:
    async with holding(tmp_path, bytes_max=2 * CHUNK) as (one, other, _):
        await given(one)
        with pytest.raises(BlobError, match="no room"):
            await other.fetch(BLOB, one.position, "agent", 60.0)
        assert not other._holds
        for each in CHUNKS:
            await other.add(each)
        with pytest.raises(BlobError, match="too small"):
            await other.join(LISTING, "command", 60.0)


async def test_holds_have_a_bound(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, _, _):
        await given(one)
        for number in range(HOLDS_MAX - 1):
            await one.fetch(BLOB, one.position, str(number), 60.0)
        with pytest.raises(BlobError, match="too many"):
            await one.fetch(BLOB, one.position, "last", 60.0)


async def test_the_paths(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, _):
        node: Any = SimpleNamespace(held_blobs=one)
        orders = blob_handlers(node)
        for each in CHUNKS:
            made = await orders["/v1/blobs/chunk"](Call({}, each, is_owner=False))
            assert msgspec.json.decode(made.body)["name"] == name_of(each).hex()  # type: ignore[union-attr]
        made = await orders["/v1/blobs"](Call({"holder": "c", "keep": "9"}, LISTING, is_owner=False))
        found = msgspec.json.decode(made.body)  # type: ignore[union-attr]
        assert (found["blob"], found["source"]) == (BLOB.hex(), one.position)
        for keep in ("nan", "-1", "x"):
            refused = await orders["/v1/blobs"](Call({"keep": keep}, LISTING, is_owner=False))
            assert refused.status == 409  # type: ignore[union-attr]

        changes = blob_changes(SimpleNamespace(held_blobs=other))  # type: ignore[arg-type]
        use = {"blob": BLOB.hex(), "source": str(one.position), "holder": "a", "keep": "9"}
        fetched = await changes["/v1/blobs/fetch"](use)
        assert msgspec.json.decode(fetched.body)["here"]  # type: ignore[union-attr]
        chunk = await changes["/v1/blobs/read"]({"name": name_of(CHUNKS[0]).hex()})
        assert chunk.body == CHUNKS[0]  # type: ignore[union-attr]
        lacking = await changes["/v1/blobs/read"]({"name": "00" * 32})
        assert lacking.status == 404  # type: ignore[union-attr]
        taken = await changes["/v1/blobs/take"](use)
        assert split(bytearray(taken.body)) == [LISTING, *CHUNKS]  # type: ignore[union-attr]
        taken = await changes["/v1/blobs/take"]({**use, "first": "3"})
        assert split(bytearray(taken.body)) == CHUNKS[3:]  # type: ignore[union-attr]
        await changes["/v1/blobs/release"](use)
        await until(lambda: not other._holds, "it is released")
        for wrong in (
            {},
            {**use, "blob": "zz"},
            {**use, "blob": "00"},
            {**use, "source": "0"},
            {**use, "source": ""},
        ):
            for word in ("fetch", "take"):
                refused = await changes[f"/v1/blobs/{word}"](wrong)
                assert refused.status == 400  # type: ignore[union-attr]
        refused = await changes["/v1/blobs/take"]({**use, "first": "-1"})
        assert refused.status == 400  # type: ignore[union-attr]


async def test_a_damaged_chunk_is_fetched_anew_after_it_was_read(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, _):
        await given(one)
        await other.fetch(BLOB, one.position, "agent", 60.0)
        damaged = tmp_path / "other" / "blobs" / name_of(CHUNKS[1]).hex()
        damaged.write_bytes(CHUNKS[1][:-1])
        assert await other.part(BLOB, 1) == [CHUNKS[1][:-1], *CHUNKS[2:]]
        with pytest.raises(BlobError, match="not on this node"):
            await other.chunk(name_of(CHUNKS[1]))
        other.release(BLOB, "agent")
        await until(lambda: not other._holds, "it is released")
        await other.fetch(BLOB, one.position, "agent", 60.0)
        assert await other.part(BLOB, 1) == CHUNKS[1:]


async def test_a_damaged_chunk_comes_anew_while_another_holds_the_blob(tmp_path: Path) -> None:
    async with holding(tmp_path) as (one, other, _):
        await given(one)
        await other.fetch(BLOB, one.position, "agent", 60.0)
        await other.fetch(BLOB, one.position, "another", 60.0)
        damaged = tmp_path / "other" / "blobs" / name_of(CHUNKS[1]).hex()
        damaged.write_bytes(CHUNKS[1][:-1])
        with pytest.raises(BlobError, match="not on this node"):
            await other.chunk(name_of(CHUNKS[1]))
        await until(lambda: damaged.exists() and damaged.read_bytes() == CHUNKS[1], "it is here again")
        assert await other.part(BLOB, 1) == CHUNKS[1:]


async def test_a_part_of_what_is_not_here(tmp_path: Path) -> None:
    async with holding(tmp_path) as (_, other, _):
        assert await other.part(BLOB, 0) == [b""]
        assert await other.part(BLOB, 1) == []


def test_parts() -> None:
    chunks = [b"", b"abc", bytes(300)]
    assert split(bytearray(joined(chunks))) == chunks
    assert split(bytearray()) == []
    for size in (1, 4, 6, 10):
        with pytest.raises(ValueError, match="early"):
            split(bytearray(joined([b"abcdefg"])[:size]))
