"""Machines of a real libvirtd, with its test driver: what outlives an agent, and what a restart of libvirtd does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt_room
import pytest
import trio
from libvirt_room import Daemon

from subord.services.machines.power.driver import LibvirtPower, Limits
from subord.services.machines.power.records import (
    Done,
    EventKind,
    Fault,
    Found,
    Outcome,
    Refused,
    Stage,
    State,
    Unavailable,
)

pytestmark = pytest.mark.slow
SHORT = Limits(read=0.5, change=0.5)
OFTEN = Limits(again=0.05, again_most=0.1)
IMAGE = libvirt_room.VOLUME.format(name="alma.qcow2", gib=10)
TEMPLATE = libvirt_room.TEMPLATE.format(name="alma", cores=2).replace("/images/", "/default-pool/")
AGENT = """
import sys, trio
from subord.services.machines.power.driver import LibvirtPower
async def main():
    power = LibvirtPower(sys.argv[1], cluster="physics", server="s1")
    print(await power.clone("alma", "alma"), await power.start("alma-1", lambda *_: ""), flush=True)
    await trio.sleep_forever()
trio.run(main)
"""


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # A socket's path has at most 107 bytes.
    with libvirt_room.running(tmp_path_factory.mktemp("lv") / "d") as daemon:
        keeper = define(daemon)
        yield daemon
        keeper.close()


def define(daemon: Daemon) -> Any:
    """The template. The test driver forgets its machines with its last connection, so this one is to be kept."""
    connection = libvirt_room.need_binding().open(daemon.uri)
    connection.storagePoolLookupByName("default-pool").createXML(IMAGE)
    connection.defineXML(TEMPLATE)
    return connection


def always(*_: object) -> str:
    return ""


def power_at(daemon: Daemon, **more: Any) -> LibvirtPower:
    return LibvirtPower(daemon.uri, cluster="physics", server="s1", **more)


async def named(power: LibvirtPower) -> dict[str, Found]:
    found = await power.machines()
    assert not isinstance(found, Unavailable), found
    return {each.name: each for each in found}


async def test_machines_are_known_after_a_restart_of_the_agent(daemon: Daemon) -> None:
    words = [sys.executable, "-c", AGENT, daemon.uri]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def until_dead() -> bytes:
        with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as agent:
            assert agent.stdout is not None
            said = agent.stdout.readline()
            agent.kill()
        return said

    said = await trio.to_thread.run_sync(until_dead)
    assert said.count(b"is_changed=True") == 2
    power = power_at(daemon)
    found = (await named(power))["alma-1"]
    assert (found.state, found.type, found.stage) == (State.ON, "alma", Stage.WHOLE)
    assert await power.start("alma-1", always) == Done(False, "alma-1")
    assert await power.stop("alma-1", within=5) == Done(True, "alma-1")
    power.close()


async def until(power: LibvirtPower, *kinds: EventKind) -> None:
    for kind in kinds:
        with trio.fail_after(60):
            while (await power.events.receive()).kind != kind:
                pass


async def test_libvirtd_restarts(daemon: Daemon) -> None:
    """The test driver loses its machines then, which qemu's does not."""
    power = power_at(daemon, limits=OFTEN)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(power.watch)
        await until(power, EventKind.CONNECTED)
        assert "alma" in await named(power)
        daemon.stop()
        await until(power, EventKind.LOST)
        found = await power.machines()
        assert isinstance(found, Unavailable)
        assert found.fault == Fault.MISSING
        daemon.start()
        keeper = define(daemon)
        await until(power, EventKind.CONNECTED)
        assert await power.clone("alma", "alma") == Done(True, "alma-1")
        await until(power, EventKind.DEFINED)
        nursery.cancel_scope.cancel()
    keeper.close()
    power.close()


async def test_a_libvirtd_that_hangs(daemon: Daemon) -> None:
    patient, power = power_at(daemon), power_at(daemon, limits=SHORT)
    assert await patient.clone("alma", "alma") == Done(True, "alma-1")
    daemon.signal(signal.SIGSTOP)
    try:
        for ask in (power.machines, lambda: power.start("alma-1", always), lambda: power.stop("alma-1", within=0)):
            outcome = await _timed(ask)
            assert isinstance(outcome, Unavailable)
            assert outcome.fault == Fault.SLOW
    finally:
        daemon.signal(signal.SIGCONT)
    assert await started(power, "alma-1") in (Done(True, "alma-1"), Done(False, "alma-1"))
    assert (await named(patient))["alma-1"].state == State.ON
    power.close()
    patient.close()


async def test_a_libvirtd_that_hangs_and_is_killed(daemon: Daemon) -> None:
    """Calls that hang return, and their changes give way."""
    power = power_at(daemon, limits=SHORT)
    await named(power)
    daemon.signal(signal.SIGSTOP)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(power.machines)
        nursery.start_soon(power.start, "alma", always)
    daemon.stop()
    daemon.start()
    assert isinstance(await started(power, "alma"), Refused)
    power.close()


async def started(power: LibvirtPower, name: str) -> Outcome:
    """A call waits for the one before, of which it is not known when it ends."""
    outcome: Outcome = Unavailable(Fault.SLOW, "")
    with trio.fail_after(60):
        while isinstance(outcome, Unavailable):
            outcome = await power.start(name, always)
    return outcome


async def _timed(ask: Callable[[], Any]) -> object:
    with trio.fail_after(30):
        return await ask()


async def test_two_agents_see_the_same(daemon: Daemon, tmp_path: Path) -> None:
    one, other = power_at(daemon), power_at(daemon)
    await one.clone("alma", "alma")
    assert (await named(other))["alma-1"].type == "alma"
    assert await other.clone("alma", "alma") == Done(True, "alma-2")
    one.close()
    other.close()


async def test_restarts_leave_no_connection_behind(daemon: Daemon) -> None:
    power = power_at(daemon)
    await named(power)
    before = open_files()
    for _ in range(4):
        daemon.stop()
        daemon.start()
        assert not isinstance(await power.machines(), Unavailable)

    def wait() -> None:
        """Libvirt's thread has a connection for a moment more."""
        until = time.monotonic() + 10
        while open_files() > before and time.monotonic() < until:
            time.sleep(0.02)

    await trio.to_thread.run_sync(wait)
    assert open_files() <= before
    power.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
