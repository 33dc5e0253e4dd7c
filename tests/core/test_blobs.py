"""Blobs: each leader fetches once, what is wrong is never kept, transfers resume, and the cache is bounded."""

from __future__ import annotations

from random import Random

import pytest
from blob_net import BlobNet, blob_of
from loops import over
from msgspec import msgpack

from subord.core.carriage.blobs import bounds, manifests
from subord.core.carriage.blobs.blobs import NO_MANIFEST, NO_ROOM
from subord.core.carriage.blobs.bodies import Lacks, Piece, Want, pieces
from subord.core.carriage.blobs.cache import Cache
from subord.core.carriage.blobs.interface import Release
from subord.core.carriage.blobs.manifests import Manifest, ManifestError, name_of
from subord.core.carriage.engine.frames import encode, open_envelope
from subord.core.carriage.engine.interface import Arrived

TREE = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 4, 9: 4}
FANOUT = 2
CHUNK = bounds.CHUNK_BYTES_MAX
CONTENT = Random(1).randbytes(5 * CHUNK + 1000)


def everywhere(net: BlobNet, source: int, content: bytes = CONTENT) -> bytes:
    name = net.put(source, content)
    net.fetch(name, source, *(each for each in net.engines if each != source))
    return name


@pytest.mark.parametrize("source", [1, 2, 9])
def test_each_node_sends_at_most_fanout_and_one_times_the_size(source: int) -> None:
    net = BlobNet(TREE)
    name = everywhere(net, source)
    net.run()
    assert all(net.has(each, name, CONTENT) for each in TREE)
    size = sum(map(len, blob_of(CONTENT).values()))
    assert max(net.sent.values()) <= (FANOUT + 1) * size
    assert set(net.got.values()) == {1}  # each chunk came once to each node
    assert all(not each.sizes["blob wants"] and not each.sizes["blob calls"] for each in net.blobs.values())


@pytest.mark.parametrize("source", [1, 2, 9])
def test_no_node_sends_more_while_edges_are_not_open_yet(source: int) -> None:
    """Each node calls its leader, which has the chunks for all below."""
    net = BlobNet(TREE, are_open=False)
    name = everywhere(net, source)
    net.run(60.0)
    assert all(net.has(each, name, CONTENT) for each in TREE)
    assert max(net.sent.values()) <= (FANOUT + 1) * sum(map(len, blob_of(CONTENT).values()))
    assert all(not each.sizes["blob calls"] for each in net.blobs.values())


def test_an_edge_that_opens_takes_the_place_of_the_call() -> None:
    net = BlobNet({1: 0, 2: 1, 3: 2}, are_open=False)
    name = everywhere(net, 1)
    net.run(0.02)
    net.open(2)
    net.open(3)
    net.run()
    assert all(net.has(each, name, CONTENT) for each in (2, 3))
    assert set(net.got.values()) == {1}
    assert max(net.sent.values()) == sum(map(len, blob_of(CONTENT).values()))


def test_a_leader_whose_edge_has_ended_is_not_called() -> None:
    """It may be dead, and a call to a host that is away takes seconds."""
    net = BlobNet({1: 0, 2: 1, 3: 2})
    net.close(3)
    net.run()
    net.fetch(net.put(1, CONTENT), 1, 3)
    net.run(0.1)
    assert net.sent[1]
    assert not net.sent[2]


def test_a_source_that_cannot_be_called_at_first_is_called_by_the_root_alone() -> None:
    """The root tries again; those below wait for it, and do not call the source, too."""
    net = BlobNet(TREE)
    name = net.put(9, CONTENT)
    chunks = dict(net.disks[9])
    net.close(9)
    engine, blobs = net.engines.pop(9), net.blobs[9]  # no process takes the call
    net.fetch(name, 9, *(each for each in net.engines if each != 9))
    net.run(0.0015)
    net.engines[9], net.blobs[9], net.disks[9] = engine, blobs, chunks
    net.run(60.0)
    assert all(net.has(each, name, CONTENT) for each in TREE if each != 9)
    assert net.sent[9] <= sum(map(len, blob_of(CONTENT).values()))


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1])
def test_sizes_at_the_edge(size: int) -> None:
    net = BlobNet({1: 0, 2: 1})
    content = CONTENT[:size]
    name = everywhere(net, 1, content)
    net.run()
    assert net.has(2, name, content)


