"""The exchange of replicas along edges, documents, and statements of operators."""

from __future__ import annotations

import msgspec
import pytest

from subord.core.carriage import documents as documents_module
from subord.core.carriage.documents import EXPIRY_MS_MAX, Document, Documents
from subord.core.carriage.exchange import (
    DIGEST_S,
    FIRST_BYTE_MIN,
    FRAME_BYTES_MAX,
    WHOLE_S,
    Exchange,
)
from subord.core.members import statements
from subord.core.members.register import LEAP_MS_MAX, Record, Register, Run, State, runs_of
from subord.core.members.statements import Forget, Maintain

NOW_MS = 1_800_000_000_000
SIZE = 100_000


class Node:
    def __init__(self) -> None:
        self.register = Register(SIZE)
        self.documents = Documents()
        self.exchange = Exchange({"members": self.register, "documents": self.documents})


class Line:
    """Nodes in a row; `settle` delivers all frames."""

    def __init__(self, count: int) -> None:
        self.nodes = [Node() for _ in range(count)]
        self.edges = [(i, i + 1) for i in range(count - 1)]
        self.now = 0.0
        self.wall_ms = NOW_MS
        self.frames = 0
        self.bytes = 0
        for one, other in self.edges:
            self.open(one, other)

    def open(self, one: int, other: int) -> None:
        self.nodes[one].exchange.opened(other)
        self.nodes[other].exchange.opened(one)

    def settle(self, after_s: float = 0.0) -> None:
        self.now += after_s
        quiet = False
        while not quiet:
            quiet = True
            for one, other in [*self.edges, *((b, a) for a, b in self.edges)]:
                while (frame := self.nodes[one].exchange.next_frame(other, self.now)) is not None:
                    quiet = False
                    self.frames += 1
                    self.bytes += len(frame)
                    assert len(frame) <= FRAME_BYTES_MAX
                    assert frame[0] >= FIRST_BYTE_MIN
                    assert self.nodes[other].exchange.received(one, frame, self.now, self.wall_ms)

    def registers(self) -> set[bytes]:
        return {node.register.digest for node in self.nodes}


def write(node: Node, *positions: int, stamp_ms: int = 1) -> None:
    node.exchange.spread("members", runs_of(positions, Record(stamp_ms, State.UP)))


def test_what_one_node_knows_all_learn_when_the_edges_open() -> None:
    line = Line(5)
    write(line.nodes[2], 1, 2, 7)
    line.settle()
    assert {tuple(node.register.positions(State.UP)) for node in line.nodes} == {(1, 2, 7)}


def test_a_change_goes_on_at_once_and_not_back() -> None:
    line = Line(4)
    line.settle()
    line.frames = 0
    write(line.nodes[1], 5)
    line.settle()
    assert len(line.registers()) == 1
    assert line.frames == 3


