"""What the manager tells, what it leaves alone, and how it ends."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import elastic_world as worlds
import pytest
import trio
from elastic_stories import HOUR, MINUTE, PLAN, lives, made, managed, plan, serving, until
from elastic_world import BASE, MASTER, Machine, Registered, World, now
from msgspec.structs import replace

from subord.runtime.elastic.state import UNKNOWN
from subord.runtime.record_file import RecordsError
from subord.services.elastic.managing import telling
from subord.services.elastic.managing.advancing import Done, begun, removed
from subord.services.elastic.managing.manager import DECIDED, wrong_kinds
from subord.services.elastic.managing.walking import WORKS_MAX
from subord.services.elastic.managing.working import Cluster, Working
from subord.services.elastic.stages import Record, Stage


def whys(world: World) -> set[str]:
    return {why for state in world.states for why in state.why}


async def test_under_a_trial_it_is_decided_and_nothing_is_done(autojump_clock: Any) -> None:
    world = World(max_nodes=1)

    async def story() -> None:
        world.submit(3, lasts_s=400)
        await until(lambda: any("1 node is added" in why for why in whys(world)), 3 * MINUTE)
        await until(lambda: not world.tasks, 20 * MINUTE)
        assert world.states[-1].is_trial
        assert (world.disk.records, world.launched, world.table) == ({}, [], {})
        assert world.disk.counted.added == 0

    await managed(world, story, replace(plan(), is_trial=True))


async def test_a_trial_leaves_records_as_they_are(autojump_clock: Any) -> None:
    world = World()
    kept = Record(name="node001", number=1, kind="", slots=2, stage=Stage.STARTING, entered_at=BASE, began_at=BASE)
    world.disk.put(kept)

    async def story() -> None:
        await trio.sleep(30 * MINUTE)
        assert world.disk.records == {"node001": kept}
        assert [node.stage for node in world.states[-1].nodes] == ["starting", ""]
        assert world.states[-1].size == 2

    await managed(world, story, replace(plan(), is_trial=True))


async def test_nodes_that_only_the_supplier_knows_are_named_and_count(autojump_clock: Any) -> None:
    """Those of another prefix are of another cluster."""
    world = World()
    for name in ("node007", "other001"):
        world.machines[name] = Machine(name, f"10.9.9.{len(name)}", "", now(), now())

    async def story() -> None:
        world.submit(9, lasts_s=900)
        await until(lambda: world.disk.records, 5 * MINUTE)
        assert list(world.disk.records) == ["node008"]
        state = world.states[0]
        assert state.size == 2
        assert state.why[0].startswith("node007 (10.9.9.7) is paid for and unknown: the supplier lists it")
        (unknown,) = [each for each in state.nodes if each.stage == UNKNOWN]
        assert (unknown.name, unknown.address) == ("node007", "10.9.9.7")
        await until(lambda: serving(world), 5 * MINUTE)
        assert "other001" not in "".join(whys(world))
        await trio.sleep(10 * MINUTE)
        assert len(world.launched) == 1, "at most 3 nodes, one of which is the unknown one"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        nursery.start_soon(lives, world, plan(max_nodes=3))
        await story()
        nursery.cancel_scope.cancel()


async def test_what_is_decided_is_logged_once_for_each_change(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The next poll decides anew, so a state shows a change for one poll at most."""
    world = World()
    caplog.set_level("INFO")

    async def story() -> None:
        world.submit(9, lasts_s=900)
        await until(lambda: serving(world), 60 * MINUTE)
        await until(lambda: not world.disk.records, 300 * MINUTE)

    await managed(world, story, plan(max_nodes=2))
    added, gone = [line for line in caplog.messages if line.startswith(DECIDED)]
    assert added.startswith(f"{DECIDED}1 node is added: the oldest job has waited ")
    assert gone.endswith("; 1 node is removed: no job waits, and node001 is idle")


async def test_a_cluster_that_cannot_grow_says_since_when(autojump_clock: Any) -> None:
    world = World(max_nodes=2)

    async def story() -> None:
        world.submit(9, lasts_s=900)
        await until(lambda: serving(world), 5 * MINUTE)
        assert world.states[-1].blocked_since == 0
        await until(lambda: world.states[-1].blocked_since, 5 * MINUTE)
        since = world.states[-1].blocked_since
        await trio.sleep(3 * MINUTE)
        assert world.states[-1].blocked_since == since
        assert world.states[-1].why[-1].endswith("nodes are not added: the cluster has its 2 nodes")
        await until(lambda: not world.states[-1].queued, 60 * MINUTE)
        await until(lambda: world.states[-1].blocked_since == 0, 2 * MINUTE)

    await managed(world, story, plan(max_nodes=2))


