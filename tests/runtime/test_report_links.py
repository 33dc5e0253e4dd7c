"""Reports on streams: two drivers, from the record of a service to the fold of its leader, with credits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from conditions import until

from subord.core.address.network import Network
from subord.core.carriage.engine.interface import Lane, Role
from subord.core.carriage.engine.lanes import CREDITS
from subord.core.carriage.engine.ranges import NONE, Ranges
from subord.core.carriage.engine.tree import Split
from subord.core.carriage.reports.algebra import Count, Latest
from subord.core.node import Node
from subord.core.settings import Settings
from subord.core.view import Position
from subord.runtime.counters import Counters
from subord.runtime.frames import Frames, Sender
from subord.runtime.orders.driver import OrderDriver

SERVICES = 20
ADDRESSES = {1: "10.0.0.1", 2: "10.0.0.2"}


class Tree:
    """Node 2 below node 1, as each sees it."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self.leader = 1 if position > 1 else None

    def branches(self) -> Mapping[Position, int]:
        return {2: 1} if self.position == 1 else {}

    def listed(self, via: Position, nodes: Ranges) -> Ranges:
        return nodes & Ranges.of((via,))


class End:
    """One node with its driver."""

    def __init__(self, position: Position) -> None:
        settings = Settings(network=Network.parse("10.0.0.0/24"))
        node = Node(settings, position, 1000 * position, Random(position), trio.current_time())
        self.counters = Counters()
        self.driver = OrderDriver(node, self.counters, {})
        tree: Any = Tree(position)
        self.driver.reports._tree = tree

    async def hold(self, stream: trio.SocketStream, peer: str, role: Role) -> None:
        """One end of the edge, until it closes."""
        async with trio.open_nursery() as nursery:
            link = self.driver.begin(Sender(stream, peer), role, nursery)
            await self.driver._read(link, Frames(stream))
            self.driver.end(link.name)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def edge() -> AsyncIterator[tuple[End, End, trio.SocketStream]]:
    """A leader, its subordinate, and the stream between them."""
    leader, subordinate = End(1), End(2)
    above, below = (trio.SocketStream(each) for each in trio.socket.socketpair())
    async with above, below, trio.open_nursery() as nursery:
        nursery.start_soon(leader.driver.run)
        nursery.start_soon(subordinate.driver.run)
        nursery.start_soon(leader.hold, above, ADDRESSES[2], Role.SUBORDINATE)
        nursery.start_soon(subordinate.hold, below, ADDRESSES[1], Role.LEADER)
        yield leader, subordinate, below
        nursery.cancel_scope.cancel()


def count_of(end: End) -> int:
    nodes: Any = end.driver.folded("load").record.get("nodes", Count())
    return int(nodes.value)


async def test_a_record_reaches_the_leader_and_ends_with_the_stream() -> None:
    async with edge() as (leader, subordinate, stream):
        leader.driver.publish("load", {"nodes": Count(1)}, 1.0)
        subordinate.driver.publish("load", {"nodes": Count(1)}, 1.0)
        await until(lambda: count_of(leader) == 2, "the fold of two nodes")
        assert leader.driver.report_services() == ["load"]
        assert (subordinate.counters.reports_sent, leader.counters.reports_received) == (1, 1)
        assert leader.driver.sizes()["report_records"] == 2
        await stream.aclose()
        await until(lambda: count_of(leader) == 1, "the fold without the subordinate")


async def test_credit_of_reports_comes_back() -> None:
    """Many more bytes than the credit of the lane."""
    record = {f"{each:03}": Latest(1, 2, bytes(250)) for each in range(90)}
    async with edge() as (leader, subordinate, _):
        for number in range(SERVICES):
            subordinate.driver.publish(f"report {number}", record, 1.0)
            if number % 5 == 4:  # less than may wait in the lane
                await until(lambda: len(leader.driver.report_services()) == number + 1, "the reports")  # noqa: B023
        assert leader.driver.sizes()["report_bytes"] > 3 * CREDITS[Lane.REPORT]
        assert not subordinate.counters.dropped["order_lane_full"]


async def test_at_rest_nothing_is_sent() -> None:
    async with edge() as (leader, subordinate, _):
        await until(lambda: all(end.driver._links for end in (leader, subordinate)), "both ends")
        await trio.testing.wait_all_tasks_blocked()
        assert leader.driver.engine.deadline == subordinate.driver.engine.deadline == float("inf")
        assert not leader.counters.reports_received + subordinate.counters.reports_sent


@pytest.mark.parametrize(("is_root", "is_settled"), [(True, True), (True, False), (False, False)])
async def test_a_fold_says_whether_it_is_of_a_root_and_of_a_young_one(is_root: bool, is_settled: bool) -> None:
    driver: Any = End(1).driver
    driver._tree = SimpleNamespace(
        is_root=is_root,
        is_settled=lambda _now: is_settled,
        every=lambda: NONE,
        split=lambda _: Split(True, {}, {}),
    )
    fold = driver.folded("load")
    assert (fold.is_root, fold.is_young) == (is_root, is_root and not is_settled)
