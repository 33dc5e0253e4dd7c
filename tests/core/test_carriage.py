"""The exchange of replicas along edges, documents, and statements of operators."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from subord.core.carriage import documents as documents_module
from subord.core.carriage.documents import EXPIRY_MS_MAX, LASTING, NEVER_MS, RING, Document, Documents, is_current
from subord.core.carriage.exchange import (
    DIGEST_S,
    FIRST_BYTE_MIN,
    FRAME_BYTES_MAX,
    WHOLE_S,
    WHOLE_S_MAX,
    Exchange,
)
from subord.core.carriage.orders import Order, namespace_for, signed_content
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


def take(exchange: Exchange, edge: object, frame: bytes, now: float = 0.0, wall_ms: int = NOW_MS) -> bool:
    """Take all items of a frame; False: it is malformed."""
    received = exchange.read(edge, frame, now, wall_ms)
    if received is not None:
        exchange.take(edge, received)
    return received is not None


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
                    assert take(self.nodes[other].exchange, one, frame, self.now, self.wall_ms)

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


def test_changes_that_follow_each_other_go_in_one_frame_after_a_pause() -> None:
    line = Line(2)
    line.settle()
    line.frames = 0
    for position in range(1, 41):
        write(line.nodes[0], position)
        line.settle(0.05)
    assert line.nodes[0].exchange.deadline(1) == pytest.approx(line.now + 0.05, abs=0.06)
    line.settle(Register.pause_s)
    assert len(line.registers()) == 1
    assert line.frames <= 4


def test_what_a_node_holds_back_comes_by_another_edge_and_not_to_a_node_without_one() -> None:
    """1 passes on nothing; 2 and 3 have another edge, by which the change comes; 4 has none but to 1."""
    line = Line(4)
    line.nodes.append(Node())
    for edge in ((3, 0), (1, 4)):
        line.edges.append(edge)
        line.open(*edge)
    line.settle()
    line.edges = [edge for edge in line.edges if 1 not in edge]
    write(line.nodes[0], 5)
    line.settle()
    assert [tuple(node.register.positions(State.UP)) for node in line.nodes] == [(5,), (), (5,), (5,), ()]


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
        assert take(sender.exchange, 1, digests, line.now)
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
    assert not take(node.exchange, 1, data)
    assert len(node.register) == 0


def test_frames_of_a_later_release_are_passed_over() -> None:
    node = Node()
    node.exchange.opened(1)
    assert take(node.exchange, 1, msgspec.msgpack.encode(("ledger", b"")))
    digests = msgspec.msgpack.encode({"ledger": b"12345678"})
    assert take(node.exchange, 1, msgspec.msgpack.encode(("digests", digests)))


class Refusing:
    """Two ends, of which one refuses all documents; `wholes` are the times at which the other sends them."""

    def __init__(self, count: int = 1) -> None:
        self.sender, self.refusing = Node(), Node()
        self.sender.documents.merge(document(name=f"forget/{n}") for n in range(count))
        self.sender.exchange.opened(1)
        self.refusing.exchange.opened(0)
        self.wholes: list[float] = []

    def pass_by(self, begin_s: int, end_s: int) -> None:
        for now in range(begin_s, end_s):
            while (frame := self.sender.exchange.next_frame(1, now)) is not None:
                name = msgspec.msgpack.decode(frame)[0]
                if name == "documents":
                    self.wholes.append(now)
            while (frame := self.refusing.exchange.next_frame(0, now)) is not None:
                assert take(self.sender.exchange, 1, frame, now)


def test_documents_that_a_neighbour_refuses_are_offered_less_and_less() -> None:
    ends = Refusing()
    ends.pass_by(0, 6 * 3600)
    pauses = [later - earlier for earlier, later in itertools.pairwise(ends.wholes)]
    assert pauses == sorted(pauses)
    assert len(ends.wholes) < 20
    assert pauses[-1] <= WHOLE_S_MAX + DIGEST_S


def test_a_change_at_either_end_is_offered_soon_again() -> None:
    for which in ("sender", "refusing"):
        ends = Refusing()
        ends.pass_by(0, 4 * 3600)
        node = getattr(ends, which)
        node.documents.merge([document(2, name="maintain/9")])
        ends.wholes.clear()
        ends.pass_by(4 * 3600, 4 * 3600 + 130)
        assert ends.wholes, which


# -- documents ------------------------------------------------------------------------------------------------


def document(version: int = 1, body: bytes = b"a", name: str = "forget/1") -> Document:
    return Document(name, version, NOW_MS, NOW_MS + 1000, body)


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


def test_documents_without_an_end_are_three_and_always_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "DOCUMENTS_MAX", 1)
    lasting = [document(name=name)._replace(expires_ms=NEVER_MS) for name in sorted(LASTING)]
    documents = Documents([document(), *lasting, document(name="forget/2")])
    assert set(documents.by_name) == {"forget/1", *LASTING}
    documents.drop_expired(NOW_MS + 1000)
    assert set(documents.by_name) == LASTING
    for wrong in (lasting[0]._replace(name="ring/other"), lasting[0]._replace(expires_ms=NOW_MS + 1000)):
        assert not is_current(wrong.order, NOW_MS)
    assert is_current(lasting[0].order, NOW_MS)


def test_one_order_with_two_signatures_is_one_document() -> None:
    """A member can write a signature in many ways that all count; nodes must not send them to each other for ever."""
    one, other = (Documents([document()._replace(signature=each)]) for each in (b"1", b"2"))
    assert one.digest == other.digest
    for documents in (one, other):
        assert not documents.merge([document()._replace(signature=b"3")])
        assert not documents.conflicts


@pytest.mark.parametrize(
    ("offered", "matters"),
    [
        (document(1), False),
        (document(2, b"b"), False),
        (document(2, b"a"), True),  # a conflict is shown, although the other document stays
        (document(2, b"c"), True),
        (document(3), True),
        (document(1, name="forget/2"), True),
    ],
)
def test_only_what_would_change_something_is_worth_a_judgement(offered: Document, matters: bool) -> None:
    documents = Documents([document(2, b"b")])
    assert documents.matters(offered) == matters
    documents.merge([document(2, b"a")])
    assert not documents.matters(document(2, b"a"))


def test_a_signature_covers_these_bytes() -> None:
    """docs/protocol/members.md has them."""
    order = Order("forget/0a", 2, 3, 4, b"b")
    expected = b"subord 1 order\n\x96\x92\xa1c\xab10.0.0.0/24\xa9forget/0a\x02\x03\x04\xc4\x01b"
    assert signed_content(("c", "10.0.0.0/24"), order) == expected
    assert document().order == document()._replace(signature=b"x").order


def test_each_kind_of_order_has_a_namespace() -> None:
    names = (
        "forget/a",
        "maintain/a",
        RING,
        "revoked/list",
        "strict/on",
        "test/keys",
        "test/none",
        "files/a",
        "other/a",
        "test",
    )
    assert [namespace_for(name).rpartition(".")[2] for name in names] == [
        "members",
        "members",
        "keys",
        "identity",
        "identity",
        "keys",
        "",
        "files",
        "",
        "",
    ]


def test_the_number_of_documents_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "DOCUMENTS_MAX", 3)
    documents = Documents(document(name=f"forget/{n}") for n in range(9))
    assert len(documents) == 3
    assert documents.merge([document(2, name="forget/0")])


# -- statements -----------------------------------------------------------------------------------------------


def said(*nodes: tuple[int, int], until_ms: int = 0) -> Maintain:
    return Maintain(nodes, "new disks", "ann", until_ms)


def maintained(said: Maintain) -> Document:
    return Document(*statements.maintain_order("a", said, NOW_MS))


def forget_of(*nodes: tuple[int, int], at_ms: int = NOW_MS) -> Documents:
    return Documents([Document(*statements.forget_order("a", Forget(nodes, "sold", "ann"), at_ms))])


def test_only_nodes_that_were_down_are_forgotten() -> None:
    down, later = Record(NOW_MS - 1, State.DOWN, NOW_MS - 5, 7), Record(NOW_MS + 1, State.DOWN)
    register = Register(SIZE, [Run(1, 3, Record(1, State.UP)), Run(4, 4, down), Run(5, 5, later), Run(6, 6, down)])
    assert statements.forgotten(forget_of((1, 5)), register, NOW_MS) == [
        Run(4, 4, Record(NOW_MS, State.FORGOTTEN, NOW_MS - 5, 7))
    ]


def test_a_maintenance_holds_until_its_end() -> None:
    documents = Documents([maintained(said((3, 5), until_ms=NOW_MS + 10))])
    (maintenance,) = statements.under_maintenance(documents, NOW_MS + 9)
    assert statements.covers([maintenance], 4) == maintenance
    assert statements.covers([maintenance], 6) is None
    assert statements.under_maintenance(documents, NOW_MS + 10) == []


def test_ending_a_part_leaves_the_rest() -> None:
    documents = Documents([maintained(said((3, 9)))])
    nodes, changed = statements.ended(documents, ((5, 6), (20, 30)), "bob", NOW_MS)
    documents.merge(Document(*each) for each in changed)
    assert nodes == [5, 6]
    (left,) = statements.under_maintenance(documents, NOW_MS)
    assert left.said.nodes == ((3, 4), (7, 9))
    nodes, changed = statements.ended(documents, ((1, 50),), "bob", NOW_MS)
    documents.merge(Document(*each) for each in changed)
    assert nodes == [3, 4, 7, 8, 9]
    assert statements.under_maintenance(documents, NOW_MS) == []
    assert documents.by_name["maintain/a"].version == 3


NESTED = b"\x81\xa1x" + b"\x91" * 8000 + b"\xc0"  # a field of a later release, too deep for the decoder


@pytest.mark.parametrize("body", [b"", b"\xc1", msgspec.msgpack.encode({"nodes": [[1, SIZE]]}), NESTED], ids=range(4))
def test_a_statement_that_cannot_be_read_says_nothing(body: bytes) -> None:
    documents = Documents([Document("maintain/a", 1, NOW_MS, NOW_MS + 1, body)])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_a_statement_about_too_many_nodes_says_nothing() -> None:
    documents = Documents([maintained(said((1, 1 << 60)))])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_a_range_that_ends_before_it_begins_says_nothing() -> None:
    """Its negative size would hide that the other range is endless."""
    documents = Documents([maintained(said((1, 1 << 60), (1 << 60, 1)))])
    assert statements.under_maintenance(documents, NOW_MS) == []


def test_ranges_that_overlap_name_each_node_once() -> None:
    assert statements.size_of(((1, 5), (3, 7), (9, 9), (4, 4))) == 8


def test_a_forget_from_the_far_future_waits() -> None:
    """Its stamp would be refused by all nodes but this one, and at its maximum no record could follow it."""
    register = Register(SIZE, [Run(4, 4, Record(NOW_MS - 1, State.DOWN))])
    for at_ms, count in ((NOW_MS + LEAP_MS_MAX + 1, 0), (NOW_MS + LEAP_MS_MAX, 1)):
        assert len(statements.forgotten(forget_of((4, 4), at_ms=at_ms), register, NOW_MS)) == count


def test_a_node_that_died_long_after_a_forget_is_not_forgotten() -> None:
    """It was back when the operator said so, in another part of the network: its stamp is that of its return."""
    died_ms = NOW_MS + LEAP_MS_MAX + 1
    register = Register(SIZE, [Run(4, 4, Record(NOW_MS - 1, State.DOWN, died_ms))])
    assert statements.forgotten(forget_of((4, 4)), register, died_ms) == []


@pytest.mark.parametrize("until_s", [0, 366 * 86_400])
@pytest.mark.parametrize("clock_s", [0, 5, -5 * 86_400])
def test_an_ended_maintenance_expires_no_earlier_than_the_one_that_it_ends(until_s: int, clock_s: int) -> None:
    """A recording of the first version would else start it again for a month."""
    until_ms = NOW_MS + 1000 * until_s if until_s else 0
    first = maintained(said((3, 9), until_ms=until_ms))
    documents = Documents([first])
    now_ms = NOW_MS + 1000 * clock_s
    for ranges in (((3, 3),), ((1, 50),)):  # a part, and the rest
        _, (order,) = statements.ended(documents, ranges, "bob", now_ms)
        assert order.expires_ms >= first.expires_ms
        assert is_current(order, now_ms)
        documents.merge([Document(*order)])
    documents.drop_expired(first.expires_ms - 1)
    assert not documents.merge([first])
    assert statements.under_maintenance(documents, NOW_MS) == []


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


def test_a_neighbour_that_has_nothing_is_compared_by_its_digests() -> None:
    """It sends no items: after an upgrade from 0.1 no node has a register yet."""
    one, other, late = Node(), Node(), Node()
    for each in (one, other, late):
        each.exchange.opened("edge")
    one.exchange.spread("members", runs_of([1], Record(1, State.UP)))
    late.exchange.spread("members", runs_of([2], Record(1, State.UP)))
    frame = other.exchange.next_frame("edge", 0.0)
    assert frame is not None
    assert take(one.exchange, "edge", frame)
    assert one.exchange.compared == {"members", "documents"}
    frame = late.exchange.next_frame("edge", 0.0)
    assert frame is not None
    assert take(other.exchange, "edge", frame)
    assert other.exchange.compared == {"documents"}, "what it has is still to come"
