"""What a person, a full disk or a dying libvirtd does to a real libvirtd: a clear word, and nothing is lost.

The first part has the test driver, whose images have no files; the second one the driver of qemu with real images,
without guests. The second part needs `apt-get install libvirt-daemon-driver-qemu qemu-system-x86 qemu-utils
busybox-static cpio`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import libvirt_room
import pytest
import qemu_room
import trio

from subord.services.machines.power.changes import cloning
from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.power.moving import cold_move
from subord.services.machines.power.records import Done, Fault, Found, Refused, Stage, State, Unavailable

TEMPLATE = libvirt_room.TEMPLATE.format(name="alma", cores=2).replace("/images/", "/default-pool/")
QEMU_TEMPLATE = """<domain type='qemu'><name>alma</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><source file='{pool}/alma.img'/><target dev='vda' bus='virtio'/></disk></devices>
</domain>"""
IMAGE = """<volume><name>alma.img</name><capacity unit='MiB'>{mib}</capacity>
  <allocation unit='MiB'>{mib}</allocation><target><format type='raw'/></target></volume>"""
SMALL_MIB, IMAGE_MIB, LARGE_MIB = 8, 3, 256


def always(*_: object) -> str:
    return ""


async def named(power: LibvirtPower) -> dict[str, Found]:
    found = await power.machines()
    assert not isinstance(found, Unavailable), found
    return {each.name: each for each in found}


def refused(outcome: object, *words: str) -> None:
    assert isinstance(outcome, Refused), outcome
    for each in words:
        assert each in outcome.reason


def volumes(connection: Any, pool: str) -> list[str]:
    found = connection.storagePoolLookupByName(pool)
    found.refresh()
    return sorted(found.listVolumes())


# -- the test driver ------------------------------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A connection of a person, which keeps the machines of the test driver, and its URI."""
    # A socket's path has at most 107 bytes.
    with libvirt_room.running(tmp_path_factory.mktemp("lv") / "d") as daemon:
        connection = libvirt_room.need_binding().open(daemon.uri)
        pool = connection.storagePoolLookupByName("default-pool")
        pool.createXML(libvirt_room.VOLUME.format(name="alma.qcow2", gib=40))
        connection.defineXML(TEMPLATE)
        yield connection, daemon.uri
        connection.close()


@pytest.mark.slow
async def test_what_persons_do_to_machines_and_templates(person: tuple[Any, str]) -> None:
    connection, uri = person
    power = LibvirtPower(uri, cluster="physics", server="s1")
    refused(await power.clone("rocky", "rocky"), "there is no template rocky", "nothing was cloned")
    connection.lookupByName("alma").create()
    refused(await power.clone("alma", "alma"), "alma is running", "stop it first")
    connection.lookupByName("alma").destroy()
    assert await power.clone("alma", "alma") == Done(True, "alma-1")
    refused(await power.clone("alma", "alma"), "the storage is full", "20480 MiB free", "delete machines or images")
    assert await power.start("alma-1", always) == Done(True, "alma-1")
    by_hand = connection.lookupByName("alma-1")
    by_hand.suspend()
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: power.start("alma-1", always),
        lambda: power.stop("alma-1", within=0),
        lambda: power.delete("alma-1"),
        lambda: power.leave("alma-1", "s2"),
    ]
    for ask in asked:
        refused(await ask(), "alma-1 is paused")
        assert (await named(power))["alma-1"][2:4] == (State.PAUSED, "paused")
    by_hand.resume()
    assert await power.stop("alma-1", within=5) == Done(True, "alma-1")
    by_hand.undefine()
    refused(await power.start("alma-1", always), "there is no machine alma-1")
    assert await power.delete("alma-1") == Done(False, "alma-1")
    assert "alma-1" not in await named(power)
    power.close()


# -- real images ----------------------------------------------------------------------------------------------------


class Small(qemu_room.QemuDaemon):
    """Its pool is a file system of SMALL_MIB of its own."""

    @property
    def prefix(self) -> list[str]:
        mount = f'mount -t tmpfs -o size={SMALL_MIB}m tmpfs {self.folder}/pool; exec "$@"'
        return [*super().prefix, "sh", "-ec", mount, "sh"]


def served(daemon: qemu_room.QemuDaemon, mib: int, pool: Path | None = None) -> Any:
    """A started daemon with a template, whose image is made if it is not there; a connection of a person."""
    path = pool or daemon.folder / "pool"
    path.mkdir(exist_ok=True)
    daemon.start()
    connection = libvirt_room.need_binding().open(daemon.uri)
    images = connection.storagePoolDefineXML(qemu_room.POOL.format(path=path))
    images.create()
    if "alma.img" not in images.listVolumes():
        images.createXML(IMAGE.format(mib=mib))
    connection.defineXML(QEMU_TEMPLATE.format(pool=path))
    return connection


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    qemu_room.need_qemu()
    return tmp_path_factory.mktemp("lv")


@pytest.fixture
def small(folder: Path) -> Iterator[tuple[Any, str]]:
    daemon = Small(folder / "a")
    try:
        connection = served(daemon, IMAGE_MIB)
        yield connection, daemon.uri
        connection.close()
    finally:
        daemon.stop()


