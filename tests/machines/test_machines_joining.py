"""Jobs and hosts of a batch system as the rounds see them, and what the batch system is told."""

from __future__ import annotations

from typing import Any

import pytest

from subord.services.batch import records
from subord.services.batch.records import Done, Fault, HostState, JobState, NewHost, Outcome, Refused, Unavailable
from subord.services.machines.managing.batching import LATE, BatchSide, memory_of
from subord.services.machines.managing.joining import joined
from subord.services.machines.managing.rounds import Host
from subord.services.machines.model import Job
from subord.services.machines.plan import Plan, Type

SMALL = Type(name="small", template="s", queues=("short", "long"), memory_mb=1024, image_mb=1, slots=2)
LARGE = Type(name="large", template="l", queues=("wide",), memory_mb=64, image_mb=1)
PLAN = Plan(manager=1, types=(SMALL, LARGE), store_mb=10)


def job(number: str, *queues: str, state: JobState = JobState.QUEUED, queue: str = "", **more: Any) -> records.Job:
    return records.Job(number, None, "ann", "", state, "", 2, 0.0, None, queue, queues, **more)


def host(name: str, slots: int = 2, used: int = 0, state: HostState = HostState.UP, **more: Any) -> records.Host:
    given: dict[str, Any] = {"is_drained": False, "busy": used} | more
    return records.Host(name, slots, used, state=state, word="", load=None, cpus=None, memory=None, **given)


def test_jobs_keep_their_order_and_get_the_first_queue_of_the_plan_that_they_may_use() -> None:
    jobs = [
        job("1", "wide"),
        job("2", "other", "long"),
        job("3"),
        job("4", "elsewhere"),
        job("5", "w*", tasks=40),
        job("6", "wide", state=JobState.HELD),
        job("7", queue="wide", state=JobState.RUNNING),
        job("8", queue="elsewhere", state=JobState.RUNNING),
    ]
    found = joined(jobs, (), (), PLAN)
    assert found.batch.jobs == (
        Job("1", "wide", 2),
        Job("2", "long", 2),
        Job("3", "short", 2),
        Job("4", "elsewhere", 2),
        Job("5", "wide", 2, 40),
    )
    assert found.running == 1


def test_a_machine_is_the_host_of_its_name() -> None:
    hosts = [
        host("a.site", used=1),
        host("B", is_drained=True),
        host("c", state=HostState.DOWN),
        host("d", slots=0),
        host("e", state=HostState.SUSPENDED),
    ]
    found = joined((), hosts, ("a", "b", "c", "d", "e", "f"), PLAN)
    assert found.batch.hosts == {
        "a": Host(is_up=True, is_open=True, busy=1),
        "b": Host(is_up=True, is_open=False),
        "c": Host(is_up=False, is_open=True),
        "d": Host(is_up=True, is_open=False),
        "e": Host(is_up=True, is_open=False),
    }
    assert found.registered == {"a", "b", "c", "e"}, "d is in no queue of the plan"


def test_of_several_queues_the_one_with_slots_says_how_a_host_is() -> None:
    for hosts in ((host("a", 0), host("a", 2, 2)), (host("a", 2, 2), host("a", 0))):
        assert joined((), hosts, ("a",), PLAN).batch.hosts == {"a": Host(is_up=True, is_open=True, busy=2)}


def test_names_of_hosts_that_live_are_taken() -> None:
    hosts = [host("x"), host("y", state=HostState.DOWN), host("z", used=1, state=HostState.DOWN), host("a")]
    assert joined((), hosts, ("a",), PLAN).batch.taken == {"x", "z"}


class FakeBatch:
    def __init__(self, queue: str, calls: list[str], answer: Outcome) -> None:
        self._queue, self._calls, self._answer = queue, calls, answer

    async def queue(self) -> records.Queue | Unavailable:
        self._calls.append("jobs")
        return self._answer if isinstance(self._answer, Unavailable) else records.Queue((job("1", "wide"),), 0.0)

    async def hosts(self) -> tuple[records.Host, ...] | Unavailable:
        self._calls.append(f"hosts of {self._queue}")
        return (host("a", 2 if self._queue == "wide" else 0),)

    async def history(self, since: float) -> records.History:
        raise AssertionError(since)

    async def drain(self, host: str, reason: str = "") -> Outcome:
        return self._told(f"drain {host} {reason}")

    async def undrain(self, host: str) -> Outcome:
        return self._told(f"undrain {host}")

    async def add(self, host: NewHost) -> Outcome:
        return self._told(f"add {host.name} {host.slots} to {self._queue}")

    async def remove(self, host: str) -> Outcome:
        return self._told(f"remove {host}")

    def _told(self, call: str) -> Outcome:
        self._calls.append(call)
        return self._answer


def side(answer: Outcome | None = None, *, sees_all: bool = False) -> tuple[BatchSide, list[str]]:
    calls = list[str]()
    outcome = answer or Done(is_changed=True)
    return BatchSide(PLAN, lambda queue: FakeBatch(queue, calls, outcome), sees_all=sees_all), calls


async def test_hosts_are_asked_for_each_type_where_a_queue_has_its_own() -> None:
    one, calls = side()
    reading = await one.read()
    assert not isinstance(reading, str)
    found = one.join(reading, ("a",))
    assert sorted(calls) == ["hosts of short", "hosts of wide", "jobs"]
    assert (found.batch.hosts["a"].is_open, one.registered) == (True, {"a"})
    all_, calls = side(sees_all=True)
    await all_.read()
    assert sorted(calls) == ["hosts of ", "jobs"]


async def test_a_host_is_added_to_each_queue_of_its_type_and_closed() -> None:
    one, calls = side()
    assert await one.add("small-001", SMALL) == ""
    assert calls == [
        "add small-001 2 to short",
        "add small-001 2 to long",
        "drain small-001 closed by the plan of machines",
    ]


@pytest.mark.parametrize("answer", [Refused("it has jobs"), Unavailable(Fault.SLOW, "it is slow")])
async def test_what_is_not_done_says_why(answer: Refused | Unavailable) -> None:
    one, calls = side(answer)
    assert await one.add("m", SMALL) == answer.reason
    assert calls == ["add m 2 to short"], "nothing more is tried"
    assert await one.remove("m") == answer.reason
    assert await one.open("m", lambda: 60.0) == answer.reason
    assert await one.close("m", lambda: 60.0) == answer.reason
    if isinstance(answer, Unavailable):
        assert await one.read() == answer.reason


async def test_what_is_too_late_is_not_begun() -> None:
    one, calls = side()
    assert await one.open("m", lambda: -1.0) == LATE
    assert await one.close("m", lambda: -1.0) == LATE
    assert not calls


def test_a_guest_keeps_a_part_of_its_memory() -> None:
    assert memory_of(SMALL) == (1024 - 128 - 64) << 20
    assert memory_of(LARGE) == 1 << 20


async def test_a_host_that_has_never_come_cannot_be_closed_and_is_added_all_the_same() -> None:
    """As a dynamic node of Slurm."""
    one, calls = side()
    refused = Refused("Slurm has no node m; nothing was changed")

    async def drain(_host: str, _reason: str = "") -> Outcome:
        return refused

    one._readers[0].drain = drain  # type: ignore[method-assign]
    assert await one.add("m", SMALL) == ""
    assert calls == ["add m 2 to short", "add m 2 to long"]
