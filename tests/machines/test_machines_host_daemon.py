"""The part of a server whose libvirtd restarts, hangs or ends: what is told, and that nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt_room
import msgspec
import pytest
import trio
from conditions import until
from libvirt_room import Daemon

from subord.runtime.machines.state import ServerState
from subord.runtime.machines.talk import SaidServer, decode_said
from subord.services.machines.model import Doing, State
from subord.services.machines.orders import Clone, Stop
from subord.services.machines.serving import host, telling
from subord.services.machines.serving.telling import Telling
from subord.services.machines.task import Done
from tests.machines.test_machines_host import ALMA, PLAN, Served
from tests.machines.test_power_daemon import IMAGE, TEMPLATE

pytestmark = pytest.mark.slow
WAIT_S = 20.0
SMALL = msgspec.structs.replace(PLAN, types=(msgspec.structs.replace(ALMA, memory_mb=512),))


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # A socket's path has at most 107 bytes.
    with libvirt_room.running(tmp_path_factory.mktemp("lv") / "d") as daemon:
        keeper = define(daemon)
        yield daemon
        keeper.close()


def define(daemon: Daemon) -> Any:
    """The server of the test driver has 3 GiB, and a machine of 8 GiB that is on."""
    connection = libvirt_room.need_binding().open(daemon.uri)
    connection.lookupByName("test").destroy()
    connection.storagePoolLookupByName("default-pool").createXML(IMAGE)
    connection.defineXML(TEMPLATE.replace("<memory unit='GiB'>2<", "<memory unit='MiB'>512<"))
    return connection


def served(top: Path, daemon: Daemon) -> Served:
    found = Served(top, "s1", daemon.uri)
    found.host.follow(SMALL)
    return found


class Told:
    """The daemon of the server: the last state that it was told."""

    def __init__(self) -> None:
        self.last: ServerState | None = None

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        said = decode_said(data)
        assert isinstance(said, SaidServer)
        self.last = said.server

    async def next(self) -> bytes | None:
        await trio.sleep_forever()
        return None

    def has(self, **wanted: str) -> bool:
        there = {} if self.last is None else {each.name: each.state for each in self.last.machines}
        return all(there.get(name) == word for name, word in wanted.items())


async def test_a_libvirtd_that_restarts_is_told_and_used_again(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test driver loses its machines then, which qemu's does not."""
    monkeypatch.setattr(telling, "PAUSE_S", 0.01)
    one, told = served(tmp_path, daemon), Told()
    tells = Telling(one.host)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tells.watch)
        nursery.start_soon(tells.tell, told)
        await until(lambda: told.has(alma="off"), "the first state")
        assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
        await until(lambda: told.has(**{"alma-1": "on"}), "its start, by an event")
        await trio.to_thread.run_sync(daemon.stop)
        await until(lambda: told.last is not None and told.last.fault, "that libvirtd is away")
        assert told.has(**{"alma-1": "on"}), "what was there at last is still told, with its age"
        answer = await one.ask()
        assert "install and start libvirtd there" in answer.fault
        await trio.to_thread.run_sync(daemon.start)
        keeper = await trio.to_thread.run_sync(define, daemon)
        await until(lambda: told.last is not None and not told.last.fault, "that it is back")
        assert not (await one.ask()).fault
        assert await one.do(Clone("alma-2", "alma", "s1")) == [Done()]
        await until(lambda: told.has(**{"alma-2": "on"}), "a start by the new libvirtd")
        nursery.cancel_scope.cancel()
    keeper.close()
    one.power.close()


async def test_a_libvirtd_that_hangs_holds_up_no_answer_and_what_is_under_way_counts(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "LOOK_S", 0.5)
    one = served(tmp_path, daemon)
    await one.do(Clone("alma-1", "alma", "s1"))
    assert (await one.settled())["alma-1"].state == State.ON
    assert await one.do(Stop("alma-1", "s1")) == [Done()]
    daemon.signal(signal.SIGSTOP)
    try:
        with trio.fail_after(WAIT_S):
            answer = await one.ask()
        assert "has not answered for 0.5 s" in answer.fault
        assert not answer.server.is_reachable
        assert one.host.works.under_way["alma-1"].doing is Doing.STOPPING
    finally:
        daemon.signal(signal.SIGCONT)
    there: Any = await one.settled()
    assert there["alma-1"].is_still
    one.power.close()


async def test_an_agent_that_dies_finds_all_machines_again(daemon: Daemon, tmp_path: Path) -> None:
    """Also those that were started by hand, or are not ours."""
    one = served(tmp_path, daemon)
    await one.do(Clone("alma-1", "alma", "s1"), Clone("alma-2", "alma", "s1"))
    await one.settled()
    one.raw.defineXML(libvirt_room.TEMPLATE.format(name="foreign", cores=1)).create()
    one.power.close()
    other = served(tmp_path, daemon)
    there = await other.machines()
    assert {name: (each.type, each.state.value) for name, each in there.items() if each.is_counted} == {
        "alma-1": ("alma", "on"),
        "alma-2": ("alma", "on"),
        "foreign": ("", "on"),
    }
    other.power.close()