async def test_starts_that_fail_are_told(autojump_clock: Any) -> None:
    world = World()
    world.down_until["supplier"] = BASE + 20 * MINUTE
    world.has_list = False

    async def story() -> None:
        world.submit(3, lasts_s=3000)
        await until(lambda: world.states and world.states[-1].blocked_since, 5 * MINUTE)
        node = world.states[-1].nodes[0]
        assert (node.name, node.stage, node.fault) == ("node001", "starting", "the supplier does not answer")
        await until(lambda: any(why.startswith("the last node was not added: node001") for why in whys(world)), 900)
        await until(lambda: serving(world), 30 * MINUTE)
        await until(lambda: not world.states[-1].blocked_since, 2 * MINUTE)
        assert world.states[-1].undone >= 1

    await managed(world, story, plan())


@pytest.mark.slow
async def test_nodes_that_never_come_up_are_begun_ever_more_seldom(autojump_clock: Any) -> None:
    """Each is paid for."""
    world = World(boot_s=1e9, max_nodes=4)

    async def story() -> None:
        world.submit(9, lasts_s=1e9)
        await trio.sleep(8 * HOUR)
        assert world.states[-1].undone == len(world.stopped)
        assert 10 <= len(world.launched) <= 30, "two an hour, not all the time"
        soon = r"\d nodes? (is|are) not added: the last nodes could not be added, so the next one is begun in \d+ s"
        assert any(re.fullmatch(soon, why) for why in whys(world))
        assert world.states[-1].blocked_since

    await managed(world, story, plan(max_nodes=4, interval_s=300))


async def test_the_cluster_ends_with_its_master_if_that_is_asked_for(autojump_clock: Any) -> None:
    world = World()
    ordered = plan(kill_cluster=True, idle_min=None, kill_after_min=1)

    async def story() -> None:
        world.submit(3, lasts_s=300)
        await until(lambda: world.machines, 3 * MINUTE)
        await until(lambda: world.is_master_ended, 60 * MINUTE)
        assert not world.tasks
        assert not world.machines
        await until(lambda: "the supplier was told to end master, the last node" in world.states[-1].why, 5)

    await managed(world, story, ordered)


@pytest.mark.parametrize("why", ["held", "unknown", "list", "batch"])
async def test_the_master_stays_while_anything_is_left(why: str, autojump_clock: Any) -> None:
    world = World()
    ordered = plan(kill_cluster=True, idle_min=None, kill_after_min=0)
    if why == "held":
        world.submit(1, slots=99)
        world.is_held = True
    elif why == "unknown":
        world.machines["node005"] = Machine("node005", "10.9.9.9", "", now(), now())
    else:
        world.down_until[why] = BASE + 30 * MINUTE

    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.tick)
        nursery.start_soon(lives, world, ordered)
        await trio.sleep(20 * MINUTE)
        assert not world.is_master_ended
        nursery.cancel_scope.cancel()


async def test_works_under_way_end_when_the_manager_is_to_end(autojump_clock: Any) -> None:
    """The supplier has started a node, and its address is on the disk."""
    world = World()
    scope = trio.CancelScope()
    manager = made(world, plan(), lambda *_: scope.cancel())
    async with trio.open_nursery() as nursery:
        world.submit(3)
        nursery.start_soon(world.tick)
        with scope:
            await manager.run()
        assert world.disk.records["node001"].stage == Stage.JOINING
        assert world.disk.records["node001"].address == world.machines["node001"].address
        assert abs((world.disk.records["node001"].paid_since or 0) - world.machines["node001"].started) < 1
        nursery.cancel_scope.cancel()


async def _cancel_at_launch(world: World, scope: trio.CancelScope) -> None:
    await until(lambda: world.disk.records, 5 * MINUTE)
    scope.cancel()


async def test_a_work_that_hangs_does_not_hold_up_the_end(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*_: str) -> None:
        await trio.sleep(HOUR)

    monkeypatch.setattr(worlds.Clouds, "start", hangs)
    world = World()
    manager = made(world, plan())
    async with trio.open_nursery() as nursery:
        world.submit(3)
        nursery.start_soon(world.tick)
        scope = trio.CancelScope()
        nursery.start_soon(_cancel_at_launch, world, scope)
        with scope:
            await manager.run()
        await until(lambda: True, 1)
        began = world.disk.records["node001"].began_at
        assert now() - began < 10
        assert world.disk.records["node001"].stage == Stage.STARTING
        nursery.cancel_scope.cancel()