def test_equal_chunks_come_once() -> None:
    net = BlobNet({1: 0, 2: 1})
    content = bytes(4 * CHUNK)
    name = everywhere(net, 1, content)
    net.run()
    assert net.has(2, name, content)
    assert len(net.got) == 2  # the chunk and the manifest


@pytest.mark.parametrize("liar", [1, 2])
def test_a_wrong_chunk_is_named_and_asked_of_another(liar: int) -> None:
    net = BlobNet({**TREE, 10: 8})
    net.liars = {liar}
    source = 9 if liar == 1 else 1
    name = everywhere(net, source)
    net.run()
    for each in (4, 5, 8, 10):
        assert net.has(each, name, CONTENT)
    assert set(net.wrong) == {liar}
    for disk in net.disks.values():
        assert all(name_of(chunk) == each for each, chunk in disk.items())


def test_a_leader_that_dies_is_replaced_and_no_whole_chunk_comes_again() -> None:
    net = BlobNet(TREE)
    name = everywhere(net, 1)
    while not (2 < len(net.disks[4]) < 5):
        net.run(0.001)
    net.kill(2)
    net.run()
    assert all(net.has(each, name, CONTENT) for each in net.engines)
    assert max(net.got.values()) == 1


def test_a_process_continues_with_what_its_disk_has() -> None:
    net = BlobNet({1: 0, 2: 1, 3: 2})
    name = everywhere(net, 1)
    while len(net.disks[3]) < 3:
        net.run(0.001)
    before = len(net.disks[3])
    net.kill(3)
    net.run(0.1)
    net.stage.leaders[3] = 2
    net.got.clear()
    net.start(3)
    net.open(3)
    net.fetch(name, 1, 3)
    net.run()
    assert net.has(3, name, CONTENT)
    assert sum(times for (position, _), times in net.got.items() if position == 3) == len(blob_of(CONTENT)) - before


def test_a_silent_leader_is_passed_by() -> None:
    net = BlobNet(TREE)
    net.silent = {2}
    name = net.put(1, CONTENT)
    net.fetch(name, 1, 8)
    net.run(60.0)
    assert net.has(8, name, CONTENT)
    assert net.now <= 60.0


def test_a_slow_leader_sends_each_chunk_once_and_is_not_passed_by() -> None:
    """It is asked again before the chunk is here; the source is its leader, and must not send for both."""
    net = BlobNet({1: 0, 2: 1, 8: 2})
    net.delay_s = {2: bounds.SILENCE_S + 3.0}
    name = net.put(1, CONTENT)
    net.fetch(name, 1, 8)
    net.run()
    assert net.has(8, name, CONTENT)
    size = sum(map(len, blob_of(CONTENT).values()))
    assert (net.sent[1], net.sent[2]) == (size, size)


def test_a_chunk_that_was_lost_on_the_way_comes_again() -> None:
    """A lane that is full drops a frame: asked for the second time, the leader sends the chunk once more."""
    net = BlobNet({1: 0, 8: 1})
    net.lost = 1
    name = net.put(1, CONTENT)
    net.fetch(name, 1, 8)
    net.run(3 * bounds.SILENCE_S)
    assert net.has(8, name, CONTENT)


def test_a_call_to_a_node_that_becomes_the_leader_ends_all_the_same() -> None:
    net = BlobNet({1: 0, 2: 1, 3: 2})
    net.silent = {2}
    name = net.put(1, CONTENT)
    net.fetch(name, 1, 3)
    while (3, name) not in net.fetched:
        net.run(0.01)
    assert net.blobs[3].sizes["blob calls"] == 1
    net.stage.leaders[3] = 1
    net.open(3)
    other = net.put(1, CONTENT[CHUNK:])
    net.fetch(other, 1, 3)
    net.run()
    assert net.has(3, other, CONTENT[CHUNK:])
    assert net.blobs[3].sizes["blob calls"] == 0


def test_a_leader_that_waits_itself_is_not_passed_by() -> None:
    """The root has no answer from the source for a while: none asks elsewhere, and each link carries a chunk once."""
    net = BlobNet(TREE)
    name = net.put(9, CONTENT)
    net.silent = {9}
    net.fetch(name, 9, 7)
    net.run(bounds.SILENCE_S)
    assert not net.sent
    net.silent = set()
    net.run(60.0)
    assert net.has(7, name, CONTENT)


