"""Two small guests on two servers of qemu, from the template to the end, with a cold move between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import libvirt_room
import pytest
import qemu_room
import trio

from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.power.moving import cold_move
from subord.services.machines.power.records import Done, Event, EventKind, Refused, State, Unavailable

pytestmark = pytest.mark.long


@pytest.fixture
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[qemu_room.QemuDaemon, qemu_room.QemuDaemon]]:
    qemu_room.need_qemu()
    top = tmp_path_factory.mktemp("lv")
    with ExitStack() as stack:
        pair = (qemu_room.QemuDaemon(top / "a"), qemu_room.QemuDaemon(top / "b"))
        for each in pair:
            each.start()
            stack.callback(each.end_guests)
            stack.callback(each.stop)
        kernel, initrd = qemu_room.guest_files(top / "guest")
        define(top, pair, kernel, initrd)
        yield pair


def define(top: Path, daemons: tuple[qemu_room.QemuDaemon, ...], kernel: Path, initrd: Path) -> None:
    """One pool, as of shared storage; a template whose guests shut down, and one whose guests do not."""
    (top / "pool").mkdir()
    for daemon in daemons:
        connection = libvirt_room.need_binding().open(daemon.uri)
        pool = connection.storagePoolDefineXML(qemu_room.POOL.format(path=top / "pool"))
        pool.create()
        if "tiny.qcow2" not in pool.listVolumes():
            pool.createXML(qemu_room.VOLUME)
        for name, words in (("polite", ""), ("deaf", "deaf")):
            template = qemu_room.TEMPLATE.format(
                name=name, kernel=kernel, initrd=initrd, words=words, pool=top / "pool"
            )
            connection.defineXML(template)
        connection.close()


def always(*_: object) -> str:
    return ""


async def state_of(power: LibvirtPower, name: str) -> State:
    found = await power.machines()
    assert not isinstance(found, Unavailable), found
    return next(each.state for each in found if each.name == name)


async def test_two_guests_start_move_stop_and_are_deleted(
    daemons: tuple[qemu_room.QemuDaemon, qemu_room.QemuDaemon],
) -> None:
    one, other = (LibvirtPower(each.uri, cluster="physics", server=each.folder.name) for each in daemons)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.watch)
        with trio.fail_after(300):
            for kind in ("polite", "deaf"):
                assert await one.clone(kind, kind) == Done(True, f"{kind}-1")
                assert await one.start(f"{kind}-1", always) == Done(True, f"{kind}-1")
            # The agent of the server and libvirtd restart, and the guests go on.
            daemons[0].stop()
            daemons[0].start()
            assert await state_of(one, "polite-1") == State.ON
            deaf = libvirt_room.need_binding().open(daemons[0].uri).lookupByName("deaf-1")
            deaf.suspend()
            assert await state_of(one, "deaf-1") == State.PAUSED
            assert isinstance(await one.stop("deaf-1", within=2), Refused)
            deaf.resume()
            began = trio.current_time()
            assert await one.stop("polite-1", within=120) == Done(True, "polite-1")
            assert trio.current_time() - began < 100
            assert await one.stop("deaf-1", within=2) == Done(True, "deaf-1")
            assert await cold_move("polite-1", one, other) == Done(True, "polite-1")
            assert await other.start("polite-1", always) == Done(True, "polite-1")
            assert await other.stop("polite-1", within=0) == Done(True, "polite-1")
            for power, name in ((other, "polite-1"), (one, "deaf-1")):
                assert await power.delete(name) == Done(True, name)
            assert [path.name for path in (daemons[0].folder.parent / "pool").iterdir()] == ["tiny.qcow2"]
        nursery.cancel_scope.cancel()
    kinds = [event.kind for event in drained(one)]
    assert kinds.count(EventKind.LOST) == 1
    assert kinds.count(EventKind.STARTED) == 2
    for power in (one, other):
        power.close()


def drained(power: LibvirtPower) -> list[Event]:
    found = []
    while power.events.statistics().current_buffer_used:
        found.append(power.events.receive_nowait())
    return found
