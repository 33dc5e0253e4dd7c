"""The parts of a lab of machines that need no lab: what an observer finds, and the lab's own batch system."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from loops import over
from netlab.cli import arguments
from netlab.common.waiting import wait_until
from netlab.machines.batch import BatchSystem, LabAdapter
from netlab.machines.journal import Change, Have, Ran, Time, faults, overtaken_s, surplus, times, unused
from netlab.machines.rounds import Rounds, summary
from netlab.machines.scheduling import Batch

from subord.services.batch.records import Done, Host, HostState, JobState, NewHost, Refused

HAVE = {"s1": Have(2, 1000, 8), "s2": Have(2, 1000, 8)}


def on(at: float, machine: str, server: str = "s1", cores: int = 1) -> Change:
    return Change(at, server, machine, True, cores, 300)


def off(at: float, machine: str, server: str = "s1") -> Change:
    return Change(at, server, machine, False, 1, 300)


# -- the observer ----------------------------------------------------------------------------------------------------


def test_what_fits_is_no_fault() -> None:
    assert not list(faults([on(0, "a"), on(1, "b"), off(2, "a"), on(3, "c")], HAVE))


def test_more_than_a_server_has_is_found_at_the_instant() -> None:
    (found,) = faults([on(0, "a"), on(1, "b", cores=2), off(2, "b")], HAVE)
    assert found == "s1 was overbooked when b started: 3 of 2 cores"
    three = [on(0, "a", cores=0), on(1, "b", cores=0), on(2, "c", cores=0), on(3, "d", cores=0)]
    assert list(faults(three, HAVE)) == ["s1 was overbooked when d started: 1200 of 1000 memory"]


def test_a_machine_that_is_on_twice_is_found() -> None:
    assert list(faults([on(0, "a"), on(1, "a", "s2")], HAVE)) == ["a started on s2 while it was on at s1"]
    assert not list(faults([on(0, "a"), off(1, "a"), on(2, "a", "s2")], HAVE))


def ran(job: str, submitted: float, started: float | None, ended: float | None, machine: str = "") -> Ran:
    return Ran(job, "red", int(job), submitted, started, ended, machine)


def found_surplus(changes: list[Change], jobs: list[Ran], slack_s: float = 1.0) -> list[str]:
    return [each.machine for each in surplus(times(changes), jobs, lambda _name: "red", slack_s)]


def test_a_second_machine_for_one_job_is_a_surplus() -> None:
    job = ran("1", 0, 20, 30, "a")
    assert found_surplus([on(5, "a")], [job]) == []
    assert found_surplus([on(5, "a"), on(8, "b", "s2")], [job]) == ["b"]
    assert found_surplus([on(5, "a"), on(8, "b", "s2")], [job, ran("2", 1, 20, 30, "b")]) == []


def test_a_machine_that_became_free_just_before_is_no_surplus() -> None:
    """The start was decided before that."""
    jobs = [ran("1", 0, 10, 19.5, "a"), ran("2", 5, 21, 30, "a")]
    assert found_surplus([on(5, "a"), on(20, "b")], jobs) == []
    assert found_surplus([on(5, "a"), on(23, "b")], jobs) == ["b"]


def test_a_machine_that_is_off_again_is_not_free() -> None:
    jobs = [ran("1", 0, 10, 12, "a"), ran("2", 20, 30, 40, "b")]
    assert found_surplus([on(5, "a"), off(15, "a"), on(25, "b")], jobs) == []


def test_machines_without_a_job_are_unused() -> None:
    whole = times([on(0, "a"), off(10, "a"), on(20, "a"), on(21, "b")])
    assert whole == [Time("s1", "a", 0, 10), Time("s1", "a", 20, None), Time("s1", "b", 21, None)]
    assert unused(whole, [ran("1", 0, 5, 8, "a"), ran("2", 0, 25, None, "b")]) == [Time("s1", "a", 20, None)]


def test_how_long_a_job_was_overtaken() -> None:
    jobs = [ran("1", 0, 30, 40), ran("2", 0, 10, 20), ran("3", 0, 50, 60)]
    assert overtaken_s(jobs) == [20, 0, 0]
    later = [ran("1", 15, 30, 40), ran("2", 0, 10, 20)]
    assert overtaken_s(later) == [0, 0]


# -- the batch system ------------------------------------------------------------------------------------------------


def batch_of(*hosts: str, slots: int = 1) -> Batch:
    batch = Batch()
    for name in hosts:
        batch.add(name, "red", slots)
        batch.came_on(name, 0.0)
    return batch


def started(batch: Batch) -> dict[int, str]:
    return {each.number: each.host for each in batch.jobs.values() if each.started is not None}


def test_jobs_start_by_priority_and_then_as_they_came() -> None:
    batch = batch_of("a", "b")
    numbers = [batch.submit("red", priority, 10, 0.0) for priority in (1, 5, 5, 9)]
    batch.step(1.0)
    assert set(started(batch)) == {numbers[3], numbers[1]}
    batch.step(11.0)
    assert set(started(batch)) == set(numbers)


def test_a_job_starts_only_on_a_host_of_its_queue_that_is_up_and_open() -> None:
    batch = batch_of("a")
    batch.add("b", "blue", 1)
    batch.came_on("b", 5.0)
    batch.submit("blue", 0, 10, 0.0)
    batch.step(4.0)
    assert not started(batch)
    batch.hosts["b"].is_drained = True
    batch.step(6.0)
    assert not started(batch)
    batch.hosts["b"].is_drained = False
    batch.step(7.0)
    assert started(batch) == {1: "b"}


def test_a_host_with_several_slots_is_filled() -> None:
    batch = batch_of("a", slots=2)
    for slots in (2, 1, 1):
        batch.submit("red", 0, 10, 0.0, slots)
    batch.step(1.0)
    assert started(batch) == {1: "a"}
    batch.step(11.0)
    assert started(batch) == {1: "a", 2: "a", 3: "a"}


def test_a_host_that_goes_off_kills_its_jobs() -> None:
    batch = batch_of("a")
    batch.submit("red", 0, 10, 0.0)
    batch.step(1.0)
    batch.went_off("a", 5.0)
    assert batch.jobs[1].is_killed
    batch.step(100.0)
    assert batch.jobs[1].ended == 5.0


def test_a_host_with_jobs_is_not_removed() -> None:
    batch = batch_of("a")
    batch.submit("red", 0, 10, 0.0)
    batch.step(1.0)
    assert "has jobs 1" in batch.remove("a")
    batch.step(11.0)
    assert batch.remove("a") == ""
    assert not batch.hosts["a"].slots


async def test_the_adapter_of_the_lab(tmp_path: Path) -> None:
    with BatchSystem(tmp_path / "s", boot_s=0.0) as system:
        red, blue = LabAdapter(str(tmp_path / "s"), "red"), LabAdapter(str(tmp_path / "s"), "blue")
        system.register(["a"], ["red"], 2)
        system.hear(on(0.0, "a"))
        job = system.submit("red", 0, 60.0)
        (host,) = await asked_hosts(red)
        assert (host.name, host.slots, host.state, host.is_drained) == ("a", 2, HostState.UP, True)
        (other,) = await asked_hosts(blue)
        assert other.slots == 0
        assert await red.undrain("a") == Done(is_changed=True)
        assert await red.undrain("a") == Done(is_changed=False)
        found: list[dict[str, str]] = []

        def has_started() -> bool:
            found[:] = [trio.from_thread.run(running, red)]
            return bool(found[0])

        await trio.to_thread.run_sync(wait_until, has_started, 20.0, 0.05)
        assert found == [{str(job): "a"}]
        assert isinstance(await red.remove("a"), Refused)
        assert isinstance(await red.drain("x"), Refused)
        assert await blue.add(NewHost("b", 1)) == Done(is_changed=True)
        assert {each.name: each.slots for each in await asked_hosts(blue)} == {"a": 0, "b": 1}
        assert await blue.remove("b") == Done(is_changed=True)
        assert await blue.remove("b") == Done(is_changed=False)


async def asked_hosts(adapter: LabAdapter) -> tuple[Host, ...]:
    found = await adapter.hosts()
    assert isinstance(found, tuple)
    return found


async def running(adapter: LabAdapter) -> dict[str, str]:
    found = await adapter.queue()
    assert not hasattr(found, "fault")
    return {each.id: each.host for each in found.jobs if each.state == JobState.RUNNING}


# -- rounds ----------------------------------------------------------------------------------------------------------


def told(
    number: int, *, life: int = 7, started: int = 0, messages: int = 0, hindrance: str = ""
) -> dict[str, object]:
    totals = dict.fromkeys(("opened", "closed", "cloned", "stopped", "deleted"), 0)
    return {
        "life": life,
        "round": number,
        "seen": str(number),
        "decide_s": 0.002 * number,
        "ask_s": 0.5,
        "order_s": 0.1,
        "waiting": 3,
        "hindrance": hindrance,
        "totals": {**totals, "started": started, "messages": messages, "message_bytes": 100 * messages},
    }


def test_rounds_are_told_once_and_those_that_were_missed_count() -> None:
    rounds = Rounds()
    states = [
        told(1),
        told(2, started=4, messages=10),
        told(2, started=4, messages=10),
        told(4, started=4, messages=30),
    ]
    for each in states:
        rounds.look(each)
    assert [(each.number, each.rounds, each.actions, each.messages) for each in rounds.all] == [
        (2, 1, 4, 10),
        (4, 2, 0, 20),
    ]
    found = summary(rounds.all)
    assert (found["rounds"], found["actions"], found["round_messages"]) == (3, 4, 10.0)
    assert (found["quiet_messages"], found["decide_ms_max"]) == (10.0, 8.0)


def test_a_new_process_counts_anew() -> None:
    rounds = Rounds()
    for each in (told(5, messages=50), told(1, life=8, hindrance="it has just begun"), told(2, life=8, messages=5)):
        rounds.look(each)
    rounds.look({})
    assert [(each.life, each.messages) for each in rounds.all] == [(8, 5)]


@over("hindrance", ["", "it has just begun"])
def test_rounds_that_decide_nothing_are_left_out(hindrance: str) -> None:
    rounds = Rounds()
    rounds.look(told(1))
    rounds.look(told(2, hindrance=hindrance))
    assert summary(rounds.all)["rounds"] == (0 if hindrance else 1)


def test_the_help_shows_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parser([]).parse_args(["machines", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "how many, each with four cores (default: 3)" in text
    assert "how many are submitted (default: 10)" in text
    assert "how long each job takes (default: 15)" in text


def test_a_default_that_says_nothing_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parser([]).parse_args(["up", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "(default: None)" not in text
    assert "(default: False)" not in text
    assert "such as 0.25 (default: no limit)" in text
    assert "no limit) (default" not in text