def test_a_source_that_is_away_is_asked_again_as_long_as_the_blob_is_needed() -> None:
    net = BlobNet(TREE)
    name = net.put(9, CONTENT)
    chunks = dict(net.disks[9])
    net.kill(9)
    net.fetch(name, 9, 7)
    net.run(10.0)
    assert (7, name) not in net.fetched
    net.stage.leaders[9] = 4
    net.disks[9] = chunks
    net.start(9)
    net.open(9)
    net.run(bounds.RETRY_S_MAX)
    assert net.has(7, name, CONTENT)


def test_a_source_that_has_lost_its_disk_makes_no_circle() -> None:
    """The source asks the root, the root asks the source: both learn that none has it."""
    net = BlobNet({1: 0, 2: 1})
    name = list(blob_of(CONTENT))[-1]
    net.fetch(name, 2, 1, 2)
    net.run(30.0)
    for each in (1, 2):
        net.give(each, Release(name))
    net.run()
    assert all(not each.sizes["blob wants"] for each in net.blobs.values())


def test_what_is_needed_no_more_is_not_asked_for() -> None:
    net = BlobNet(TREE)
    name = net.put(9, CONTENT)
    net.kill(9)
    net.fetch(name, 9, 7)
    net.run(10.0)
    net.give(7, Release(name))
    net.run()  # ends: nothing is due
    assert all(not each.sizes["blob wants"] for each in net.blobs.values())


def test_a_blob_larger_than_the_cache_is_refused() -> None:
    net = BlobNet({1: 0, 2: 1}, {2: 3 * CHUNK})
    name = everywhere(net, 1)
    net.run()
    assert net.fetched[2, name] == NO_ROOM


def test_a_name_of_no_blob_is_told_so() -> None:
    net = BlobNet({1: 0, 2: 1})
    net.disks[1] = {name_of(b"text"): b"text"}
    net.start(1)
    net.open(2)
    net.fetch(name_of(b"text"), 1, 2)
    net.run()
    assert net.fetched[2, name_of(b"text")] == NO_MANIFEST


def test_chunks_in_use_do_not_give_way() -> None:
    net = BlobNet({1: 0, 2: 1}, dict.fromkeys((1, 2), 12 * CHUNK))
    first, second, third = (Random(seed).randbytes(5 * CHUNK) for seed in (1, 2, 3))
    one = net.put(1, first)
    net.fetch(one, 1, 2)
    net.run()
    other = net.put(1, second)
    net.fetch(other, 1, 2)
    net.run()
    assert net.has(2, one, first)
    assert net.has(2, other, second)
    net.give(1, Release(one))
    last = net.put(1, third)
    net.fetch(last, 1, 2)
    net.run(30.0)
    assert net.fetched[2, last] == NO_ROOM
    net.give(2, Release(one))
    net.fetch(last, 1, 2)
    net.run()
    assert net.has(2, last, third)
    assert net.has(2, other, second)


def test_a_cache_lets_the_least_recently_used_go() -> None:
    cache = Cache(30)
    for each in (b"a", b"b", b"c"):
        assert cache.add(each, 10) == []
    cache.use(b"a")
    assert cache.add(b"d", 10) == [b"b"]
    cache.pin([b"c", b"a"])
    assert cache.add(b"e", 20) is None
    assert b"d" in cache
    cache.unpin([b"c"])
    assert cache.add(b"e", 20) == [b"c", b"d"]
    assert cache.used_bytes == 30


@pytest.mark.parametrize(
    "data", [b"", bytes(7), bytes(8) + b"x", (1).to_bytes(8, "big"), (1 << 63).to_bytes(8, "big")]
)
def test_bytes_that_are_no_manifest(data: bytes) -> None:
    with pytest.raises(ManifestError):
        manifests.decode(data)


def test_a_manifest_is_what_it_was() -> None:
    manifest = Manifest(CHUNK + 1, (name_of(b"1"), name_of(b"2")))
    assert manifests.decode(manifest.encode()) == manifest
    assert [manifest.chunk_bytes(each) for each in (0, 1)] == [CHUNK, 1]
    largest = Manifest(bounds.CHUNKS_MAX * CHUNK, (name_of(b""),) * bounds.CHUNKS_MAX).encode()
    assert len(largest) <= CHUNK


def test_a_piece_fits_a_frame() -> None:
    for each in pieces(name_of(b""), bytes(CHUNK), 0):
        open_envelope(encode(1 << 41, 1 << 41, each))
    assert sum(len(each.data) for each in pieces(name_of(b""), bytes(CHUNK), 100)) == CHUNK - 100