@pytest.mark.long
async def test_storage_that_is_full(small: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a copy, and amid it: another one has taken the room meanwhile."""
    connection, uri = small
    power = LibvirtPower(uri, cluster="physics", server="s1")
    assert await power.clone("alma", "alma") == Done(True, "alma-1")
    before = volumes(connection, "images")
    assert len(before) == 2
    words = "the storage is full", "nothing was cloned", "delete machines or images there"
    refused(await power.clone("alma", "alma"), *words)
    with monkeypatch.context() as patch:
        patch.setattr(cloning, "_check_room", lambda _: None)
        refused(await power.clone("alma", "alma"), "No space left on device")
    assert (list(await named(power)), volumes(connection, "images")) == (["alma", "alma-1"], before)
    assert await power.delete("alma-1") == Done(True, "alma-1")
    assert await power.clone("alma", "alma") == Done(True, "alma-1")
    power.close()


@pytest.mark.long
async def test_storage_that_is_stopped_and_images_that_are_deleted_by_hand(small: tuple[Any, str]) -> None:
    connection, uri = small
    power = LibvirtPower(uri, cluster="physics", server="s1")
    assert await power.clone("alma", "alma") == Done(True, "alma-1")
    connection.storagePoolLookupByName("images").destroy()
    refused(await power.clone("alma", "alma"), "alma.img", "is in no storage pool that is active", "start the pool")
    connection.storagePoolLookupByName("images").create()
    (image,) = set(volumes(connection, "images")) - {"alma.img"}
    connection.storagePoolLookupByName("images").storageVolLookupByName(image).delete()
    outcome = await power.start("alma-1", always)
    assert isinstance(outcome, Unavailable)
    assert outcome.fault == Fault.FAILED
    assert image in outcome.reason
    assert (await named(power))["alma-1"].state == State.OFF
    assert await power.delete("alma-1") == Done(True, "alma-1")
    assert list(await named(power)) == ["alma"]
    power.close()


@pytest.mark.long
async def test_an_image_whose_file_is_removed_hides_no_machine(folder: Path) -> None:
    """libvirt still has the volume, until its pool is looked at again."""
    daemon = qemu_room.QemuDaemon(folder / "a")
    pool = folder / "pool"
    try:
        served(daemon, IMAGE_MIB, pool).close()
        power = LibvirtPower(daemon.uri, cluster="physics", server="s1")
        assert await power.clone("alma", "alma") == Done(True, "alma-1")
        (image,) = (path for path in pool.iterdir() if path.name != "alma.img")
        image.unlink()
        found = await named(power)
        assert (found["alma-1"].state, found["alma-1"].disk) == (State.OFF, 0)
        assert found["alma"].disk == IMAGE_MIB
        assert await power.delete("alma-1") == Done(True, "alma-1")
        power.close()
    finally:
        daemon.stop()


@pytest.mark.long
async def test_a_libvirtd_that_is_killed_amid_a_copy(folder: Path) -> None:
    """The next call deletes what was begun, and makes the clone anew."""
    daemon = qemu_room.QemuDaemon(folder / "a")
    pool = folder / "pool"
    pool.mkdir()
    with (pool / "alma.img").open("wb") as image:
        for _ in range(LARGE_MIB):
            image.write(os.urandom(1 << 20))
    try:
        served(daemon, LARGE_MIB, pool).close()
        power = LibvirtPower(daemon.uri, cluster="physics", server="s1")
        outcomes: list[object] = []

        async def clone() -> None:
            outcomes.append(await power.clone("alma", "alma"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(clone)
            deadline = trio.current_time() + 60
            while len(list(pool.iterdir())) < 2:
                assert trio.current_time() < deadline, "nothing is copied"
                await trio.sleep(0.001)
            daemon.signal(signal.SIGSTOP)
            daemon.stop()
        assert isinstance(outcomes[0], Unavailable), "the copy had ended before"
        assert "call it again" in outcomes[0].reason
        daemon.start()
        assert (await named(power))["alma-1"].stage == Stage.CLONING
        assert await power.clone("alma", "alma") == Done(True, "alma-1")
        assert (await named(power))["alma-1"].stage == Stage.WHOLE
        (copy,) = (path for path in pool.iterdir() if path.name != "alma.img")
        assert copy.read_bytes() == (pool / "alma.img").read_bytes()
        power.close()
    finally:
        daemon.stop()


@pytest.mark.long
async def test_a_move_to_a_server_without_the_storage(small: tuple[Any, str], folder: Path) -> None:
    _, uri = small
    other = qemu_room.QemuDaemon(folder / "b")
    try:
        served(other, IMAGE_MIB).close()
        here, there = (
            LibvirtPower(uri, cluster="physics", server="s1"),
            LibvirtPower(other.uri, cluster="physics", server="s2"),
        )
        assert await here.clone("alma", "alma") == Done(True, "alma-1")
        refused(await cold_move("alma-1", here, there), "in no storage pool", "nothing was defined")
        assert (await named(here))["alma-1"].stage == Stage.WHOLE
        assert list(await named(there)) == ["alma"]
        here.close()
        there.close()
    finally:
        other.stop()
