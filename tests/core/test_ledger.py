"""The ledger of one node: when it sends, what it passes on, what leaves the spool, and its bounds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import msgpack
from order_stage import Stage, StageTree

from subord.core.carriage.engine.engine import Engine
from subord.core.carriage.engine.frames import encode, open_envelope
from subord.core.carriage.engine.interface import Arrived, Closed, Opened, Role, Transmit
from subord.core.carriage.ledger import bodies, bounds
from subord.core.carriage.ledger.batching import fitting, has_room
from subord.core.carriage.ledger.bodies import Batch, Key, Record, Sinks, Stored
from subord.core.carriage.ledger.interface import SinkIs, Spooled, Store, StoreEnded, Take, Taken
from subord.core.carriage.ledger.ledger import Ledger

LEADERS = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2}
ONE = (Record("test", b"1"),)
LIFE = 7


class Node:
    """The node at a position of LEADERS, with open edges to its neighbours."""

    def __init__(self, position: int) -> None:
        self.tree = StageTree(Stage(dict(LEADERS)), position)
        self.ledger = Ledger(self.tree)
        self.engine = Engine(self.tree, {}, parts=[self.ledger])
        self.now = 0.0
        for each, leader in LEADERS.items():
            if each == position and leader:
                self.open(leader, Role.LEADER)
            elif leader == position:
                self.open(each, Role.SUBORDINATE)

    def open(self, peer: int, role: Role) -> None:
        self.give(Opened(peer, peer, role, 1))

    def give(self, event: Any) -> list[Any]:
        """Actions, and bodies as (peer, body)."""
        actions = self.engine.handle(event, self.now)
        return [
            (each.link, bodies.decode(open_envelope(each.data).body)) if isinstance(each, Transmit) else each
            for each in actions
        ]

    def hear(self, peer: int, body: Any) -> list[Any]:
        return self.give(Arrived(peer, encode(1, 0, body)))

    def wait(self) -> list[Any]:
        """Until the deadline."""
        from subord.core.carriage.engine.interface import Wakeup

        self.now = self.engine.deadline
        return self.give(Wakeup())


def batch(sink: int = 5, origin: int = 4, first: int = 1, hops: int = 0) -> Batch:
    return Batch(sink, origin, LIFE, first, ONE, hops)


def test_without_a_sink_nothing_is_read_or_sent() -> None:
    node = Node(4)
    assert node.give(Spooled()) == []
    assert node.engine.deadline == float("inf")


def test_a_batch_is_sent_again_until_it_is_acknowledged_and_then_deleted() -> None:
    node = Node(4)
    node.give(Spooled())
    assert node.hear(2, Sinks((5,))) == [Take()]
    assert node.give(Taken(LIFE, 1, ONE)) == [(2, batch())]
    pauses = []
    for _ in range(8):
        before = node.now
        assert node.wait() == [(2, batch())]
        pauses.append(node.now - before)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert node.hear(2, Stored(batch().key)) == [Take(batch().key)]
    assert node.give(Taken()) == []
    assert node.engine.deadline == float("inf")


def test_another_acknowledgement_deletes_nothing() -> None:
    node = Node(4)
    node.give(Spooled())
    node.hear(2, Sinks((5,)))
    node.give(Taken(LIFE, 1, ONE))
    for key in (Key(4, LIFE, 2, 1), Key(4, LIFE + 1, 1, 1), Key(4, LIFE, 1, 2)):
        assert node.hear(2, Stored(key)) == []
    assert node.ledger.dropped["ledger late"] == 3


def test_a_record_that_comes_while_the_spool_is_read_is_read_next() -> None:
    node = Node(4)
    node.hear(2, Sinks((5,)))
    assert node.give(Spooled()) == [Take()]
    assert node.give(Spooled()) == []
    assert node.give(Taken()) == [Take()]


def test_a_disk_that_fails_is_tried_again_and_nothing_is_lost() -> None:
    node = Node(4)
    node.hear(2, Sinks((5,)))
    node.give(Spooled())
    node.give(Taken(LIFE, 1, ONE))
    node.hear(2, Stored(batch().key))
    assert node.give(Taken(ok=False)) == []
    assert node.give(Spooled()) == []
    assert node.wait() == [Take(batch().key)]


def test_a_batch_goes_another_way_at_once() -> None:
    node = Node(4)
    node.give(Spooled())
    node.hear(2, Sinks((5,)))
    node.give(Taken(LIFE, 1, ONE))
    assert node.give(Closed(2)) == []
    node.open(3, Role.LEADER)
    assert node.hear(3, Sinks((5,))) == []
    assert node.engine.deadline == node.now + bounds.LOOK_S
    node.tree._stage.leaders[4] = 3
    assert node.wait() == [(3, batch())]
    assert node.engine.deadline == node.now + bounds.RETRY_S


def test_a_node_keeps_to_its_sink() -> None:
    """A second sink does not get what the first has, as long as the first is there."""
    node = Node(2)
    node.hear(5, Sinks((5,)))
    node.give(Spooled())
    node.give(Taken(LIFE, 1, ONE))
    assert [each for each in node.hear(4, Sinks((3, 4))) if each[0] == 5] == [(5, Sinks((3, 4)))]
    assert node.wait() == [(5, batch(sink=5, origin=2))]
    assert (4, batch(sink=3, origin=2)) in node.hear(5, Sinks(()))


def test_neighbours_learn_of_sinks_that_are_not_behind_themselves() -> None:
    node = Node(2)
    assert node.hear(4, Sinks((4,))) == [(1, Sinks((4,))), (5, Sinks((4,)))]
    assert node.hear(1, Sinks((3,))) == [(4, Sinks((3,))), (5, Sinks((3, 4)))]
    assert node.give(SinkIs(able=True)) == [(1, Sinks((2, 4))), (4, Sinks((2, 3))), (5, Sinks((2, 3, 4)))]
    assert node.give(Closed(4)) == [(1, Sinks((2,))), (5, Sinks((2, 3)))]
    assert node.give(SinkIs(able=False)) == [(1, Sinks(())), (5, Sinks((3,)))]


def test_the_middle_passes_on_and_keeps_nothing() -> None:
    node = Node(2)
    node.hear(1, Sinks((3,)))
    before = node.ledger.sizes
    assert node.hear(4, batch(sink=3)) == [(1, batch(sink=3, hops=1))]
    assert node.hear(1, Stored(batch().key)) == [(4, Stored(batch().key, 1))]
    assert node.ledger.sizes == before
    assert node.engine.deadline == float("inf")


@pytest.mark.parametrize(
    ("peer", "body", "word"),
    [
        (4, batch(sink=9), "ledger no sink"),  # none has told of it
        (1, batch(sink=3), "ledger no sink"),  # it would go back
        (4, batch(sink=3, hops=bounds.HOPS_MAX), "ledger no sink"),
        (4, batch(sink=2), "ledger no sink"),  # this node is none
        (1, Stored(Key(3, LIFE, 1, 1)), "ledger no way home"),
        (4, Stored(Key(3, LIFE, 1, 1), bounds.HOPS_MAX), "ledger no way home"),
    ],
)
def test_what_has_no_way_is_dropped_and_counted(peer: int, body: Any, word: str) -> None:
    node = Node(2)
    node.hear(1, Sinks((3,)))
    assert node.hear(peer, body) == []
    assert node.ledger.dropped == {word: 1}


def test_a_sink_acknowledges_what_is_on_its_disk_alone() -> None:
    node = Node(2)
    node.give(SinkIs(able=True))
    key = batch().key
    assert node.hear(4, batch(sink=2)) == [Store(key, ONE)]
    assert node.hear(4, batch(sink=2)) == []  # again, while it is stored
    assert node.give(StoreEnded(key, ok=False)) == []
    assert node.hear(4, batch(sink=2)) == [Store(key, ONE)]
    assert node.give(StoreEnded(key)) == [(4, Stored(key, 1))]
    assert node.give(StoreEnded(key)) == []


def test_the_records_of_a_sink_need_no_link() -> None:
    node = Node(1)
    node.give(SinkIs(able=True))
    assert node.give(Spooled()) == [Take()]
    (store,) = node.give(Taken(LIFE, 1, ONE))
    assert store == Store(Key(1, LIFE, 1, 1), ONE)
    assert node.give(StoreEnded(store.key)) == [Take(store.key)]


def test_a_sink_holds_a_bounded_number_of_batches() -> None:
    node = Node(2)
    node.give(SinkIs(able=True))
    for first in range(1, bounds.STORING_MAX + 4):
        node.hear(4, batch(sink=2, first=first))
    assert node.ledger.sizes["ledger storing"] == bounds.STORING_MAX
    assert node.ledger.dropped["ledger sink busy"] == 3


def test_an_edge_of_a_former_neighbour_leads_to_no_sink_and_acknowledges_nothing() -> None:
    node = Node(2)
    node.hear(4, Sinks((4,)))
    node.hear(1, Sinks((1,)))
    node.give(Spooled())
    node.give(Taken(LIFE, 1, ONE))
    node.tree._stage.leaders[4] = 3
    assert node.hear(4, Stored(Key(2, LIFE, 1, 1))) == []
    assert node.hear(4, Stored(Key(5, LIFE, 1, 1))) == []
    assert node.ledger.dropped == {"ledger not a neighbour": 2}
    assert (1, Sinks(())) in node.hear(4, Sinks((4, 9)))
    node.tree._stage.leaders[2] = 3
    assert node.hear(1, Stored(Key(2, LIFE, 1, 1))) == [Take(Key(2, LIFE, 1, 1))]  # the batch went there


def test_a_stranger_acknowledges_nothing() -> None:
    node = Node(4)
    node.hear(2, Sinks((5,)))
    node.give(Spooled())
    node.give(Taken(LIFE, 1, ONE))
    node.give(Opened("call", 9, Role.CALLER, 1))
    assert node.give(Arrived("call", encode(1, 0, Stored(batch().key)))) == []
    assert node.ledger.dropped == {"ledger not a neighbour": 1}


def test_a_stranger_tells_of_no_sinks() -> None:
    node = Node(2)
    node.give(Opened("call", 9, Role.CALLER, 1))
    assert node.give(Arrived("call", encode(1, 0, Sinks((9,))))) == []
    assert node.ledger.dropped == {"ledger not a neighbour": 1}


def test_a_batch_fits_a_frame_and_has_at_least_one_record() -> None:
    largest = Record("k" * bounds.KIND_CHARS_MAX, bytes(bounds.RECORD_BYTES_MAX))
    small = Record("k", b"")
    for records in ([largest] * 9, [small] * 3000, [largest]):
        count = fitting(records)
        assert 1 <= count <= len(records)
        frame = encode(1, 1, Batch((1 << 40), (1 << 40), LIFE, 1, tuple(records[:count])))
        open_envelope(frame)  # no longer than a frame
    assert fitting([]) == 0
    assert has_room(0, small.cost_bytes, [small])
    assert not has_room(1, small.cost_bytes, [small])


@pytest.mark.parametrize(
    "body",
    [
        [32],
        [32, 0, 1, 1, 1, [["k", b""]]],  # no position
        [32, 1, 1, 1, 0, [["k", b""]]],  # sequences begin at 1
        [32, 1, 1, 1, 1, []],
        [32, 1, 1, 1, 1, [["", b""]]],
        [32, 1, 1, 1, 1, [["k", bytes(bounds.RECORD_BYTES_MAX + 1)]]],
        [32, 1, 1, 1, 1, [["k", b""]], bounds.HOPS_MAX + 1],
        [33, [1, 1, 1, 0]],
        [34, [1] * (bounds.SINKS_MAX + 1)],
        [35],
    ],
)
def test_a_body_beyond_its_bounds_is_unreadable(body: list[Any]) -> None:
    node = Node(2)
    assert node.give(Arrived(4, msgpack.encode([1, 0, body]))) == []
    assert node.engine.dropped == {"unreadable": 1}


@pytest.mark.parametrize("kind", ["k\0", "k\n", "\x1bk", "\x7f", "k\x9f"])
def test_a_kind_has_no_control_characters(kind: str) -> None:
    node = Node(2)
    node.hear(1, Sinks((1,)))
    assert node.hear(4, Batch(1, 4, LIFE, 1, (Record(kind, b""),))) == []
    assert node.engine.dropped["unreadable"] == 1
