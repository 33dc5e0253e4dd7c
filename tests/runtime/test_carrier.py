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
from conditions import IO_S, until
from fake_operators import CLUSTER, FakeVerifier, signed
from trio.testing import MockClock

from subord.core.address.network import Network
from subord.core.carriage.documents import Document
from subord.core.carriage.orders import Verdict
from subord.core.identity.pins import Pin
from subord.core.members import statements
from subord.core.members.membership import KEYS, REGISTER
from subord.core.members.register import Record, Register, Run, State, runs_of
from subord.core.members.statements import Forget
from subord.core.messages import Terms
from subord.core.node import Node
from subord.core.settings import Settings
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, frame
from subord.runtime.net.carrier import Carrier
from subord.runtime.net.streams import Opening, Streams
from subord.runtime.security.gate import Gate
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
    verifier: FakeVerifier

    @property
    def up(self) -> list[int]:
        return self.tracker.membership.register.positions(State.UP)


def side(address: str, port: int, directory: Path | str = "") -> Side:
    core = Node(SETTINGS, 1, 1, Random(1), 0.0)
    memory, counters, verifier = Memory(str(directory), SETTINGS), Counters(), FakeVerifier()
    gate = Gate(verifier, CLUSTER, memory.membership.revocations, counters)
    tracker = Tracker(core, memory, gate.judge)
    return Side(tracker, node(address, port, counters, carrier=Carrier(tracker)), counters, verifier)


def said(one: Side, tag: str = "a", principal: str = "ann") -> Document:
    return signed(statements.forget_order(tag, Forget(((3, 3),), "sold", "ann"), one.tracker.wall_ms), principal)


def give(one: Side, *documents: Document, principal: str = "ann") -> None:
    """As the control socket does, after the gate."""
    one.tracker.take([(each, Verdict("", principal, f"SHA256:{principal}")) for each in documents])


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
    document = said(leader)
    give(leader, document)
    held = subordinate.tracker.membership.documents
    await until(lambda: held.by_name == {"forget/a": document}, "a document")
    assert subordinate.tracker.membership.signers == {"forget/a": ("ann", "SHA256:ann")}
    assert subordinate.counters.orders_accepted == {"members": 1}
    give(subordinate, said(subordinate, "b"))
    await until(lambda: len(leader.tracker.membership.documents) == 2, "a document of below")
    assert (leader.verifier.sources, subordinate.verifier.sources) == ({SUBORDINATE}, {LEADER})


async def test_a_forgotten_address_takes_the_next_key_at_once(joined: Joined) -> None:
    """The key of the next host comes right after the statement, before any look at the roster."""
    leader, subordinate, _ = joined
    pins = [each.tracker.membership.pins for each in (leader, subordinate)]
    wall_ms = leader.tracker.wall_ms
    for each in (leader, subordinate):
        each.tracker.spread(KEYS, [Pin(3, wall_ms - 1000, b"a" * 32)])
    joined.open_edge()
    give(leader, said(leader))
    leader.tracker.spread(KEYS, [Pin(3, wall_ms + 2000, b"b" * 32)])
    await until(lambda: all(each is not None and each.key_of(3) == b"b" * 32 for each in pins), "the next key")


async def test_a_document_that_the_gate_refuses_does_not_enter_and_the_edge_stays(joined: Joined) -> None:
    leader, subordinate, _ = joined
    joined.open_edge()
    give(leader, said(leader, "a", "eve"), said(leader, "b")._replace(signature=b"ann:"))
    write(leader, 1)
    give(leader, said(leader, "c"))
    held = subordinate.tracker.membership.documents
    await until(lambda: set(held.by_name) == {"forget/c"}, "what is signed")
    assert subordinate.up == [1]
    assert subordinate.counters.orders_refused == {"unknown_principal": 1, "altered": 1}
    assert all(f"passed on by {LEADER}," in each.text for each in subordinate.counters.problems.shown())
    assert not subordinate.counters.dropped


async def test_documents_that_a_node_holds_are_not_judged_again(joined: Joined) -> None:
    leader, subordinate, _ = joined
    document = said(leader)
    for side in (leader, subordinate):
        give(side, document)
    give(leader, said(leader, "b"))  # the digests differ, so the leader sends both
    joined.open_edge()
    await until(lambda: len(subordinate.tracker.membership.documents) == 2, "the other one")
    assert (leader.verifier.asked, subordinate.verifier.asked) == (0, 1)


async def test_subscribers_learn_of_documents_that_are_new(joined: Joined) -> None:
    leader, subordinate, _ = joined
    told: list[str] = []
    subordinate.tracker.on_documents.append(lambda found: told.extend(each.name for each in found))
    joined.open_edge()
    document = said(leader)
    give(leader, document)
    await until(lambda: told == ["forget/a"], "told")
    give(leader, document)
    write(leader, 1)
    await until(lambda: subordinate.up == [1], "later")
    assert told == ["forget/a"]


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


async def test_a_frame_without_news_wakes_no_edge(joined: Joined) -> None:
    """A leader with a thousand subordinates gets their digests every minute."""
    leader = joined.leader
    joined.open_edge()
    write(joined.subordinate, 1)
    await until(lambda: leader.up == [1], "the edge is open")
    carrier = leader.streams._ends._carrier
    assert carrier is not None
    (edge,) = carrier._wakes
    names = {name: each.digest for name, each in carrier._exchange.replicas.items()}
    encode = msgspec.msgpack.encode
    await until(lambda: edge in carrier._sleeps_until, "the edge is at rest")
    wake = carrier._wakes[edge]
    assert await carrier.receive(edge, encode(("digests", encode(names))))
    assert not wake.is_set()
    assert await carrier.receive(edge, encode(("digests", encode(dict.fromkeys(names, b"another one")))))
    assert wake.is_set()


# -- the disk -------------------------------------------------------------------------------------------------


async def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    one = side(LEADER, 1, tmp_path)
    write(one, 1, 2)
    document = said(one, "a", "bob")
    give(one, document, principal="bob")
    assert await one.tracker.memory.save()
    again = Memory(str(tmp_path), SETTINGS)
    assert again.membership.register.runs == [Run(1, 2, UP)]
    assert again.membership.documents.by_name == {"forget/a": document}
    assert again.membership.signers == {"forget/a": ("bob", "SHA256:bob")}
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


async def test_orders_for_a_cluster_of_another_name_are_not_loaded(tmp_path: Path) -> None:
    one = side(LEADER, 1, tmp_path)
    write(one, 1)
    give(one, said(one))
    await one.tracker.memory.save()
    again = Memory(str(tmp_path), msgspec.structs.replace(SETTINGS, cluster_name="another")).membership
    assert (len(again.register), len(again.documents), again.signers) == (1, 0, {})


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
    autojump_clock.autojump_threshold = IO_S
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
