"""What a poll sees of a batch system: which jobs wait, and which nodes are idle since when."""

from __future__ import annotations

from typing import Any

import pytest

from subord.services.batch.records import Host, HostState, Job, JobState, Queue
from subord.services.elastic.deciding import decide
from subord.services.elastic.managing.looking import Looking, Own
from subord.services.elastic.options import Options
from subord.services.elastic.seen import Kind, Waiting

NOW = 1_800_000_000.0
NO_NODES = Own({})


def job(number: int, state: JobState = JobState.QUEUED, **changes: Any) -> Job:
    made = Job(str(number), None, "ann", "sleep", state, "qw", 1, NOW - 1000, None, "")
    return made._replace(**changes)


def host(name: str, slots: int = 2, busy: int = 0, **changes: Any) -> Host:
    made = Host(name, slots, busy, busy, HostState.UP, False, "", 0.1, slots, None)
    return made._replace(**changes)


def seen(
    jobs: list[Job], hosts: list[Host], own: Own = NO_NODES, now: float = NOW, looking: Looking | None = None
) -> Any:
    return (looking or Looking("all.q", "master")).seen(Queue(tuple(jobs), now), hosts, own)


COUNTED: dict[str, tuple[Job, list[Waiting]]] = {
    "queued": (job(1), [Waiting("1", 1, NOW - 1000)]),
    "an array": (job(1, task=3, tasks=7), [Waiting("1", 1, NOW - 1000, 7)]),
    "parallel": (job(1, slots=8), [Waiting("1", 8, NOW - 1000)]),
    "held": (job(1, JobState.HELD), []),
    "in error": (job(1, JobState.ERROR), []),
    "running": (job(1, JobState.RUNNING, queue="all.q"), []),
    "of another queue": (job(1, queues=("long.q",)), []),
    "of several queues": (job(1, queues=("long.q", "all.q@@big")), [Waiting("1", 1, NOW - 1000)]),
}


@pytest.mark.parametrize(("one", "waiting"), COUNTED.values(), ids=COUNTED)
def test_jobs_that_more_hosts_would_start_count(one: Job, waiting: list[Waiting]) -> None:
    assert seen([one], [host("master")]).waiting == waiting


def test_an_array_counts_by_its_tasks() -> None:
    found = seen([job(1, task=1, tasks=7, slots=2)], [host("master", busy=2)])
    assert found.waiting_slots == 14
    assert decide(Options(max_nodes=20, add_nodes_per_iter=9), found).add == 7


def test_hosts_of_other_queues_and_those_on_their_way_are_no_nodes() -> None:
    hosts = [host("master"), host("other", slots=0), host("new"), host("old")]
    found = seen([], hosts, Own({}, coming={"new": 2, "newer": 2}, going=("old",)))
    assert [node.name for node in found.nodes] == ["master"]
    assert (found.size, found.coming, found.going) == (3, 2, 1)


def test_idle_counts_from_the_first_poll_without_a_job() -> None:
    looking = Looking("all.q", "master")
    own = Own({"a": NOW - 600})

    def idle_since(now: float, *hosts: Host) -> float | None:
        found = seen([], [host("master"), *hosts], own, now, looking)
        return next((node.idle_since for node in found.nodes if node.name == "a"), None)

    assert idle_since(NOW, host("a")) == NOW
    assert idle_since(NOW + 60, host("a")) == NOW
    assert idle_since(NOW + 120, host("a", busy=1)) is None
    assert idle_since(NOW + 180, host("a")) == NOW + 180
    assert idle_since(NOW + 240) is None
    assert idle_since(NOW + 300, host("a")) == NOW + 300


def test_a_node_with_a_job_of_another_queue_stays() -> None:
    own = Own({"a": NOW - 50 * 60})
    busy = host("a")._replace(used=0, busy=1)
    assert decide(Options(max_nodes=20), seen([], [host("master"), busy], own)).remove == ()
    assert decide(Options(max_nodes=20), seen([], [host("master"), host("a")], own)).remove == ("a",)


def test_the_next_node_has_the_slots_that_most_workers_have() -> None:
    hosts = [host("master", 64), host("a", 8), host("b", 8), host("c", 4)]
    assert seen([], hosts).slots_of_new == 8
    assert seen([], hosts[:1]).slots_of_new == 64
    assert seen([], [host("master"), host("a", 8), host("c", 4)]).slots_of_new == 4
    assert seen([], []).slots_of_new == 1


def test_the_next_node_is_of_the_cheapest_kind_that_holds_the_largest_task() -> None:
    kinds = (Kind("small", 4), Kind("large", 16), Kind("other", 0))
    looking = Looking("all.q", "master", kinds)

    def kind(*slots: int) -> Kind:
        waiting = [job(number, slots=each) for number, each in enumerate(slots)]
        return Kind(*seen(waiting, [host("master", 64)], looking=looking).next_kind)

    assert kind() == kind(4, 1) == Kind("small", 4)
    assert kind(1, 5) == Kind("large", 16)
    assert kind(17) == kind(65) == Kind("other", 64)
    assert seen([], [host("master", 8)]).next_kind == Kind("", 8)


def test_nodes_of_other_kinds_that_are_coming_count_with_their_slots() -> None:
    own = Own({}, coming={"node001": 16})
    jobs = [job(number) for number in range(20)]
    looking = Looking("all.q", "master", (Kind("small", 2),))
    found = decide(Options(max_nodes=20, add_nodes_per_iter=9), seen(jobs, [host("master")], own, looking=looking))
    assert (found.add, found.kind) == (1, Kind("small", 2))
    assert found.why[0].endswith("the jobs that wait need 20 slots, 2 are free, 16 are coming")