def test_equal_replicas_cost_their_digests_alone() -> None:
    line = Line(2)
    line.settle()
    line.frames = line.bytes = 0
    for _ in range(10):
        line.settle(after_s=DIGEST_S)
    assert (line.frames, line.bytes // line.frames < 64) == (20, True)


def test_a_lost_change_is_found_by_the_digests() -> None:
    line = Line(2)
    line.settle()
    line.nodes[0].register.merge(runs_of([9], Record(1, State.UP)))  # as if a frame had been lost
    line.settle(after_s=DIGEST_S - 1)
    assert len(line.registers()) == 2
    line.settle(after_s=1)
    assert len(line.registers()) == 1


def test_the_whole_is_sent_at_most_once_in_a_while() -> None:
    line = Line(2)
    sender, receiver = line.nodes
    line.settle()
    write(sender, *range(1, 2000, 2))
    line.settle()
    line.frames = 0
    foreign = Exchange({"members": Register(SIZE)})
    foreign.opened("x")
    digests = foreign.next_frame("x", line.now)
    assert digests is not None
    for _ in range(20):
        assert sender.exchange.received(1, digests, line.now, NOW_MS)
        line.settle(after_s=WHOLE_S / 10)
    assert 1 <= line.frames <= 3
    assert receiver.register.digest == sender.register.digest


def test_many_runs_take_several_frames() -> None:
    line = Line(2)
    write(line.nodes[0], *range(1, 10_000, 2))
    line.settle()
    assert len(line.registers()) == 1
    assert line.frames <= 2 + 2 * 5


def test_what_waits_for_a_slow_edge_is_never_longer_than_the_whole() -> None:
    line = Line(2)
    node = line.nodes[0]
    line.settle()
    for stamp_ms in range(1, 500):
        write(node, *range(1, 20), stamp_ms=stamp_ms)
    waiting = node.exchange._edges[1].waiting["members"]
    assert len(waiting) == 1


def test_an_edge_that_opens_again_begins_anew() -> None:
    line = Line(2)
    line.settle()
    line.nodes[0].exchange.closed(1)
    write(line.nodes[0], 3)
    assert line.nodes[0].exchange.next_frame(1, line.now) is None
    line.open(0, 1)
    line.settle()
    assert len(line.registers()) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x90",
        b"\xff",
        msgspec.msgpack.encode(("members", b"\xc1")),
        msgspec.msgpack.encode(("members", msgspec.msgpack.encode([[1, SIZE + 1, [1, 1, 0, 0]]]))),
        msgspec.msgpack.encode(("digests", b"\x01")),
        msgspec.msgpack.encode((1, 2)),
    ],
)
def test_a_malformed_frame_changes_nothing(data: bytes) -> None:
    node = Node()
    node.exchange.opened(1)
    assert not node.exchange.received(1, data, 0.0, NOW_MS)
    assert len(node.register) == 0


def test_frames_of_a_later_release_are_passed_over() -> None:
    node = Node()
    node.exchange.opened(1)
    assert node.exchange.received(1, msgspec.msgpack.encode(("ledger", b"")), 0.0, NOW_MS)
    digests = msgspec.msgpack.encode({"ledger": b"12345678"})
    assert node.exchange.received(1, msgspec.msgpack.encode(("digests", digests)), 0.0, NOW_MS)


# -- documents ------------------------------------------------------------------------------------------------


def document(version: int = 1, body: bytes = b"a", name: str = "forget/1") -> Document:
    return Document(name, version, NOW_MS + 1000, body)


def test_the_higher_version_counts_in_any_order() -> None:
    one, other = Documents([document(1), document(2, b"b")]), Documents([document(2, b"b"), document(1)])
    assert one.by_name == other.by_name == {"forget/1": document(2, b"b")}
    assert one.digest == other.digest
    assert not one.conflicts


def test_two_documents_with_one_version_are_a_conflict_that_all_nodes_solve_alike() -> None:
    one, other = Documents([document(1, b"a"), document(1, b"b")]), Documents([document(1, b"b"), document(1, b"a")])
    assert one.by_name == other.by_name
    assert one.conflicts == other.conflicts == {"forget/1"}
    one.merge([document(2)])
    assert not one.conflicts


def test_documents_have_an_end() -> None:
    documents = Documents([document()])
    documents.drop_expired(NOW_MS)
    assert len(documents) == 1
    documents.drop_expired(NOW_MS + 1000)
    assert len(documents) == 0
    given = [document()._replace(expires_ms=at) for at in (NOW_MS, NOW_MS + 1, NOW_MS + EXPIRY_MS_MAX + 1)]
    assert documents.decode(documents.encode(given), NOW_MS) == given[1:2]


def test_the_number_of_documents_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "DOCUMENTS_MAX", 3)
    documents = Documents(document(name=f"forget/{n}") for n in range(9))
    assert len(documents) == 3
    assert documents.merge([document(2, name="forget/0")])


# -- statements -----------------------------------------------------------------------------------------------


def said(*nodes: tuple[int, int], until_ms: int = 0) -> Maintain:
    return Maintain(nodes, "new disks", NOW_MS, "ann", until_ms)


def test_only_nodes_that_were_down_are_forgotten() -> None:
    down, later = Record(NOW_MS - 1, State.DOWN, NOW_MS - 5, 7), Record(NOW_MS + 1, State.DOWN)
    register = Register(SIZE, [Run(1, 3, Record(1, State.UP)), Run(4, 4, down), Run(5, 5, later), Run(6, 6, down)])
    forget = Forget(((1, 5),), "sold", NOW_MS, "ann")
    documents = Documents([statements.forget_document("a", forget)])
    assert statements.forgotten(documents, register, NOW_MS) == [
        Run(4, 4, Record(NOW_MS, State.FORGOTTEN, NOW_MS - 5, 7))
    ]


