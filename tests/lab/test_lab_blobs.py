"""Blobs among real daemons: what each node sends, a leader that is killed, a restart, and a node that reads slowly.

Nodes put and get a file by orders of a service that only the lab has (netns-lab/services/blob).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from netlab.common.waiting import wait_until
from netlab.eventlog import changes
from netlab.experiments.signing import SERVICES
from netlab.lab import Lab

from subord.core.carriage.blobs.bounds import CHUNK_BYTES_MAX

from .lab_helpers import settled

pytestmark = pytest.mark.lab

NODES, FANOUT = 15, 2
SOURCE = NODES  # a leaf, and so the only node that sends to one that is not below it
CHUNKS = 16
SIZE = CHUNKS * CHUNK_BYTES_MAX
SLOW = 14
WAIT_S_MAX = 60.0
BUDGET_S = 8.0
OVERHEAD = 1.1  # headers, TLS, acknowledgements, and what the tree sends besides


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with settled(WAIT_S_MAX, nodes=NODES, fanout=FANOUT, services=str(SERVICES), timing="lab") as lab:
        until(lambda: all(map(partial(has_edge, lab), lab.positions[1:])), "the edges are open")
        yield lab


def until(condition: Any, what: str) -> None:
    assert wait_until(condition, WAIT_S_MAX, 0.01), what


def has_edge(lab: Lab, position: int) -> bool:
    """To its leader. Before it opens, some seconds after a start, a node asks others over streams of their own."""
    found = lab.document(1, f"/v1/ping?budget=5&nodes={position}")
    return any(each["round_trip_ms_max"] is not None for each in found["levels"])


def order(lab: Lab, words: str, nodes: str = "") -> dict[str, Any]:
    chosen = f"&nodes={nodes}" if nodes else ""
    return lab.document(4, f"/v1/blob?budget={BUDGET_S:g}&payload={quote(words)}{chosen}", 2 * BUDGET_S)


def put(lab: Lab, seed: int) -> tuple[str, bytes]:
    """A new file at the source: the words of the order that gets it, and its content."""
    content = Random(seed).randbytes(SIZE)
    path = lab.directory.path / f"file-{seed}"
    path.write_bytes(content)
    ((name, _),) = order(lab, f"put {path}", str(SOURCE))["results"].items()
    return f"get {name} {SOURCE} copy-{seed}", content


def get_everywhere(lab: Lab, words: str, missing: int = 0) -> None:
    """Until all nodes but so many have it."""
    until(lambda: order(lab, words)["results"] == {"here": NODES - missing}, f"{NODES - missing} nodes have it")


def copies(lab: Lab, seed: int, content: bytes) -> set[int]:
    """Nodes with the file as it was put."""
    paths = {each: lab.directory.node(each) / f"copy-{seed}" for each in lab.positions}
    return {each for each, path in paths.items() if path.exists() and path.read_bytes() == content}


def chunks_at(lab: Lab, position: int) -> set[str]:
    """Files of the cache, without parts: the chunks of all blobs, and a manifest of each."""
    directory = lab.directory.node(position) / "state" / "blobs"
    return {path.name for path in directory.glob("*") if not path.suffix} if directory.exists() else set()


def bytes_of(lab: Lab, way: str) -> dict[int, int]:
    """ "sent" or "brought", so far, by position."""
    return {lab.position(address): each[0] for address, each in lab.ports()[way].items()}


@contextmanager
def getting(lab: Lab, words: str) -> Iterator[None]:
    """The order is out meanwhile."""
    asking = threading.Thread(target=order, args=(lab, words))
    asking.start()
    try:
        yield
    finally:
        asking.join()


def test_each_node_sends_a_blob_at_most_fanout_and_one_times(lab: Lab) -> None:
    words, content = put(lab, 1)
    before = bytes_of(lab, "sent")
    get_everywhere(lab, words)
    sent = {each: count - before[each] for each, count in bytes_of(lab, "sent").items()}
    assert copies(lab, 1, content) == set(lab.positions)
    assert max(sent.values()) <= (FANOUT + 1) * SIZE
    assert sum(sent.values()) <= OVERHEAD * NODES * SIZE  # along each edge once, and from the source to the root


def killed_in_the_middle(lab: Lab, position: int) -> tuple[int, str, bytes, int]:
    """A file, as `put` tells of it, of which this node has only so many chunks, because it was killed meanwhile. A
    kill that comes when it has all of a file, as on a busy machine, shows nothing: then another file is put."""
    for seed in range(100, 110):
        words, content = put(lab, seed)
        old = chunks_at(lab, position)
        with getting(lab, words):
            until(lambda before=old: len(chunks_at(lab, position) - before) > CHUNKS / 4, "it has a part")
            lab.kill(position)
        had = len(chunks_at(lab, position) - old) - 1
        if had < CHUNKS:
            return seed, words, content, had
        lab.start_and_wait(position)
        get_everywhere(lab, words)
    raise AssertionError("it had each file as a whole before it was killed")


def test_a_leader_that_is_killed_costs_no_other_node_the_blob_and_goes_on_after_its_restart(lab: Lab) -> None:
    seed, words, content, had = killed_in_the_middle(lab, 2)
    get_everywhere(lab, words, missing=1)
    assert copies(lab, seed, content) == set(lab.positions) - {2}
    lab.start_and_wait(2)
    before = bytes_of(lab, "brought")
    get_everywhere(lab, words)
    assert copies(lab, seed, content) == set(lab.positions)
    assert bytes_of(lab, "brought")[2] - before[2] <= OVERHEAD * (SIZE - had * CHUNK_BYTES_MAX)


def test_a_node_that_reads_slowly_delays_no_other_and_keeps_its_leader(lab: Lab) -> None:
    """14 is stopped most of the time, while it gets what all others get."""
    lab.wait_stable(WAIT_S_MAX, quiet_s=1.0)
    words, content = put(lab, 3)
    since = changes.baseline(lab.look())
    others = set(lab.positions) - {SLOW}
    with reading_slowly(lab, SLOW), getting(lab, words):
        until(lambda: copies(lab, 3, content) >= others, "all others have it")
        assert SLOW not in copies(lab, 3, content)
        found = lab.document(4, "/v1/ping?budget=5")
        assert {address for each in found["missing"] for address in each["addresses"]} <= {lab.address(SLOW)}
        until(lambda: SLOW in copies(lab, 3, content), "it has it, too")
    assert changes.moves(lab.look(), since) == {}


@contextmanager
def reading_slowly(lab: Lab, position: int) -> Iterator[None]:
    """The daemon runs a tenth of the time."""
    is_over = threading.Event()

    def alternate() -> None:
        while not is_over.is_set():
            lab.kill(position, signal.SIGSTOP)
            is_over.wait(0.18)
            lab.kill(position, signal.SIGCONT)
            is_over.wait(0.02)

    alternating = threading.Thread(target=alternate)
    alternating.start()
    try:
        yield
    finally:
        is_over.set()
        alternating.join()
