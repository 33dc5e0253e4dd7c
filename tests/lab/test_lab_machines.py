"""Servers that turn virtual machines on for a batch queue: real daemons, agents and libvirtds, and a real Grid Engine
with an execd for each machine that is on (netns-lab/netlab/machines)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from netlab.elastic.hosted import ROOT
from netlab.machines import demo, journal, serving, waits
from netlab.machines.cluster import Kind, MachinesLab, Server
from netlab.machines.serving import Served

from .lab_helpers import need_machines

pytestmark = [pytest.mark.lab(few=True), pytest.mark.slow]

WAIT_S_MAX = 120.0
SMALL, LARGE = Kind("small"), Kind("large", cores=2, slots=2)


# -- the lab itself: nothing decides ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare() -> Iterator[MachinesLab]:
    need_machines()
    places = [Server(4, 2000, (SMALL.machine(1), LARGE.machine(1))), Server(4), Server(4)]
    guests = [kind.machine(1).name for kind in (SMALL, LARGE)]
    with MachinesLab(places, (SMALL, LARGE), guests=guests, boot_s=0.2) as lab:
        yield lab
    assert not lab.path.exists()


def test_each_server_has_a_libvirtd_of_its_own_with_the_templates(bare: MachinesLab) -> None:
    names = {
        server: sorted(domain.name() for domain in each.connection.listAllDomains())
        for server, each in bare.libvirtds.of.items()
    }
    templates = ["large-template", "small-template"]
    assert names == {
        bare.lab.address(ROOT): sorted(["small-001", "large-001", *templates]),
        bare.lab.address(3): templates,
        bare.lab.address(4): templates,
    }


def test_a_terminal_reaches_grid_engine_as_the_demo_says(bare: MachinesLab) -> None:
    text = demo.how_to_look(bare)
    (line,) = (each for each in text.splitlines() if each.startswith("  ge() {"))
    words = [each.strip() for each in text.splitlines() if each.startswith("  ge q")]
    assert words
    for each in words:
        done = subprocess.run(
            ["sh", "-c", f"{line}\n{each}"], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, (each, done.stderr)
    assert (
        "small"
        in subprocess.run(
            ["sh", "-c", f"{line}\nge qconf -sql"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
    )


def test_a_machine_that_is_on_is_a_host_that_runs_jobs_of_its_queue(bare: MachinesLab) -> None:
    bare.turn_on("small-001")
    bare.await_up("small-001")
    assert bare.run("small-001", "hostname") == "small-001\n"
    job = bare.submit(SMALL, 0.5)
    assert bare.is_closed("small-001")
    bare.open(SMALL, "small-001")
    bare.await_that(lambda: ended(bare, job), "the job ends", WAIT_S_MAX, bare.facts)
    assert ended(bare, job) == ["small-001"]
    bare.turn_off("small-001")
    bare.await_that(lambda: not any(bare.watch.on().values()), "the machine is off", WAIT_S_MAX, bare.facts)
    (server,) = {each.server for each in bare.watch.changes if each.machine == "small-001"}
    assert [each.is_on for each in bare.watch.changes if each.machine == "small-001"] == [True, False]
    assert server == bare.lab.address(ROOT)
    assert not list(journal.faults(bare.watch.changes, bare.have))
    assert not bare.hosts.faults


def test_the_observer_finds_what_an_operator_overbooks(bare: MachinesLab) -> None:
    before = len(bare.watch.changes)
    bare.turn_on("large-001")
    bare.libvirtds.of[bare.lab.address(ROOT)].define([Kind("huge", cores=3).template], "")
    bare.turn_on("huge-template")
    bare.await_that(lambda: len(bare.watch.changes) == before + 2, "both are seen", WAIT_S_MAX, bare.facts)
    (found,) = journal.faults(bare.watch.changes, bare.have)
    assert found == f"{bare.lab.address(ROOT)} was overbooked when huge-template started: 5 of 4 cores"
    for name in ("huge-template", "large-001"):
        bare.turn_off(name)


# -- the service -----------------------------------------------------------------------------------------------------

PERIOD_S = 1
WAITS = {"order_s": 4, "answer_s": 5}
JOB_S = 3.0


def test_jobs_get_what_is_there_a_closed_machine_one_that_is_off_and_a_clone() -> None:
    """The states of the table of waiting times; the order of times is measured (docs/evaluation/machines.md)."""
    need_machines()
    with MachinesLab(waits.servers()[:6], waits.STATES, guests=waits.guests(1), boot_s=0.2) as lab:
        waits.prepare(lab)
        lab.publish(period_s=PERIOD_S, waits=WAITS, always_on=[waits.FREE.machine(1).name])
        lab.await_deciding()
        found = waits.measure(lab, 1, PERIOD_S, seed=1)
        assert [each.state for each in found] == [each.name for each in waits.STATES]
        lab.watch.settle()
        started = [each.machine for each in lab.watch.changes if each.is_on]
        assert started == ["free-001", "closed-001", "off-001", "cloned-001"]
        assert not list(journal.faults(lab.watch.changes, lab.have))
        assert not lab.hosts.faults


def kill_all(lab: MachinesLab, served: Served) -> None:
    serving.kill_head_agent(lab, served)
    serving.kill_leaders(lab, served, dead_s=3.0)


def test_a_queue_is_served_in_order_while_the_root_leaders_and_the_queues_agent_die() -> None:
    """With the lab's own batch system."""
    need_machines()
    with MachinesLab(serving.servers(12), (serving.RED, serving.BLUE), boot_s=0.5, fanout=2) as lab:
        lab.publish(period_s=PERIOD_S, waits=WAITS)
        lab.await_deciding()
        found = serving.serve(lab, serving.jobs(60, JOB_S, seed=1), 2 * WAIT_S_MAX, kill_all)
        record = serving.of_served(lab, found, slack_s=WAITS["order_s"])
        assert record["faults"] == []
        assert len(record["dead"]) == 2 + serving.INTERIOR
        assert record["on_most"] <= 12 * serving.CORES
        assert record["starts"] >= 12 * serving.CORES


def ended(lab: MachinesLab, job: str) -> list[str]:
    """Where it has run."""
    return [each["hostname"] for each in lab.engine.ended() if each["jobnumber"] == job]