def test_a_maintenance_holds_until_its_end() -> None:
    documents = Documents([statements.maintain_document("a", said((3, 5), until_ms=NOW_MS + 10), 1, NOW_MS)])
    (maintenance,) = statements.under_maintenance(documents, NOW_MS + 9)
    assert statements.covers([maintenance], 4) == maintenance
    assert statements.covers([maintenance], 6) is None
    assert statements.under_maintenance(documents, NOW_MS + 10) == []


def test_ending_a_part_leaves_the_rest() -> None:
    documents = Documents([statements.maintain_document("a", said((3, 9)), 1, NOW_MS)])
    nodes, changed = statements.ended(documents, ((5, 6), (20, 30)), "bob", NOW_MS)
    documents.merge(changed)
    assert nodes == [5, 6]
    (left,) = statements.under_maintenance(documents, NOW_MS)
    assert left.said.nodes == ((3, 4), (7, 9))
    nodes, changed = statements.ended(documents, ((1, 50),), "bob", NOW_MS)
    documents.merge(changed)
    assert nodes == [3, 4, 7, 8, 9]
    assert statements.under_maintenance(documents, NOW_MS) == []
    assert documents.by_name["maintain/a"].version == 3


NESTED = b"\x81\xa1x" + b"\x91" * 8000 + b"\xc0"  # a field of a later release, too deep for the decoder


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"nodes": [[1, SIZE]]}), NESTED], ids=range(4))
def test_a_statement_that_cannot_be_read_says_nothing(body: bytes) -> None:
    documents = Documents([Document("maintain/a", 1, NOW_MS + 1, body)])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_a_statement_about_too_many_nodes_says_nothing() -> None:
    documents = Documents([statements.maintain_document("a", said((1, 1 << 60)), 1, NOW_MS)])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_a_range_that_ends_before_it_begins_says_nothing() -> None:
    """Its negative size would hide that the other range is endless."""
    documents = Documents([statements.maintain_document("a", said((1, 1 << 60), (1 << 60, 1)), 1, NOW_MS)])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_ranges_that_overlap_name_each_node_once() -> None:
    assert statements.size_of(((1, 5), (3, 7), (9, 9), (4, 4))) == 8


def test_a_forget_from_the_far_future_waits() -> None:
    """Its stamp would be refused by all nodes but this one, and at its maximum no record could follow it."""
    register = Register(SIZE, [Run(4, 4, Record(NOW_MS - 1, State.DOWN))])
    for at_ms, count in ((NOW_MS + LEAP_MS_MAX + 1, 0), (NOW_MS + LEAP_MS_MAX, 1)):
        forget = Forget(((4, 4),), "sold", at_ms, "ann")
        documents = Documents([statements.forget_document("a", forget)])
        assert len(statements.forgotten(documents, register, NOW_MS)) == count


def test_a_node_that_died_long_after_a_forget_is_not_forgotten() -> None:
    """It was back when the operator said so, in another part of the network: its stamp is that of its return."""
    died_ms = NOW_MS + LEAP_MS_MAX + 1
    register = Register(SIZE, [Run(4, 4, Record(NOW_MS - 1, State.DOWN, died_ms))])
    documents = Documents([statements.forget_document("a", Forget(((4, 4),), "sold", NOW_MS, "ann"))])
    assert statements.forgotten(documents, register, died_ms) == []


def test_expired_documents_do_not_make_neighbours_differ() -> None:
    """Only a changed roster made a node look, and drop them; in a calm tree they were offered for ever."""
    line = Line(2)
    for node in line.nodes:
        node.documents.merge([document()])
    line.nodes[0].documents.drop_expired(NOW_MS + 1000)
    line.wall_ms = NOW_MS + 1000
    line.settle()
    line.frames = 0
    line.settle(after_s=DIGEST_S)
    assert line.frames == 2
    assert not line.nodes[1].documents.by_name