@pytest.mark.slow
@over("seed", range(60))
def test_seeds(seed: int) -> None:
    """Drawn trees, sizes, deaths and lies: every living node gets the blob, and nothing wrong is kept."""
    chance = Random(seed)
    nodes = chance.randint(3, 14)
    fanout = chance.randint(1, 3)
    net = BlobNet({each: 0 if each == 1 else (each - 2) // fanout + 1 for each in range(1, nodes + 1)})
    source = chance.randint(1, nodes)
    content = chance.randbytes(chance.choice((10, CHUNK, 3 * CHUNK + 7)))
    name = everywhere(net, source, content)
    others = [each for each in range(1, nodes + 1) if each != source]
    if chance.random() < 0.3:
        net.liars = {chance.choice(others)}
    for _ in range(chance.randint(0, 4)):
        net.run(chance.uniform(0.001, 0.05))
        victim = chance.choice([each for each in others if each in net.engines])
        if chance.random() < 0.5 and len(net.engines) > 3 and victim not in net.liars:
            net.kill(victim)
        else:
            net.close(victim)
            for each in sorted({victim, *(at for at, above in net.stage.leaders.items() if above == victim)}):
                net.open(each)
    net.run(200.0)
    for each in net.engines:
        assert net.has(each, name, content), f"seed {seed}: node {each} lacks the blob"
    for disk in net.disks.values():
        assert all(name_of(chunk) == each for each, chunk in disk.items())
    assert set(net.wrong) <= net.liars
    assert all(not each.sizes["blob wants"] for each in net.blobs.values())


def test_what_is_passed_on_by_an_interior_node_needs_no_room() -> None:
    """2 keeps nothing, and 3 below it gets the blob through it."""
    net = BlobNet({1: 0, 2: 1, 3: 2}, {2: 10})
    name = net.put(1, CONTENT)
    net.fetch(name, 1, 3)
    net.run()
    assert net.has(3, name, CONTENT)
    assert net.disks[2] == {}
    assert net.sent[2] == sum(map(len, blob_of(CONTENT).values()))


def test_a_node_that_asks_for_too_much_waits() -> None:
    net = BlobNet({1: 0, 2: 1})
    net.put(1, CONTENT)
    link = net.blobs[1]._links.edge_to(2, climbs=False)
    assert link is not None
    for each in list(net.disks[1])[: bounds.WINDOW + 2]:
        net.give(1, Arrived(link.link, encode(1, 0, Want(each, 1))))
    assert net.blobs[1].sizes["blob reading"] == bounds.WINDOW
    for each in range(3):  # chunks that it has not
        net.give(1, Arrived(link.link, encode(1, 0, Want(name_of(b"%d" % each), 2))))
    assert net.blobs[1].dropped == {"blob asked too much": 5}


def test_chunks_that_a_node_waits_for_itself_count_too() -> None:
    net = BlobNet({1: 0, 2: 1, 3: 1})
    net.silent = {3}
    link = net.blobs[1]._links.edge_to(2, climbs=False)
    assert link is not None
    for each in range(bounds.WINDOW + 2):
        net.give(1, Arrived(link.link, encode(1, 0, Want(name_of(b"%d" % each), 3))))
    assert net.blobs[1].sizes["blob wants"] == bounds.WINDOW
    assert net.blobs[1].dropped == {"blob asked too much": 2}


def test_pieces_that_were_not_asked_for_are_dropped() -> None:
    net = BlobNet({1: 0, 2: 1})
    link = net.blobs[2]._links.edge_to(1, climbs=True)
    assert link is not None
    for body in (Piece(name_of(b"a"), 0, 1, b"a"), Lacks(name_of(b"a"))):
        net.give(2, Arrived(link.link, encode(1, 0, body)))
    assert net.blobs[2].dropped == {"blob not asked": 2}


@over(
    "body",
    [
        [48, b"short", 1],
        [48, bytes(32), 0],
        [48, bytes(32), 1, CHUNK + 1],
        [49, bytes(32), 0, CHUNK + 1, b""],
        [49, bytes(32), 0, CHUNK, bytes(bounds.PIECE_BYTES_MAX + 1)],
        [50],
        [52, bytes(32)],
    ],
)
def test_a_body_beyond_its_bounds_is_unreadable(body: list[object]) -> None:
    net = BlobNet({1: 0, 2: 1})
    link = net.blobs[1]._links.edge_to(2, climbs=False)
    assert link is not None
    net.give(1, Arrived(link.link, msgpack.encode([1, 0, body])))
    assert net.engines[1].dropped == {"unreadable": 1}