async def test_records_that_cannot_be_written_are_a_fault_and_nothing_is_begun(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    put = worlds.Writing.put

    def fails(self: worlds.Writing, *records: Record, **options: Any) -> None:
        if now() < BASE + 5 * MINUTE:
            raise RecordsError("the disk is full")
        put(self, *records, **options)

    monkeypatch.setattr(worlds.Writing, "put", fails)

    async def story() -> None:
        world.submit(3, lasts_s=1500)
        await until(lambda: world.states and world.states[-1].fault == "the disk is full", 3 * MINUTE)
        assert world.launched == []
        await until(lambda: serving(world), 8 * MINUTE)
        await until(lambda: world.states[-1].fault == "", 2 * MINUTE)

    await managed(world, story, plan())


async def test_a_fault_of_ours_ends_nothing(autojump_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: Any) -> str:
        if now() < BASE + 4 * MINUTE:
            raise ZeroDivisionError
        return ""

    monkeypatch.setattr(worlds.Crowd, "joined", fails)
    world = World()

    async def story() -> None:
        world.submit(3, lasts_s=1500)
        await until(lambda: world.states and any(node.fault for node in world.states[-1].nodes), 3 * MINUTE)
        assert "ZeroDivisionError" in next(node.fault for node in world.states[-1].nodes if node.fault)
        await until(lambda: serving(world), 8 * MINUTE)

    await managed(world, story, plan())


async def test_names_of_nodes_that_are_coming_are_taken(autojump_clock: Any) -> None:
    """Neither the batch system nor the supplier tells of them."""
    world = World(boot_s=500, has_list=False)

    async def story() -> None:
        world.submit(30, lasts_s=4000)
        await until(lambda: len(world.launched) == 2, 10 * MINUTE)
        assert world.launched == ["node001", "node002"]
        assert {each.stage for each in world.disk.records.values()} == {Stage.JOINING}

    await managed(world, story, plan())


@pytest.mark.parametrize("seed", range(3))
async def test_a_node_that_comes_while_the_poll_asks_is_counted_once(seed: int, autojump_clock: Any) -> None:
    world = World(seed=seed, max_nodes=6, min_nodes=6, history_s=4)

    async def story() -> None:
        await until(lambda: len(serving(world)) == 5, 20 * MINUTE)
        await trio.sleep(2 * MINUTE)
        assert len(world.launched) == 5

    await managed(world, story, plan(max_nodes=6, min_nodes=6, add_nodes_per_iter=2, interval_s=5))


@pytest.mark.parametrize("why", ["undone", "lost"])
async def test_a_node_that_could_not_be_added_or_is_lost_serves_no_more(why: str, autojump_clock: Any) -> None:
    """Though it has come up meanwhile, and jobs wait. It is drained and removed when its job has ended."""
    world = World()
    machine = Machine("node001", "10.0.0.9", "", now(), now(), has_users=True, has_mounts=True, has_daemon=True)
    world.machines["node001"], world.hosts["node001"] = machine, Registered(2)
    world.table, world.exports = {"node001": "10.0.0.9"}, {"10.0.0.9"}
    record = removed(begun("node001", 1, "", 2, BASE), BASE, why, is_undone=why == "undone", is_lost=why == "lost")
    world.disk.put(replace(record, address="10.0.0.9", paid_since=BASE))
    world.submit(4, lasts_s=500)
    world.step()

    async def story() -> None:
        world.submit(9, lasts_s=100)
        await trio.sleep(2 * MINUTE)
        assert world.disk.records["node001"].fault == "jobs 3, 4 are there; the node is removed when they have ended"
        await until(lambda: world.stopped == ["node001"], 9 * MINUTE)

    await managed(world, story, plan(max_nodes=2))


async def test_a_node_ends_before_all_others_are_drained(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is paid for until then."""
    world, works = World(), list[Stage]()
    for number in range(1, 41):
        name = f"node{number:03}"
        world.disk.put(removed(begun(name, number, "", 2, BASE), BASE, "it is idle"))

    async def work(_: Working, record: Record) -> Done:
        works.append(record.stage)
        await trio.sleep(1)
        return Done()

    monkeypatch.setattr(Working, "work", work)

    async def story() -> None:
        await until(lambda: not world.disk.records, 5 * MINUTE)
        assert works[: works.index(Stage.STOPPING)].count(Stage.DRAINING) == WORKS_MAX

    await managed(world, story, plan())


async def test_a_plan_without_mounts_ends_the_exports_of_the_one_before(autojump_clock: Any) -> None:
    world = World()
    world.machines["node001"] = Machine("node001", "10.0.0.9", "", now(), now())
    world.exports = {"10.0.0.9"}
    record = removed(begun("node001", 1, "", 2, BASE), BASE, "idle")
    world.disk.put(replace(record, address="10.0.0.9", paid_since=BASE))

    async def story() -> None:
        await until(lambda: world.stopped == ["node001"], 2 * MINUTE)
        assert not world.exports

    await managed(world, story, replace(plan(), mounts=(), users=()))


async def test_the_effect_of_a_change_is_looked_at_after_a_restart_as_well(autojump_clock: Any) -> None:
    world = World()
    times = []

    async def story() -> None:
        world.submit(3, lasts_s=400)
        await until(lambda: serving(world), 5 * MINUTE)
        times.append(now())
        world.submit(20, lasts_s=4000)
        world.deadly = 1
        await trio.sleep(2 * MINUTE)
        world.deadly = 0
        await until(lambda: len(world.launched) == 2, 20 * MINUTE)
        assert 300 < now() - times[0] < 300 + 2 * MINUTE

    await managed(world, story, plan(max_nodes=20))


async def test_a_host_that_the_batch_system_has_lost_is_registered_again(autojump_clock: Any) -> None:
    """Meanwhile it is paid for, so no other node takes its place."""
    world = World(max_nodes=2)

    async def story() -> None:
        world.submit(30, lasts_s=4000)
        await until(lambda: world.used("node001"), 8 * MINUTE)
        await trio.sleep(6 * MINUTE)
        world.tasks = [each for each in world.tasks if each.host != "node001"]
        del world.hosts["node001"]
        await until(lambda: "node001" in world.hosts and world.is_usable("node001"), 3 * MINUTE)
        assert world.launched == ["node001"]
        await until(lambda: world.states[-1].nodes[0].stage != Stage.REGISTERING, 5)
        assert world.states[-1].added == 1

    await managed(world, story, plan(max_nodes=2))


async def test_nodes_of_the_kind_that_holds_the_largest_task_are_started(autojump_clock: Any) -> None:
    world = World(slots={"small": 2, "large": 16})

    async def story() -> None:
        world.submit(1, slots=10)
        await until(lambda: serving(world), 6 * MINUTE)
        assert {each.kind for each in world.machines.values()} == {"large"}
        await until(lambda: len(world.ended) == 1, 20 * MINUTE)
        await until(lambda: not world.machines, 30 * MINUTE)
        world.submit(4)
        await until(lambda: world.machines, 10 * MINUTE)
        assert {each.kind for each in world.machines.values()} == {"small"}

    await managed(world, story, plan())


async def test_kinds_that_the_configuration_lacks_are_a_fault_of_the_plan(autojump_clock: Any) -> None:
    world = World(slots={"small": 2})

    async def story() -> None:
        world.submit(9)
        await trio.sleep(5 * MINUTE)
        assert world.launched == []
        assert any("kind huge, which elastic.kinds of the queue's node lacks" in why for why in whys(world))

    await managed(world, story, replace(plan(), kinds=("huge",)))
    unused: Any = None
    cluster = Cluster(unused, unused, unused, unused, MASTER, kinds={"small": 2})
    assert wrong_kinds(PLAN, cluster) == wrong_kinds(replace(PLAN, kinds=("small",)), cluster) == ""


async def test_each_poll_has_a_line_of_statistics(autojump_clock: Any) -> None:
    world = World()

    async def story() -> None:
        world.submit(3, lasts_s=100)
        await until(lambda: not world.tasks, 20 * MINUTE)
        await trio.sleep(2 * MINUTE)
        polls = [poll for state in world.states for poll in state.polls]
        times = [poll.time for poll in polls]
        assert times == sorted(set(times))
        assert {round(after - before) for before, after in pairwise(times)} == {60}
        assert polls[1].queued == 1
        assert (polls[1].running, polls[1].num_hosts, polls[1].slots) == (2, 1, 2)
        assert 100 <= polls[-1].avg_duration < 110
        assert polls[-1].avg_wait > 0
        assert polls[-1].avg_load == 0.5

    await managed(world, story, plan())


def test_of_many_nodes_those_with_a_fault_come_first() -> None:
    def record(number: int, stage: Stage = Stage.SERVING, fault: str = "") -> Record:
        name = f"node{number:03}"
        return Record(
            name=name,
            number=number,
            kind="",
            slots=2,
            stage=stage,
            entered_at=1,
            began_at=1,
            fault=fault,
            address="a",
        )

    many = {each.name: each for each in map(record, range(1, 700))}
    many |= {each.name: each for each in (record(800, Stage.JOINING), record(900, Stage.STOPPING, "x" * 999))}
    found = telling.table(many, (), None, MASTER, ())
    assert [node.name for node in found.nodes[:3]] == ["node900", "node800", "node001"]
    assert (len(found.nodes), found.left_out) == (500, 201)
    assert len(found.nodes[0].fault) == 400


def test_more_reasons_than_fit_are_counted() -> None:
    assert telling.sentences(["a"], ["b"]) == ("a", "b")
    many = telling.sentences([str(number) for number in range(50)])
    assert len(many) == 40
    assert many[-1] == "and 11 more reasons"
