"""An archive is fetched over a link that is cut, by a process that dies: each chunk comes once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX
from subord.core.carriage.blobs.manifests import Manifest, name_of
from subord.services.transfer.data.fetching import Fetching
from subord.services.transfer.data.listing import LOST, OTHER, WRONG, FilesError
from subord.services.transfer.data.spool import FETCHED, Spool
from subord.services.transfer.data.talk import Kind, Part, Want, Word, decode_question, encode
from subord.services.transfer.jobs import Key
from subord.services.transfer.linking.asking import LinkError

KEY = Key("one", "12", 0, 1)
CHUNKS = 40
CONTENT = b"".join(bytes([each]) * CHUNK_BYTES_MAX for each in range(CHUNKS)) + b"the end"
PARTS = [CONTENT[at : at + CHUNK_BYTES_MAX] for at in range(0, len(CONTENT), CHUNK_BYTES_MAX)]
LISTED = Manifest(len(CONTENT), tuple(map(name_of, PARTS))).encode()


class Peer:
    """The other cluster. `cuts`: after so many answers with chunks the link is cut for some questions."""

    def __init__(self, cuts: dict[int, int] | None = None, spoil: Callable[[bytes], bytes] = lambda it: it) -> None:
        self.cuts = dict(cuts or {})
        self.asked = list[tuple[int, int]]()
        self.answered = list[tuple[int, int]]()
        self._spoil = spoil

    async def ask(self, body: bytes) -> bytes:
        await trio.lowlevel.checkpoint()
        want = decode_question(body)
        assert isinstance(want, Want)
        if not want.count:
            return encode(Part(Word.HERE, LISTED))
        self.asked.append((want.first, want.count))
        if self.cuts.get(len(self.answered), 0):
            self.cuts[len(self.answered)] -= 1
            raise LinkError("it is cut")
        self.answered.append((want.first, want.count))
        content = b"".join(PARTS[want.first : want.first + want.count])
        return encode(Part(Word.HERE, self._spoil(content)))


class Fetched:
    def __init__(self, folder: Path, peer: Peer) -> None:
        self.spool = Spool(folder)
        self.bytes = 0
        self.is_wanted = True
        self._peer = peer

    async def fetch(self) -> None:
        """Raises FilesError."""
        fetching = Fetching(self._peer.ask, self.spool, lambda _: self.is_wanted, self._count)
        await fetching.fetch(KEY, Kind.FILES, len(CONTENT), name_of(LISTED))

    def _count(self, size: int) -> None:
        self.bytes += size

    @property
    def content(self) -> bytes:
        return self.spool.path(KEY, FETCHED).read_bytes()


@pytest.fixture
def clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0.1)


async def test_a_link_that_is_cut_goes_on_where_it_stopped(tmp_path: Path, clock: object) -> None:
    peer = Peer(cuts={0: 1, 2: 3, 3: 1})
    fetched = Fetched(tmp_path, peer)
    await fetched.fetch()
    assert fetched.content == CONTENT
    assert fetched.bytes == len(CONTENT), "each byte comes once"
    assert len(peer.asked) == len(peer.answered) + 5
    firsts = [first for first, _ in peer.answered]
    assert firsts == sorted(set(firsts))


@pytest.mark.slow
async def test_a_process_that_dies_goes_on_where_it_stopped(tmp_path: Path, clock: object) -> None:
    peer = Peer(cuts={2: 1_000_000})
    before = Fetched(tmp_path, peer)
    with trio.move_on_after(60) as died:
        await before.fetch()
    assert died.cancelled_caught
    assert 0 < before.bytes < len(CONTENT)
    peer.cuts.clear()
    after = Fetched(tmp_path, peer)
    await after.fetch()
    assert after.content == CONTENT
    assert before.bytes + after.bytes == len(CONTENT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda kept: kept[:-100], id="half a chunk"),
        pytest.param(lambda kept: kept[:CHUNK_BYTES_MAX] + b"x" * CHUNK_BYTES_MAX, id="another one"),
        pytest.param(lambda kept: kept + b"x" * 64, id="half a chunk more"),
    ],
)
async def test_a_part_that_is_damaged_is_fetched_from_there_on(
    spoil: Callable[[bytes], bytes], tmp_path: Path, clock: object
) -> None:
    peer = Peer(cuts={2: 1_000_000})
    with trio.move_on_after(60):
        await Fetched(tmp_path, peer).fetch()
    path = Spool(tmp_path).path(KEY, FETCHED)
    path.write_bytes(spoil(path.read_bytes()))
    peer.cuts.clear()
    after = Fetched(tmp_path, peer)
    await after.fetch()
    assert after.content == CONTENT


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        pytest.param(lambda content: b"x" + content[1:], WRONG, id="other content"),
        pytest.param(lambda content: content[:-1], WRONG, id="less than a chunk"),
        pytest.param(lambda content: content + b"x", WRONG, id="more than was asked for"),
        pytest.param(lambda _: b"", LOST, id="nothing"),
    ],
)
async def test_what_the_other_cluster_has_not_named_is_not_taken(
    spoil: Callable[[bytes], bytes], cause: str, tmp_path: Path, clock: object
) -> None:
    with pytest.raises(FilesError) as found:
        await Fetched(tmp_path, Peer(spoil=spoil)).fetch()
    assert found.value.cause == cause


async def test_an_archive_that_is_not_wanted_any_more_is_not_waited_for(tmp_path: Path, clock: object) -> None:
    peer = Peer(cuts={1: 1_000_000})
    fetched = Fetched(tmp_path, peer)
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            await trio.sleep(10)
            fetched.is_wanted = False

        nursery.start_soon(give_up)
        with pytest.raises(FilesError) as found:
            await fetched.fetch()
    assert found.value.cause == OTHER
