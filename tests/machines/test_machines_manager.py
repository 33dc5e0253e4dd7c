"""The loop of the queue's node over simulated servers and a simulated batch system, in the clock of trio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from subord.runtime.machines.state import DONE, MANAGES, REFUSED, TRIAL
from subord.services.batch.records import Refused
from subord.services.machines.managing.batching import CUT
from subord.services.machines.managing.manager import Manager
from subord.services.machines.managing.telling import UNDECIDED
from subord.services.machines.model import Capacity, Job, Machine, State
from subord.services.machines.orders import Clone, Fence, Start
from subord.services.machines.plan import Plan, Type, Waits
from subord.services.machines.servers import Result
from tests.machines.sites import SILENT, Simulated
from tests.machines.world import Computer, Times, Work, World

SMALL = Type(name="small", template="s", queues=("small",), memory_mb=1000, image_mb=1000)
LARGE = Type(name="large", template="l", queues=("large",), cores=4, memory_mb=4000, image_mb=1000, slots=4)
WAITS = Waits(order_s=15, answer_s=25, start_s=100, clone_s=200)
HOLD_S = WAITS.order_s + WAITS.answer_s + 12


def world_of(*machines: Machine, servers: int = 2, **changes: Any) -> World:
    settings: dict[str, Any] = {"types": (SMALL, LARGE), "period_s": 10, "store_mb": 100_000, "waits": WAITS}
    world = World(Plan(manager=1, **(settings | changes)), Times(boot=5, copy=10), Random(1))
    for number in range(servers):
        world.put(Computer(f"10.0.0.{number + 1}", Capacity(8, 16_000, 0, 8), 2000 + 100 * number))
    for machine in machines:
        world.add("10.0.0.1", machine)
    return world


def small(name: str, state: State = State.OFF, **changes: Any) -> Machine:
    return Machine(name, SMALL.need, state, "small", **changes)


def submit(world: World, queue: str = "small", slots: int = 1, lasts: int = 30) -> Work:
    number = len(world.waiting) + len(world.ended)
    work = Work(Job(f"{queue}{number}", queue, slots), queue, number, lasts, world.now)
    world.submit(work)
    return work


@asynccontextmanager
async def running(site: Simulated, *managers: Manager) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(site.play)
        for each in managers:
            nursery.start_soon(each.run)
        yield
        nursery.cancel_scope.cancel()


async def until(is_so: Callable[[], object], within_s: float = 200.0) -> None:
    with trio.fail_after(within_s):
        while not is_so():  # noqa: ASYNC110 - a simulated clock
            await trio.sleep(1)


@pytest.fixture
def clock() -> trio.abc.Clock:
    return trio.testing.MockClock(autojump_threshold=0)


def machine_of(world: World, name: str) -> tuple[str, Machine]:
    found = [(each.name, each.machines[name]) for each in world.servers.values() if name in each.machines]
    assert len(found) == 1, found
    return found[0]


async def test_a_job_gets_a_clone_which_is_a_host_before_it_starts(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of())
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert machine_of(site.world, "small-001")[0] == "10.0.0.2", "the fastest"
        changes = site.batch.changes
        assert changes[:3] == ["add small-001", "close small-001", "open small-001"]
        await until(lambda: "close small-001" in changes[3:])
        state = manager.state()
        assert (state.word, state.version, state.life, state.hindrance, state.fault) == (MANAGES, 1, 1, "", "")
        assert {(each.kind, each.result) for each in state.actions} >= {("clone", DONE), ("open", DONE)}
        assert (state.totals.cloned, state.totals.opened, state.servers_all, state.store) == (1, 1, 2, 1000)
        assert [(each.type, each.on) for each in state.kinds if each.on] == [("small", 1)]


async def test_nothing_is_ordered_before_orders_of_an_earlier_process_are_over(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m")))
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await trio.sleep(WAITS.order_s + WAITS.answer_s - 2)
        assert not site.servers.orders
        assert "the agent of this node has just started" in manager.state().hindrance
        await until(lambda: work.started is not None)
        assert site.now() < HOLD_S + 30


async def test_a_machine_moves_cold_step_by_step_and_starts(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m")))
    async with running(site, site.manager()):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert machine_of(site.world, "m")[0] == "10.0.0.2"
        kinds = [(server, type(order.action).__name__) for server, order in site.servers.orders]
        assert kinds == [
            ("10.0.0.1", "Start"),
            ("10.0.0.2", "Arrive"),
            ("10.0.0.1", "Forget"),
            ("10.0.0.2", "Settle"),
        ]


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("how", ["lost", "unheard", "new process"])
async def test_a_move_that_is_interrupted_at_a_step_goes_on(
    step: int, how: str, clock: trio.testing.MockClock
) -> None:
    """The order or its result is lost, or the process that decides dies and another one goes on."""
    site = Simulated(world_of(small("m"), store_mb=1000))
    done, seen = site.servers.do, 0
    scope = trio.CancelScope()

    async def interrupted(server: str, orders: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen - 1 != step:
            return await done(server, orders)
        if how != "lost":
            await done(server, orders)
        if how == "new process":
            scope.cancel()
        return SILENT

    site.servers.do = interrupted  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(site.play)
        work = submit(site.world)
        with scope:
            nursery.start_soon(run_in, scope, site.manager())
            await until(lambda: work.started is not None)
        if scope.cancelled_caught:
            nursery.start_soon(site.manager(life=2).run)
            await until(lambda: work.started is not None)
        assert machine_of(site.world, "m")[0] == "10.0.0.2"
        assert not machine_of(site.world, "m")[1].came_from
        nursery.cancel_scope.cancel()


async def run_in(scope: trio.CancelScope, manager: Manager) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(manager.run)
        while not scope.cancel_called:  # noqa: ASYNC110 - a simulated clock
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


async def test_the_first_round_tells_what_is_there(clock: trio.testing.MockClock) -> None:
    """Nothing may be decided yet."""
    world = world_of(small("m", State.ON, is_open=True), small("n", State.ON))
    site = Simulated(world)
    manager = site.manager()
    submit(world)
    world.step()
    waiting = [submit(world), submit(world, "large")]
    async with running(site, manager):
        await until(lambda: manager.state().servers_all)
        state = manager.state()
        assert state.hindrance
        assert [(each.type, each.on, each.open, each.busy, each.coming) for each in state.kinds if each.type] == [
            ("small", 2, 1, 1, 0)
        ]
        assert (state.waiting, state.unmet) == (2, 0)
        assert [(each.id, each.why) for each in state.jobs] == [(each.job.id, UNDECIDED) for each in waiting]


async def test_without_a_first_reading_jobs_are_not_known(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m", State.ON)))
    site.batch.fault = "slurmctld does not answer"
    manager = site.manager()
    async with running(site, manager):
        submit(site.world)
        await until(lambda: manager.state().fault)
        assert manager.state().is_unread
        site.batch.fault = ""
        await until(lambda: not manager.state().is_unread)
        assert manager.state().waiting == 1
        site.batch.fault = "slurmctld does not answer"
        await until(lambda: manager.state().fault)
        assert not manager.state().is_unread


async def test_a_server_that_answers_late_keeps_its_busy_machines(clock: trio.testing.MockClock) -> None:
    """The round in which it is first heard of knows what the batch system says of its machines: otherwise they would
    be on for long without it, and be stopped with their jobs."""
    world = world_of(small("m", State.ON, is_open=True))
    site = Simulated(world)
    site.servers.silent.add("10.0.0.1")
    manager = site.manager()
    work = submit(world, lasts=1000)
    async with running(site, manager):
        await until(lambda: site.now() > WAITS.start_s + HOLD_S)
        assert work.started is not None
        site.servers.silent.clear()
        await until(lambda: manager.state().unreachable == 0)
        await trio.sleep(25)
        assert not site.servers.orders


async def test_a_machine_that_cannot_arrive_stays_and_starts_where_it_was(clock: trio.testing.MockClock) -> None:
    world = world_of(small("m"), store_mb=1000)
    world.without_storage.add("10.0.0.2")
    site = Simulated(world)
    manager = site.manager()
    async with running(site, manager):
        work = submit(world)
        await until(lambda: work.started is not None)
        assert machine_of(world, "m")[0] == "10.0.0.1"
        refused = [each for each in manager.state().actions if each.result == REFUSED]
        assert [(each.kind, each.source, each.server) for each in refused] == [("start", "10.0.0.1", "10.0.0.2")]
        assert "no storage pool" in refused[0].reason


async def test_a_server_that_is_silent_is_told_and_not_waited_for(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of())
    site.servers.silent.add("10.0.0.2")
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert machine_of(site.world, "small-001")[0] == "10.0.0.1"
        found = {each.name: each.fault for each in manager.state().servers}
        assert found == {"10.0.0.1": "", "10.0.0.2": SILENT}
        assert manager.state().unreachable == 1


async def test_of_two_processes_the_newer_one_decides(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m")))
    older, newer = site.manager(life=1), site.manager(life=2)
    async with running(site, older, newer):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert "another process decides" in older.state().hindrance
        assert {order.fence for _, order in site.servers.orders} == {Fence(1, 2)}


async def test_without_an_answer_of_the_batch_system_nothing_is_decided(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of())
    site.batch.fault = "slurmctld does not answer: start it"
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await trio.sleep(HOLD_S + 20)
        assert manager.state().fault.startswith("slurmctld does not answer")
        assert not site.servers.orders
        site.batch.fault = ""
        await until(lambda: work.started is not None)
        assert manager.state().fault == ""


async def test_a_host_that_cannot_be_added_holds_up_its_clone_only(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m"), moves=False))
    site.batch.registered.discard("small-001")
    added = site.batch.add

    async def refused(host: Any) -> Any:
        return await added(host) if host.name != "small-001" else Refused("no such name in DNS")

    site.batch.add = refused  # type: ignore[method-assign]
    manager = site.manager()
    async with running(site, manager):
        first, second = submit(site.world), submit(site.world)
        await until(lambda: first.started is not None or second.started is not None)
        refused = {(each.machine, each.reason) for each in manager.state().actions if each.result == REFUSED}
        assert refused == {("small-001", "no such name in DNS")}
        assert "small-001" not in {order.action.machine for _, order in site.servers.orders}


async def test_commands_of_the_batch_system_are_not_given_too_late(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m", State.ON)))
    undrain = site.batch.undrain
    opened = list[str]()

    async def slow(host: str) -> Any:
        opened.append(host)
        await trio.sleep(WAITS.order_s + 5)
        return await undrain(host)

    site.batch.undrain = slow  # type: ignore[method-assign]
    manager = site.manager()
    for number in range(7):
        site.world.add("10.0.0.1", small(f"n{number}", State.ON))
        site.batch.registered.add(f"n{number}")
    async with running(site, manager):
        for _ in range(8):
            submit(site.world)
        await until(lambda: opened)
        await trio.sleep(WAITS.order_s + 6)
        assert manager.state().totals.expired >= 1, "the adapters change four at once"


async def test_a_command_that_hangs_opens_no_machine_when_its_time_is_over(clock: trio.testing.MockClock) -> None:
    """By then the machine may be stopped for other jobs."""
    site = Simulated(world_of(small("m", State.ON), moves=False))
    site.world.up.add("m")
    undrain, opened = site.batch.undrain, list[float]()

    async def slow(host: str) -> Any:
        began = site.now()
        await trio.sleep(WAITS.order_s + 2)
        opened.append(site.now() - began)
        return await undrain(host)

    site.batch.undrain = slow  # type: ignore[method-assign]
    manager = site.manager()
    async with running(site, manager):
        submit(site.world)
        await until(lambda: manager.state().totals.expired)
        await trio.sleep(WAITS.order_s)
        assert not opened
        assert any(CUT in each.reason for each in manager.state().actions)


async def test_a_trial_decides_and_tells_and_changes_nothing(clock: trio.testing.MockClock) -> None:
    world = world_of(small("m"), is_trial=True)
    site = Simulated(world)
    manager = site.manager()
    async with running(site, manager):
        submit(world)
        await trio.sleep(15)
        state = manager.state()
        assert [(each.kind, each.machine, each.result) for each in state.actions] == [("start", "m", TRIAL)]
        assert (state.is_trial, state.hindrance) == (True, ""), "it decides"
        assert state.jobs[0].why.startswith("the machine m starts")
        assert not site.servers.orders
        assert not site.batch.changes


async def test_what_a_server_refuses_is_decided_again_in_the_next_round(clock: trio.testing.MockClock) -> None:
    """A machine that was started by hand meanwhile has taken the room."""
    site = Simulated(world_of(small("m"), moves=False, store_mb=1000))
    manager = site.manager()
    refusals = list[float]()
    done = site.servers.do

    async def full(server: str, orders: Any) -> Any:
        if len(refusals) < 3:
            refusals.append(site.now())
            return (Result("0 of 1 cores are free; nothing was started", is_refused=True),)
        return await done(server, orders)

    site.servers.do = full  # type: ignore[method-assign]
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
    assert all(later - earlier < 11 for earlier, later in pairwise(refusals)), refusals


async def test_a_server_that_fails_to_clone_is_left_for_a_while(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of())
    ask, done = site.servers.ask, site.servers.do
    failed = list[str]()

    async def do(server: str, orders: Any) -> Any:
        clones = [each.action.machine for each in orders if isinstance(each.action, Clone)]
        if server == "10.0.0.2" and clones:
            failed.extend(clones)
            return tuple(Result() for _ in orders)
        return await done(server, orders)

    async def asked(fence: Fence) -> Any:
        answers, missing = await ask(fence)
        faults = dict.fromkeys(failed, "the storage is full; the begun clone was deleted again")
        if "10.0.0.2" in answers:
            answers = {**answers, "10.0.0.2": answers["10.0.0.2"]._replace(faults=faults)}
        return answers, missing

    site.servers.do, site.servers.ask = do, asked  # type: ignore[method-assign]
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert failed == ["small-001"], "it was tried once"
        assert machine_of(site.world, "small-001")[0] == "10.0.0.1"
        assert any("the storage is full" in each for each in manager.state().notes)


async def test_a_machine_that_never_comes_up_does_not_keep_the_only_room(clock: trio.testing.MockClock) -> None:
    """Of two machines that are off the first one does not boot, and there is room for one."""

    class Up(set[str]):
        def add(self, name: str, /) -> None:
            if name != "m":
                super().add(name)

    site = Simulated(world_of(small("m"), small("n"), servers=1, store_mb=2000))
    site.world.up = Up()
    site.world.servers["10.0.0.1"].capacity = Capacity(1, 1000, 0, 8)
    async with running(site, site.manager()):
        work = submit(site.world)
        await until(lambda: work.started is not None, 500)
    started = [each.action.machine for _, each in site.servers.orders if isinstance(each.action, Start)]
    assert started == ["m", "n"]


async def test_a_machine_that_cannot_be_started_comes_after_others(clock: trio.testing.MockClock) -> None:
    """Its image is gone: the order is obeyed, and libvirt fails."""
    site = Simulated(world_of(small("m"), small("n"), store_mb=2000, moves=False))
    ask, done = site.servers.ask, site.servers.do
    failed = list[float]()

    async def do(server: str, orders: Any) -> Any:
        if any(each.action == Start("m", "10.0.0.1") for each in orders):
            failed.append(site.now())
            return tuple(Result() for _ in orders)
        return await done(server, orders)

    async def asked(fence: Fence) -> Any:
        answers, missing = await ask(fence)
        if failed:
            answers = {**answers, "10.0.0.1": answers["10.0.0.1"]._replace(faults={"m": "the image is gone"})}
        return answers, missing

    site.servers.do, site.servers.ask = do, asked  # type: ignore[method-assign]
    async with running(site, site.manager()):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        assert len(failed) == 1, "it was tried once"


@pytest.mark.parametrize("what", ["an order", "a command"])
async def test_a_fault_of_ours_ends_no_manager(clock: trio.testing.MockClock, what: str) -> None:
    site = Simulated(world_of(small("m")))
    do, undrain, failed = site.servers.do, site.batch.undrain, list[str]()

    async def broken_do(server: str, orders: Any) -> Any:
        if what == "an order" and not failed:
            failed.append(what)
            raise ValueError(what)
        return await do(server, orders)

    async def broken_undrain(host: str) -> Any:
        if what == "a command" and not failed:
            failed.append(what)
            raise ValueError(what)
        return await undrain(host)

    site.servers.do, site.batch.undrain = broken_do, broken_undrain  # type: ignore[method-assign]
    async with running(site, site.manager()):
        work = submit(site.world)
        await until(lambda: work.started is not None, 300)
    assert failed == [what]


async def test_jobs_of_other_queues_do_not_count(clock: trio.testing.MockClock) -> None:
    """As those of partitions of Slurm with computers."""
    site = Simulated(world_of())
    manager = site.manager()
    for _ in range(3):
        site.world.waiting.append(Work(Job("9", "computers", 1, 5), "computers", 0, 30, 0))
    async with running(site, manager):
        work = submit(site.world, lasts=1000)
        await until(lambda: manager.state().jobs)
        found = manager.state()
        assert (found.waiting, found.unmet, [each.id for each in found.jobs]) == (1, 0, [work.job.id, "9", "9", "9"])
        assert found.jobs[1].why == "the queue computers has no type of machines in the plan"


async def test_a_machine_is_no_host_any_more_when_it_is_deleted(clock: trio.testing.MockClock) -> None:
    """The store of images has room for one."""
    site = Simulated(world_of(small("m"), store_mb=1000))
    async with running(site, site.manager()):
        work = submit(site.world, "large", 4)
        await until(lambda: work.started is not None)
    assert "remove m" in site.batch.changes
    assert all("m" not in each.machines for each in site.world.servers.values())


async def test_a_silent_server_that_comes_back_is_used_again(clock: trio.testing.MockClock) -> None:
    site = Simulated(world_of(small("m", State.ON), servers=1))
    manager = site.manager()
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
        site.servers.silent.add("10.0.0.1")
        await trio.sleep(WAITS.answer_s + 12)
        assert manager.rounds.hindrance(site.now()).startswith("no server has answered")
        site.servers.silent.clear()
        second = submit(site.world)
        await until(lambda: second.started is not None)


async def test_a_fault_of_ours_ends_nothing(clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture) -> None:
    site = Simulated(world_of(small("m")))
    manager = site.manager()
    done, asked = site.servers.do, site.servers.ask
    faults = [0, 0]

    async def do(server: str, orders: Any) -> Any:
        faults[0] += 1
        if faults[0] == 1:
            raise ValueError("a fault in an order")
        return await done(server, orders)

    async def ask(fence: Fence) -> Any:
        faults[1] += 1
        if faults[1] == 3:
            raise ValueError("a fault in a round")
        return await asked(fence)

    site.servers.do, site.servers.ask = do, ask  # type: ignore[method-assign]
    async with running(site, manager):
        work = submit(site.world)
        await until(lambda: work.started is not None)
    assert "an order has failed" in caplog.text
    assert "a round failed" in caplog.text
