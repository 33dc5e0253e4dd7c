"""One suite for the adapters of both batch systems, against the real ones, each in a room of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
from batch_labs import LONG, MIB, OTHER_QUEUE, QUEUE, SLOTS, Lab, gridengine_lab, slurm_lab

from subord.services.batch.records import (
    Done,
    Fault,
    Finished,
    Host,
    HostState,
    Job,
    JobState,
    NewHost,
    Refused,
    Unavailable,
    oldest_of,
    slots_of,
    tasks_of,
)

pytestmark = pytest.mark.slow
WAIT_S_MAX = 90.0
POLL_S = 0.2
DONE, NOTHING = Done(is_changed=True), Done(is_changed=False)


@pytest.fixture(scope="module", params=[gridengine_lab, slurm_lab], ids=["gridengine", "slurm"])
def served(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """With the hosts of SLOTS, which `add` has registered."""
    with request.param() as lab:

        async def add() -> None:
            for host, slots in SLOTS.items():
                assert isinstance(await lab.adapter.add(NewHost(host, slots)), Done)
                lab.serve(host)
            await come(lab, lambda hosts: sum(each.is_usable for each in hosts.values()) == len(SLOTS))

        trio.run(add)
        yield lab


@pytest.fixture
async def lab(served: Lab) -> Any:
    """Without jobs before and after a test."""
    yield served
    served.cancel(*{job.id for job in await jobs_of(served)})
    await until(lambda: _is_empty(served))


async def _is_empty(lab: Lab) -> bool:
    return not await jobs_of(lab)


async def until(condition: Callable[[], Awaitable[object]], what: object = "") -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not await condition():
        assert time.monotonic() < deadline, str(what)
        await trio.sleep(POLL_S)


async def jobs_of(lab: Lab) -> list[Job]:
    queue = await lab.adapter.queue()
    assert not isinstance(queue, Unavailable), queue
    return list(queue.jobs)


async def hosts_of(lab: Lab) -> dict[str, Host]:
    hosts = await lab.adapter.hosts()
    assert not isinstance(hosts, Unavailable), hosts
    return {each.name: each for each in hosts}


async def come(lab: Lab, condition: Callable[[dict[str, Host]], bool]) -> dict[str, Host]:
    """The hosts, as soon as they are so."""
    last: list[dict[str, Host]] = []

    async def are() -> bool:
        last[:] = [await hosts_of(lab)]
        return condition(last[0])

    await until(are, last)
    return last[0]


async def see(lab: Lab, condition: Callable[[dict[str, list[Job]]], bool]) -> dict[str, list[Job]]:
    """The records of each job, as soon as they are so."""
    last: list[dict[str, list[Job]]] = [{}]

    async def are() -> bool:
        found: dict[str, list[Job]] = {}
        for job in await jobs_of(lab):
            found.setdefault(job.id, []).append(job)
        last[:] = [found]
        return condition(found)

    await until(are, last)
    return last[0]


def states(jobs: list[Job]) -> list[JobState]:
    return [each.state for each in jobs]


# -- answers ----------------------------------------------------------------------------------------------------


async def test_hosts_have_slots_of_their_own(lab: Lab) -> None:
    hosts = await hosts_of(lab)
    assert {each.name: each.slots for each in hosts.values()} == SLOTS
    for each in hosts.values():
        assert (each.state, each.is_usable, each.used, each.busy) == (HostState.UP, True, 0, 0)
        assert each.load is None or each.load >= 0
        assert each.cpus
        assert each.memory


async def test_jobs_are_counted_by_slots_and_tasks(lab: Lab) -> None:
    begin = time.time()
    wide = lab.submit(LONG, slots=5)
    await see(lab, lambda jobs: states(jobs.get(wide, [])) == [JobState.RUNNING])
    array = lab.submit(LONG, tasks="1-9:2")
    held = lab.submit(LONG, is_held=True)
    late = lab.submit_later()
    wanted = [JobState.QUEUED] * 4 + [JobState.RUNNING]
    jobs = await see(lab, lambda jobs: sorted(states(jobs.get(array, [])), key=str) == wanted)
    big = lab.submit(LONG, slots=3)
    jobs = await see(lab, lambda jobs: {big, held, late} <= jobs.keys())
    ((first,),) = (jobs[wide],)
    assert (first.slots, {each.host for each in first.places}) == (5, set(SLOTS))
    assert sum(each.slots for each in first.places) == 5
    assert first.host in SLOTS
    assert sorted(each.task or 0 for each in jobs[array]) == [1, 3, 5, 7, 9]
    assert (states(jobs[held]), states(jobs[late]), states(jobs[big])) == (
        [JobState.HELD],
        [JobState.HELD],
        [JobState.QUEUED],
    )
    queued = [job for each in jobs.values() for job in each if job.state == JobState.QUEUED]
    assert (tasks_of(queued), slots_of(queued)) == (5, 7)
    assert all(job.may_use(QUEUE) and not job.may_use(OTHER_QUEUE) for job in queued)
    oldest = oldest_of(queued)
    assert oldest is not None
    assert begin - 2 <= oldest <= time.time()
    for job in jobs[array]:
        assert job.owner == "ann"
        assert job.name.startswith("a")
        assert (job.started is None) == (job.state == JobState.QUEUED)
    hosts = await hosts_of(lab)
    assert {each.name: each.used for each in hosts.values()} == SLOTS


async def test_an_array_of_many_tasks(lab: Lab) -> None:
    """Slurm names odd tasks in full only when told to."""
    tasks = ",".join(str(each) for each in range(1, 401, 3)) if lab.has_reasons else "1-400:3"
    array = lab.submit(LONG, tasks=tasks, is_held=True)
    jobs = await see(lab, lambda jobs: array in jobs)
    assert [each.task for each in jobs[array]] == list(range(1, 401, 3))
    assert set(states(jobs[array])) == {JobState.HELD}


async def test_jobs_of_another_queue(lab: Lab) -> None:
    """No job starts there."""
    job = lab.submit(LONG, queue=OTHER_QUEUE)
    jobs = await see(lab, lambda jobs: job in jobs)
    assert jobs[job][0].may_use(OTHER_QUEUE)
    assert not jobs[job][0].may_use(QUEUE)


async def test_a_job_in_error(lab: Lab) -> None:
    job = lab.fail()
    await see(lab, lambda jobs: states(jobs.get(job, [])) == [JobState.ERROR])


async def test_history(lab: Lab) -> None:
    begin = time.time()
    good = lab.submit("exit 0")
    bad = lab.submit("exit 3", slots=2)
    killed = lab.submit("kill -KILL $$")
    array = lab.submit("exit 0", tasks="4-5")
    wanted = {(good, None), (bad, None), (killed, None), (array, 4), (array, 5)}
    found: dict[tuple[str, int | None], Finished] = {}

    async def all_are_there() -> bool:
        history = await lab.adapter.history(begin - 60)
        assert not isinstance(history, Unavailable), history
        assert history.since >= begin - 60
        assert list(history.jobs) == sorted(history.jobs, key=lambda each: each.ended)
        found.update({(each.id, each.task): each for each in history.jobs})
        return wanted <= found.keys()

    await until(all_are_there, found)
    mine = {each: found[each] for each in wanted}
    assert {each.status for each in mine.values() if each.id in (good, array)} == {0}
    assert (found[bad, None].status, found[bad, None].signal, found[bad, None].slots) == (3, 0, 2)
    assert (found[killed, None].status, found[killed, None].signal) == (137, 9)
    for each in mine.values():
        assert each.started is not None
        assert begin - 2 <= each.submitted <= each.started <= each.ended <= time.time() + 1
        assert (each.owner, each.queue, each.host in SLOTS) == ("ann", QUEUE, True)
    later = await lab.adapter.history(time.time() + 3600)
    assert not isinstance(later, Unavailable)
    assert later.jobs == ()


# -- effects ----------------------------------------------------------------------------------------------------


async def test_no_job_starts_on_a_drained_host(lab: Lab) -> None:
    running = lab.submit(LONG, slots=6)
    await see(lab, lambda jobs: states(jobs.get(running, [])) == [JobState.RUNNING])
    assert [await lab.adapter.drain("h1", "no longer wanted") for _ in range(2)] == [DONE, NOTHING]
    hosts = await hosts_of(lab)
    assert (hosts["h1"].is_drained, hosts["h1"].is_usable, hosts["h1"].used) == (True, False, 2)
    assert not hosts["h2"].is_drained
    assert ("no longer wanted" in hosts["h1"].reason) == lab.has_reasons
    assert states((await see(lab, lambda jobs: running in jobs))[running]) == [JobState.RUNNING], "it goes on"
    lab.cancel(running)
    await come(lab, lambda hosts: not any(each.busy for each in hosts.values()))
    array = lab.submit(LONG, tasks="1-6")
    jobs = await see(lab, lambda jobs: states(jobs.get(array, [])).count(JobState.RUNNING) == SLOTS["h2"])
    assert {each.host for each in jobs[array] if each.occupies} == {"h2"}
    assert [await lab.adapter.undrain("h1") for _ in range(2)] == [DONE, NOTHING]
    await see(lab, lambda jobs: states(jobs.get(array, [])) == [JobState.RUNNING] * 6)


async def test_a_host_comes_and_goes(lab: Lab) -> None:
    lab.hosts.start("h3")
    new = NewHost("h3", 3, 500 * MIB)
    assert [await lab.adapter.add(new) for _ in range(2)] == [DONE, NOTHING]
    lab.serve("h3")
    hosts = await come(lab, lambda hosts: "h3" in hosts and hosts["h3"].is_usable)
    assert hosts["h3"].slots == 3
    array = lab.submit(LONG, tasks="1-9")
    jobs = await see(lab, lambda jobs: states(jobs.get(array, [])) == [JobState.RUNNING] * 9)
    there = sum(each.host == "h3" for each in jobs[array])
    assert there == 3
    refused = await lab.adapter.remove("h3")
    assert isinstance(refused, Refused)
    assert array in refused.reason
    assert not (await hosts_of(lab))["h3"].is_drained, "nothing was changed"
    assert await lab.adapter.drain("h3") == DONE
    assert isinstance(await lab.adapter.remove("h3"), Refused)
    lab.cancel(array)
    await come(lab, lambda hosts: not any(each.busy for each in hosts.values()))
    assert [await lab.adapter.remove("h3") for _ in range(2)] == [DONE, NOTHING]
    assert (await hosts_of(lab)).keys() == SLOTS.keys()
    lab.hosts.kill("h3")
    assert [await lab.adapter.add(new) for _ in range(2)] == [DONE, NOTHING]
    assert await lab.adapter.remove("h3") == DONE, "its daemon never came"


async def test_a_host_that_is_closed_before_it_comes(lab: Lab) -> None:
    """It takes no job when its daemon comes, until it is opened."""
    lab.hosts.start("h4")
    assert await lab.adapter.add(NewHost("h4", 1)) == DONE
    assert [await lab.adapter.drain("h4") for _ in range(2)] == [DONE, NOTHING]
    assert [await lab.adapter.undrain("h4") for _ in range(2)] == [DONE, NOTHING]
    assert await lab.adapter.drain("h4") == DONE
    assert await lab.adapter.add(NewHost("h4", 1)) == NOTHING
    lab.serve("h4")
    await come(lab, lambda hosts: "h4" in hosts and hosts["h4"].state == HostState.UP and hosts["h4"].is_drained)
    assert [await lab.adapter.undrain("h4") for _ in range(2)] == [DONE, NOTHING]
    await come(lab, lambda hosts: hosts["h4"].is_usable)
    assert await lab.adapter.remove("h4") == DONE
    lab.hosts.kill("h4")


async def test_a_host_of_the_configuration_goes_and_returns(lab: Lab) -> None:
    assert [await lab.adapter.remove("h1") for _ in range(2)] == [DONE, NOTHING]
    assert (await hosts_of(lab)).keys() == {"h2"}
    assert [await lab.adapter.add(NewHost("h1", 2)) for _ in range(2)] == [DONE, NOTHING]
    if not lab.has_reasons:  # Grid Engine ends the execd
        lab.serve("h1")
    hosts = await come(lab, lambda hosts: sum(each.is_usable for each in hosts.values()) == len(SLOTS))
    assert {each.name: each.slots for each in hosts.values()} == SLOTS


async def test_what_cannot_be_done_is_refused(lab: Lab) -> None:
    adapter = lab.adapter
    for outcome in (
        await adapter.drain("h9"),
        await adapter.undrain("h9"),
        await adapter.drain("-d"),
        await adapter.add(NewHost("h9 h8", 1)),
        await adapter.add(NewHost("h9", 0)),
        await adapter.remove("*"),
    ):
        assert isinstance(outcome, Refused)
        assert "nothing was changed" in outcome.reason
    assert await adapter.remove("h9") == NOTHING
    assert (await hosts_of(lab)).keys() == SLOTS.keys()


async def test_a_user_without_rights_is_told_so(lab: Lab) -> None:
    outcome = await lab.adapter_of("ann").drain("h1")
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == Fault.RIGHTS
    assert not (await hosts_of(lab))["h1"].is_drained


async def test_a_master_that_does_not_answer(lab: Lab) -> None:
    silent = lab.silent()
    answers = [await silent.queue(), await silent.hosts(), await silent.drain("h1"), await silent.remove("h1")]
    for each in answers:
        assert isinstance(each, Unavailable)
        assert each.fault in (Fault.SILENT, Fault.SLOW)
        assert "see that" in each.reason
