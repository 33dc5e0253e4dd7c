"""Every node finds the root's roster, or says what is missing, within a second."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from subord.api.models.members import RosterDocument
from subord.api.node_api import AskFailure
from subord.api.query.peer import ASK_S_MAX, TreeReport, Walk, ask_root
from subord.api.query.root_query import HOPS_MAX, find_roster
from subord.core.settings import Settings
from subord.core.view import RosterView
from tests.api.fake_node_api import SETTINGS, FakeNode, World


async def search(world: World, position: int, autojump_clock: MockClock) -> TreeReport[RosterDocument]:
    started = trio.current_time()
    found = await find_roster(world.node(position))
    assert trio.current_time() - started <= ASK_S_MAX
    return found


@pytest.mark.parametrize("position", [1, 2, 5, 11])
async def test_from_any_node_it_is_the_roots_roster(position: int, autojump_clock: MockClock) -> None:
    world = World()
    found = await search(world, position, autojump_clock)
    assert (found.complete, found.note, found.report.owner, len(found.report.rows)) == (True, None, "10.0.0.1", 11)
    assert world.asked == ([] if position == 1 else [1])


@pytest.mark.parametrize("how", ["hung", "gone"])
async def test_without_the_root_the_highest_answering_node_is_used(how: str, autojump_clock: MockClock) -> None:
    world = World()
    getattr(world, how).add(1)
    found = await search(world, 11, autojump_clock)
    assert not found.complete
    assert found.report.owner == "10.0.0.2"
    assert found.note == "10.0.0.1 (root) does not answer: this is what 10.0.0.2 knows"


async def test_without_an_answer_the_own_roster_is_used(autojump_clock: MockClock) -> None:
    world = World()
    world.hung |= {1, 2, 5}
    found = await search(world, 11, autojump_clock)
    assert found.report.owner == "10.0.0.11"
    assert found.note == "10.0.0.1 (root) does not answer: this is what 10.0.0.11 knows"


@pytest.mark.parametrize(("position", "asked"), [(2, [1]), (5, [1, 2])])
async def test_the_only_node_to_ask_gets_the_whole_time(
    position: int, asked: list[int], autojump_clock: MockClock
) -> None:
    """A root on a busy machine. With another node to ask, the root gets less than half of the time."""
    world = World()
    world.delays_s = {1: ASK_S_MAX * 0.9}
    found = await search(world, position, autojump_clock)
    assert (found.complete, world.asked) == (position == 2, asked)


async def test_a_former_root_names_the_present_one(autojump_clock: MockClock) -> None:
    world = World({2: None, 3: 2, 4: 2})
    old = world.node(4)
    world.leaders = {1: None, 2: 1, 3: 2, 4: 2}
    view = old.snapshot()

    class FormerRoot(FakeNode):
        def roster(self) -> RosterView:
            return RosterView(owner=4, is_root=False, root=2, leader=2, quiet_s=0.0, rows=())

    assert view.root == 1
    found = await find_roster(FormerRoot(world, 4))
    assert (found.complete, found.report.owner) == (True, "10.0.0.1")
    assert world.asked == [2, 1]


async def test_a_malformed_answer_counts_as_none(autojump_clock: MockClock) -> None:
    world = World()
    world.lying[1] = b'{"rows": 3}'
    found = await search(world, 4, autojump_clock)
    assert (found.complete, found.report.owner) == (False, "10.0.0.2")
    assert found.note is not None
    assert found.note.startswith("10.0.0.1 (root) answers something else than was asked")


async def test_a_node_without_a_root_is_noted(autojump_clock: MockClock) -> None:
    class Seeking(FakeNode):
        def roster(self) -> RosterView:
            return RosterView(owner=5, is_root=False, root=None, leader=None, quiet_s=0.0, rows=())

    world = World({5: None})
    found = await find_roster(Seeking(world, 5))
    assert found.note == "10.0.0.5 knows no root just now: this is what 10.0.0.5 knows"


async def test_a_long_way_up_is_cut(autojump_clock: MockClock) -> None:
    chain: dict[int, int | None] = {1: None} | {n: n - 1 for n in range(2, 60)}
    world = World(chain, Settings(network=SETTINGS.network, fanout=2))
    world.gone |= set(range(1, 59))
    found = await search(world, 59, autojump_clock)
    assert not found.complete
    assert len(world.asked) == HOPS_MAX


async def test_a_failure_names_the_root_that_was_asked(autojump_clock: MockClock) -> None:
    """Another node may have become root before the time of the question was over."""
    world = World()
    world.hung = {1}
    node = world.node(4)

    async def replace_root() -> None:
        await trio.sleep(ASK_S_MAX / 2)
        del world.leaders[1]
        world.leaders.update({2: None, 3: 2})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replace_root)
        found = await ask_root(node, "status", object)
    assert found == AskFailure("10.0.0.1 (root) does not answer")


async def test_a_walk_leaves_time_for_the_next_node(autojump_clock: MockClock) -> None:
    world = World()
    world.hung, world.gone, world.lying = {1}, {2}, {4: b"[]"}
    walk = Walk(world.node(9), "10.0.0.1", 1.0)
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.4"):
        assert await walk.ask(address, "roster", RosterDocument, 0.5) is None
    assert trio.current_time() == pytest.approx(0.5)
    assert [(each.reason, each.kind) for each in walk.failures.values()] == [
        ("10.0.0.1 (root) does not answer", "silent"),
        ("10.0.0.2 does not answer", "silent"),
        ("10.0.0.4 answers something else than was asked (does it run this version?)", "unreadable"),
    ]
    assert await walk.ask("10.0.0.3", "roster", RosterDocument, 0.5) is not None
