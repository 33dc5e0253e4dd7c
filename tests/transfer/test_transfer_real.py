"""Two real cells of Grid Engine: methods, settings and cells, with a stand-in for the agents between them."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

sys.path.insert(0, str(Path(__file__).parents[2] / "netns-lab"))
from netlab.transfer import cells as labs
from netlab.transfer import site as sites
from netlab.transfer.cells import Cell
from netlab.transfer.stand_in import StandIn

from subord.services.batch.gridengine.adapter import ENVIRONMENT
from subord.services.batch.records import Done, Refused, Unavailable
from subord.services.batch.running import Commands
from subord.services.transfer import answering
from subord.services.transfer.cells import interface
from subord.services.transfer.cells.choosing import cell_of
from subord.services.transfer.cells.gridengine import setup
from subord.services.transfer.cells.gridengine.settings import Settings
from subord.services.transfer.jobs import Key, Spec

pytestmark = pytest.mark.slow
WAIT_S_MAX = 180.0
QUEUE = "transfer"
NOTHING = Done(is_changed=False)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cell, Cell]]:
    """Jobs go from the first to the second."""
    if packages := labs.missing():
        pytest.skip(f"a program is missing: apt-get install {' '.join(packages)}")
    if reason := sites.obstacle():
        pytest.skip(reason)
    with labs.running() as (home, away):
        yield home, away


def settings_of(cell: Cell) -> Settings:
    return labs.settings(cell, queue=QUEUE, slots=20, threshold=5, sensor_s=2)


def commands_of(cell: Cell) -> Commands:
    return Commands({**ENVIRONMENT, **cell.environment}, cell.enter)


def interface_of(cell: Cell) -> interface.Cell:
    return cell_of("gridengine", (QUEUE,), cell.environment, cell.enter)


async def call(function: Callable[..., Any], *arguments: Any) -> Any:
    return await trio.to_thread.run_sync(function, *arguments)


async def until(condition: Callable[[], Awaitable[object]], what: Callable[[], object]) -> None:
    with trio.move_on_after(WAIT_S_MAX):
        while not await condition():  # noqa: ASYNC110 - other processes make it true
            await trio.sleep(0.3)
        return
    pytest.fail(f"it never happened: {what()}")


class World:
    """Both cells, with a stand-in at the home of jobs."""

    def __init__(self, home: Cell, away: Cell, agent: StandIn) -> None:
        self.home, self.away, self.agent = home, away, agent

    async def submit(self, script: str, *options: str, queue: str = QUEUE) -> str:
        words = ("qsub", "-terse", "-cwd", "-j", "y", *(["-q", queue] if queue else []), *options)
        said: str = await call(lambda: self.home.run(*words, user="ann", given=f"{script}\n"))
        return said.strip().partition(".")[0]

    async def ended(self, *jobs: str, runs: int = 1) -> dict[str, list[dict[str, str]]]:
        """The runs of each job at home, as soon as all have ended. `runs`: so many of each, at least: the accounting
        lags."""
        found: dict[str, list[dict[str, str]]] = {}

        async def have() -> bool:
            waiting = {line[0] for line in await call(self.home.engine.lines)}
            if waiting & set(jobs):
                return False
            found.clear()
            for run in await call(self.home.engine.ended):
                if run["jobnumber"] in jobs:
                    found.setdefault(run["jobnumber"], []).append(run)
            return len(found) == len(set(jobs)) and all(len(each) >= runs for each in found.values())

        await until(have, lambda: found)
        return found

    async def states(self, cell: Cell) -> dict[str, str]:
        return {line[0]: line[4] for line in await call(cell.engine.lines)}

    async def see(self, cell: Cell, job: str, *states: str) -> None:
        found: list[str] = []

        async def is_so() -> bool:
            found[:] = [(await self.states(cell)).get(job, "gone")]
            return found[0] in states

        await until(is_so, lambda: f"{job} at {cell.name}: {found}")

    async def abroad(self, job: str) -> str:
        """The number that it has in the other cell."""

        async def is_there() -> bool:
            return bool((found := self.agent.jobs.get((job, 0))) and found.id)

        await until(is_there, lambda: self.agent.jobs)
        return self.agent.jobs[job, 0].id


@pytest.fixture(scope="module")
def ready(pair: tuple[Cell, Cell]) -> tuple[Cell, Cell]:
    """With a transfer queue at the home of jobs."""
    home, _ = pair
    assert isinstance(trio.run(setup.set_up, commands_of(home), settings_of(home)), Done)
    home.restart_execd(home.head)  # which then has the sensor
    return pair


@pytest.fixture
async def world(ready: tuple[Cell, Cell]) -> Any:
    async with serving(*ready) as agent:
        yield World(*ready, agent)


@asynccontextmanager
async def serving(home: Cell, away: Cell) -> Any:
    agent = StandIn(home.name, interface_of(home), interface_of(away))
    async with trio.open_nursery() as nursery:
        listener = answering.bound(labs.socket_outside(home))
        await nursery.start(answering.serve, listener, agent)
        await nursery.start(agent.run)
        yield agent
        nursery.cancel_scope.cancel()


# -- settings -----------------------------------------------------------------------------------------------------


async def test_a_cell_is_set_up_once_and_taken_back(pair: tuple[Cell, Cell]) -> None:
    _, cell = pair
    before = await call(lambda: [cell.run("qconf", *each) for each in (("-sc",), ("-sq", "all.q"))])
    commands, own = commands_of(cell), settings_of(cell)
    assert await setup.set_up(commands, own) == Done(is_changed=True)
    assert await setup.set_up(commands, own) == NOTHING
    assert await setup.set_up(commands, own._replace(slots=7)) == Done(is_changed=True)
    assert re.search(r"^slots +7$", await call(lambda: cell.run("qconf", "-sq", QUEUE)), re.MULTILINE)
    refused = await setup.set_up(commands, own._replace(host="elsewhere"))
    assert isinstance(refused, Refused)
    assert "nothing was changed" in refused.reason
    assert await setup.take_away(commands, own) == Done(is_changed=True)
    assert await setup.take_away(commands, own) == NOTHING
    after = await call(lambda: [cell.run("qconf", *each) for each in (("-sc",), ("-sq", "all.q"))])
    assert after == before


# -- jobs ---------------------------------------------------------------------------------------------------------


async def test_statuses_and_signals_return(world: World) -> None:
    statuses = [await world.submit(f"uname -n; exit {number}", "-o", f"out.{number}") for number in range(8)]
    signals = {await world.submit(f"kill -{number} $$", "-o", "/dev/null"): number for number in (9, 11, 15)}
    array = await world.submit('echo "$SGE_TASK_ID $1"; exit $SGE_TASK_ID', "-t", "2-4:2", "-o", "array.$TASK_ID")
    program = await world.submit("", "-b", "y", "-o", "program", "expr", "6", "*", "7")
    ended = await world.ended(*statuses, *signals, program) | await world.ended(array, runs=2)
    for number, job in enumerate(statuses):
        (run,) = ended[job]
        assert (run["qname"], run["exit_status"].split()[0], run["failed"].split()[0]) == (QUEUE, str(number), "0")
        assert (await call(world.home.run, "cat", f"/srv/common/ann/out.{number}")).strip() == "b-run1"
    for job, number in signals.items():
        (run,) = ended[job]
        assert (run["exit_status"].split()[0], run["failed"].split()[0]) == (str(128 + number), "100")
    assert {(run["taskid"], run["exit_status"].split()[0]) for run in ended[array]} == {("2", "2"), ("4", "4")}
    assert (await call(world.home.run, "cat", "/srv/common/ann/array.4")).strip() == "4"
    assert (await call(world.home.run, "cat", "/srv/common/ann/program")).strip() == "42"
    there = {run["account"]: run for run in await call(world.away.engine.ended)}
    assert len([mark for mark in there if mark.startswith("sb.a.")]) == len(statuses) + len(signals) + 3


async def test_suspend_resume_and_delete_follow(world: World) -> None:
    job = await world.submit("exec sleep 1000", "-o", "/dev/null")
    there = await world.abroad(job)
    await world.see(world.away, there, "r")
    await call(world.home.run, "qmod", "-sj", job)
    await world.see(world.away, there, "s")
    await call(world.home.run, "qmod", "-usj", job)
    await world.see(world.away, there, "r")
    await call(lambda: world.home.run("qdel", job, user="ann"))
    await world.see(world.away, there, "gone")
    ((run,),) = (await world.ended(job)).values()
    assert (run["exit_status"].split()[0], run["failed"].split()[0]) == ("137", "100")


async def test_a_bound_job_goes_on_and_is_not_started_again(world: World) -> None:
    """As when its host has died, and the batch system puts it back."""
    own = interface_of(world.home)
    job = await world.submit("exec sleep 1000", "-o", "/dev/null", "-r", "y")
    there = await world.abroad(job)
    for _ in range(2):
        assert await own.bind([(job, 0), ("9999", 0)]) is None
    await world.see(world.home, job, "hr")
    await world.see(world.away, there, "r")
    look = await own.look()
    assert isinstance(look, interface.Look)
    (leaving,) = look.leaving
    assert (leaving.job, leaving.task, look.bound) == (job, 0, ())
    assert leaving.user, "whose it is"
    await call(world.home.run, "qmod", "-rj", job)
    await world.see(world.home, job, "hRq", "hRwq")
    look = await own.look()
    assert isinstance(look, interface.Look)
    assert (look.leaving, look.bound, look.pending) == ((), ((job, 0),), 0)
    look = await interface_of(world.home).look()
    assert isinstance(look, interface.Look)
    assert look.bound == ((job, 0),), "an agent that has begun anew knows it, too"
    await call(world.home.run, "qdel", job)
    assert await own.unbind([(job, 0)]) is None
    await call(world.away.run, "qdel", there)


async def test_a_bad_request_goes_home_for_good(world: World) -> None:
    """It asks for what only its own cell has."""
    complexes = await call(world.home.run, "qconf", "-sc")
    if "local_licence" not in complexes:
        line = "local_licence loclic INT <= YES NO 0 0\n"
        await call(lambda: world.home.run("qconf", "-Mc", "/dev/stdin", given=f"{complexes}{line}"))
        for queue in ("all.q", QUEUE):
            await call(world.home.run, "qconf", "-aattr", "queue", "complex_values", "local_licence=9", queue)
    await call(world.home.run, "qmod", "-d", "all.q")
    job = await world.submit("uname -n", "-l", "local_licence=1", "-o", "bad", queue="")
    await world.see(world.home, job, "Rq", "qw")

    async def is_kept() -> bool:
        return "remote=FALSE" in await call(world.home.run, "qstat", "-j", job)

    await until(is_kept, lambda: "the job is marked")
    await call(world.home.run, "qmod", "-e", "all.q")
    runs = (await world.ended(job, runs=2))[job]
    assert [(run["qname"], run["exit_status"].split()[0]) for run in runs] == [(QUEUE, "99"), ("all.q", "0")]
    assert (await call(world.home.run, "cat", "/srv/common/ann/bad")).strip() == "a-run1"
    stays = await world.submit("uname -n", "-l", "remote=FALSE", "-o", "stays", queue="")
    assert [run["qname"] for run in (await world.ended(stays))[stays]] == ["all.q"]


async def test_a_foreign_job_does_not_leave_again(ready: tuple[Cell, Cell]) -> None:
    cell, _ = ready
    own = interface_of(cell)
    mark = Key("c", "7", 0, time.time_ns() // 1_000_000).mark
    submitted = await own.submit(mark, "ann", Spec(user="x", name="n", script="exit 0\n", output="/dev/null"))
    assert isinstance(submitted, interface.Submitted), submitted
    assert "remote=FALSE" in await call(cell.run, "qstat", "-j", submitted.id)
    described = await own.describe([submitted.id])
    assert not isinstance(described, Unavailable)
    assert isinstance(described[submitted.id], Refused)
    assert await own.act(interface.Deed.DELETE, [submitted.id]) is None


async def test_a_method_waits_for_an_agent_that_is_started_again(ready: tuple[Cell, Cell]) -> None:
    home, away = ready
    async with serving(home, away) as agent:
        world = World(home, away, agent)
        job = await world.submit("sleep 4; exit 6", "-o", "/dev/null")
        await world.abroad(job)
        jobs = agent.jobs
    async with serving(home, away) as agent:
        agent.jobs.update(jobs)  # as from its disk
        ((run,),) = (await World(home, away, agent).ended(job)).values()
        assert run["exit_status"].split()[0] == "6"


@pytest.mark.long
async def test_a_burst_is_metered_by_the_slots(world: World) -> None:
    """The sensor cannot: all are dispatched in one run of the scheduler."""
    world.agent.pending = 0
    array = await world.submit("sleep 1; exit $((SGE_TASK_ID % 8))", "-t", "1-100", "-o", "/dev/null")
    ended = await world.ended(array, runs=100)
    statuses = {int(run["taskid"]): int(run["exit_status"].split()[0]) for run in ended[array]}
    assert statuses == {task: task % 8 for task in range(1, 101)}
    assert 4 < world.agent.most <= settings_of(world.home).slots
    assert all(job.is_told for job in world.agent.jobs.values())


async def test_five_waiting_jobs_alarm_at_five(world: World) -> None:
    states: list[str] = []

    async def is_alarmed() -> bool:
        lines = (await call(world.home.run, "qstat", "-f", "-q", QUEUE)).splitlines()
        states[:] = [line.split()[-1] for line in lines if line.startswith(QUEUE)]
        return states == ["a"]

    async def is_open() -> bool:
        await is_alarmed()
        return states == ["lx-amd64"]

    world.agent.pending = 4
    await until(is_open, lambda: states)
    world.agent.pending = 5
    await until(is_alarmed, lambda: states)
    world.agent.pending = 4
    await until(is_open, lambda: states)
