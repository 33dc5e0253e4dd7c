"""Two guests of two servers that run real jobs: cloned, started, opened, closed, moved, stopped and deleted.

The guests are emulated, boot Debian's kernel and join a Slurm whose controller is in a network of its own; so are the
servers. Needs root, what tests/batch needs, and `apt-get install libvirt-daemon libvirt-daemon-driver-qemu
qemu-system-x86 qemu-utils busybox-static cpio dnsmasq-base`; the kernel is fetched by apt-get.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import qemu_room
import server_room
import trio

from subord.services.batch.records import Done as BatchDone
from subord.services.batch.records import Host, HostState, JobState, NewHost
from subord.services.batch.records import Unavailable as Silent
from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.power.moving import cold_move
from subord.services.machines.power.records import Done, Found, State, Unavailable

pytestmark = pytest.mark.long
WHERE = "hostname; cat /etc/machine-id; uname -r; exec cat"
"""Ends with its standard input."""
WITHIN_S = 240.0


@pytest.fixture
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server_room.Servers]:
    qemu_room.need_qemu()
    with server_room.servers(qemu_room.unpacked_kernel(tmp_path_factory.mktemp("kernel"))) as servers:
        yield servers


@asynccontextmanager
async def powers_of(servers: server_room.Servers) -> AsyncIterator[tuple[LibvirtPower, LibvirtPower]]:
    one, other = (
        LibvirtPower(servers.daemons[name].uri, cluster="physics", server=name) for name in server_room.SERVERS
    )
    try:
        yield one, other
    finally:
        one.close()
        other.close()


def always(*_: object) -> str:
    return ""


async def until(condition: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
    deadline = trio.current_time() + WITHIN_S
    while not await condition():
        assert trio.current_time() < deadline, what()
        await trio.sleep(0.3)


async def machines_of(power: LibvirtPower) -> dict[str, Found]:
    found = await power.machines()
    assert not isinstance(found, Unavailable), found
    return {each.name: each for each in found}


async def come(servers: server_room.Servers, condition: Callable[[Host], bool], *names: str) -> None:
    """Until these hosts of Slurm are so."""
    seen: dict[str, Host] = {}

    async def are() -> bool:
        hosts = await servers.adapter.hosts()
        assert not isinstance(hosts, Silent), hosts
        seen.update({each.name: each for each in hosts})
        return all(name in seen and condition(seen[name]) for name in names)

    await until(are, lambda: f"{seen}; the guests: {servers.said()}")


async def running(servers: server_room.Servers) -> set[str]:
    """The hosts where jobs run."""
    queue = await servers.adapter.queue()
    assert not isinstance(queue, Silent), queue
    return {job.host for job in queue.jobs if job.state == JobState.RUNNING}


async def run_on(servers: server_room.Servers, jobs: list[subprocess.Popen[str]], hosts: set[str]) -> set[str]:
    """What the jobs print that run at these hosts, at the same time: the name, the id and the kernel of each."""

    async def are() -> bool:
        return await running(servers) == hosts

    await until(are, lambda: f"no jobs at {hosts}: {servers.controller.states()}")
    said = [await trio.to_thread.run_sync(job.communicate) for job in jobs]
    assert [job.returncode for job in jobs] == [0] * len(jobs), said
    return {output for output, _errors in said}


def said_of(servers: server_room.Servers, *machines: Found) -> set[str]:
    return {f"{each.name}\n{each.id.replace('-', '')}\n{servers.release}\n" for each in machines}


async def test_two_guests_run_jobs_from_their_template_to_their_end(servers: server_room.Servers) -> None:
    adapter, names = servers.adapter, ("tiny-1", "tiny-2")
    assert servers.release != os.uname().release
    async with powers_of(servers) as (one, other):
        with trio.fail_after(900):
            for name in names:
                assert await one.clone(server_room.TEMPLATE, server_room.TEMPLATE) == Done(True, name)
                assert await adapter.add(NewHost(name, 1)) == BatchDone(True)
                assert await adapter.drain(name, "nothing waits") == BatchDone(True)
                assert await one.start(name, always) == Done(True, name)
            await come(servers, lambda host: host.state == HostState.UP and host.is_drained, *names)
            jobs = [servers.job(WHERE), servers.job(WHERE)]
            await waiting(servers, 2)
            for name in names:
                assert await adapter.undrain(name) == BatchDone(True)
            machines = await machines_of(one)
            expected = said_of(servers, *(machines[name] for name in names))
            assert await run_on(servers, jobs, set(names)) == expected
            await take_offline(servers, *names)
            for name in names:
                assert await one.stop(name, within=WITHIN_S) == Done(True, name)
            assert await cold_move("tiny-2", one, other) == Done(True, "tiny-2")
            # Slurm believes for SlurmdTimeout that a guest is there, and starts jobs on it.
            await come(servers, lambda host: host.state == HostState.DOWN and host.is_drained, *names)
            assert await other.start("tiny-2", always) == Done(True, "tiny-2")
            await come(servers, lambda host: host.state == HostState.UP, "tiny-2")
            jobs = [servers.job(WHERE)]
            await waiting(servers, 1)
            assert await adapter.undrain("tiny-2") == BatchDone(True)
            moved = (await machines_of(other))["tiny-2"]
            assert (moved.state, moved.id) == (State.ON, machines["tiny-2"].id)
            assert await run_on(servers, jobs, {"tiny-2"}) == said_of(servers, moved)
            await take_offline(servers, "tiny-2")
            assert await other.stop("tiny-2", within=WITHIN_S) == Done(True, "tiny-2")
            for power, name in ((one, "tiny-1"), (other, "tiny-2")):
                assert await power.delete(name) == Done(True, name)
                assert await adapter.remove(name) == BatchDone(True)
            assert await adapter.hosts() == ()
            assert [list(await machines_of(power)) for power in (one, other)] == [[server_room.TEMPLATE]] * 2
    assert servers.images() == ["tiny.qcow2"]


async def take_offline(servers: server_room.Servers, *names: str) -> None:
    """Closed, and without jobs: also those that end still need the slurmd."""
    for name in names:
        assert await servers.adapter.drain(name, "to be stopped") == BatchDone(True)
    await come(servers, lambda host: host.is_drained and not host.busy, *names)


async def waiting(servers: server_room.Servers, number: int) -> None:
    async def are() -> bool:
        queue = await servers.adapter.queue()
        assert not isinstance(queue, Silent), queue
        assert not any(job.occupies for job in queue.jobs)
        return len(queue.jobs) == number

    await until(are, lambda: f"{number} jobs never waited")
