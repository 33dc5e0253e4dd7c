"""Machines of twelve servers of 18 cores, on libvirt's test driver."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import libvirt_room
import pytest
import trio
from libvirt_room import CORES, MEMORY, host_file

from subord.services.machines.power.changes import common, starting
from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.power.link import Link
from subord.services.machines.power.moving import cold_move
from subord.services.machines.power.records import (
    Definition,
    Done,
    Event,
    EventKind,
    Fault,
    Found,
    Hardware,
    Refused,
    Stage,
    State,
    Unavailable,
)

SERVERS = 12


def fits(hardware: Hardware, there: tuple[Found, ...], machine: Found) -> str:
    """The simplest guard: cores alone."""
    used = sum(each.cores for each in there if each.state.occupies)
    return "" if used + machine.cores <= hardware.cores else f"{hardware.cores - used} cores are free"


def always(*_: object) -> str:
    return ""


def power_at(uri: str, name: str = "s1", **more: Any) -> LibvirtPower:
    return LibvirtPower(uri, cluster="physics", server=name, **more)


@pytest.fixture(autouse=True)
def binding_is_there() -> None:
    libvirt_room.need_binding()


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[LibvirtPower]:
    power = power_at(host_file(tmp_path / "s1.xml"))
    yield power
    power.close()


@pytest.fixture
async def two(tmp_path: Path, one: LibvirtPower) -> AsyncIterator[tuple[LibvirtPower, LibvirtPower]]:
    """Two servers; the second one has an image for alma-1, too, as if their storage were one."""
    other = power_at(host_file(tmp_path / "s2.xml", mhz=3000), "s2")
    assert await one.clone("alma", "alma") == Done(True, "alma-1")
    share_images(one, other)
    yield one, other
    other.close()


def share_images(one: LibvirtPower, other: LibvirtPower) -> None:
    pools = [raw(each).storagePoolLookupByName("images") for each in (one, other)]
    for name in set(pools[0].listVolumes()) - set(pools[1].listVolumes()):
        pools[1].createXML(libvirt_room.VOLUME.format(name=name, gib=10))


def raw(power: LibvirtPower) -> Any:
    """libvirt itself: what a person does by hand."""
    return power._link.connection()


async def named(power: LibvirtPower) -> dict[str, Found]:
    found = await power.machines()
    assert not isinstance(found, Unavailable)
    return {each.name: each for each in found}


def refused(outcome: object, *words: str) -> None:
    assert isinstance(outcome, Refused), outcome
    for each in words:
        assert each in outcome.reason


async def test_the_capacity_of_a_server(one: LibvirtPower) -> None:
    hardware = await one.capacity()
    assert isinstance(hardware, Hardware)
    assert (hardware.cores, hardware.memory, hardware.mhz) == (CORES, MEMORY, 2400)
    assert [(pool.name, pool.capacity, pool.free, pool.is_active) for pool in hardware.pools] == [
        ("images", 102400, 92160, True)
    ]


async def test_a_machine_from_its_template_to_its_end(one: LibvirtPower) -> None:
    assert await one.clone("alma", "alma") == Done(True, "alma-1")
    found = (await named(one))["alma-1"]
    assert found[2:] == (State.OFF, "shut off", 2, 2048, 10240, "alma", Stage.WHOLE, "")
    assert await one.start("alma-1", fits) == Done(True, "alma-1")
    assert await one.start("alma-1", fits) == Done(False, "alma-1")
    assert (await named(one))["alma-1"].state == State.ON
    refused(await one.delete("alma-1"), "alma-1 is running", "stop it first")
    assert await one.stop("alma-1", within=5) == Done(True, "alma-1")
    assert await one.stop("alma-1", within=5) == Done(False, "alma-1")
    assert await one.delete("alma-1") == Done(True, "alma-1")
    assert await one.delete("alma-1") == Done(False, "alma-1")
    assert list(await named(one)) == ["alma"]
    assert raw(one).storagePoolLookupByName("images").listVolumes() == ["alma.qcow2"]


async def test_a_clone_is_a_machine_of_its_own(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    template, clone = (raw(one).lookupByName(name).XMLDesc(2) for name in ("alma", "alma-1"))
    assert "52:54:00:00:00:01" in template
    assert "52:54:00:00:00:01" not in clone
    assert raw(one).lookupByName("alma").UUIDString() not in clone
    assert "/images/alma-1-vda-" in clone
    assert "/iso/tools.iso" in clone
    assert raw(one).lookupByName("alma-1").autostart() == 0
    refused(await one.start("alma", always), "alma is not a machine of the cluster")


async def test_names_are_the_lowest_free(one: LibvirtPower) -> None:
    for name in ("alma-1", "alma-2", "alma-4"):
        assert await one.clone("alma", "alma", taken={"alma-3"}) == Done(True, name)
    await one.delete("alma-2")
    assert await one.clone("alma", "alma", taken={"alma-3"}) == Done(True, "alma-2")
    assert await one.clone("alma", "alma", name="alma-2") == Done(False, "alma-2")
    refused(await one.clone("alma", "other", name="alma-2"), "the name alma-2 is taken", "nothing was cloned")
    refused(await one.clone("alma", "alma", name="../x"), "is not the name of a machine")


async def test_a_template_that_is_missing(one: LibvirtPower) -> None:
    refused(await one.clone("rocky", "rocky"), "there is no template rocky", "nothing was cloned")
    assert list(await named(one)) == ["alma"]


async def test_an_image_of_the_template_that_is_missing(one: LibvirtPower) -> None:
    raw(one).storageVolLookupByPath("/images/alma.qcow2").delete()
    refused(await one.clone("alma", "alma"), "/images/alma.qcow2", "in no storage pool", "nothing was cloned")
    assert list(await named(one)) == ["alma"]


async def test_a_template_that_runs(one: LibvirtPower) -> None:
    raw(one).lookupByName("alma").create()
    refused(await one.clone("alma", "alma"), "alma is running", "not cloned")


async def test_storage_that_is_full(tmp_path: Path) -> None:
    power = power_at(host_file(tmp_path / "full.xml", gib=40))
    assert await power.clone("alma", "alma") == Done(True, "alma-1")
    refused(await power.clone("alma", "alma"), "the storage is full", "20480 MiB free", "takes 40960")
    assert list(await named(power)) == ["alma", "alma-1"]


async def test_storage_that_becomes_full_leaves_nothing(one: LibvirtPower, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one has taken the room between the check and the copy."""
    from subord.services.machines.power.changes import cloning

    def greedy(copies: list[cloning.Copy]) -> None:
        copies[0].pool.createXML(libvirt_room.VOLUME.format(name="greedy", gib=85))

    monkeypatch.setattr(cloning, "_check_room", greedy)
    refused(await one.clone("alma", "alma"), "the storage is full")
    assert list(await named(one)) == ["alma"]
    assert "greedy" in raw(one).storagePoolLookupByName("images").listVolumes()


async def test_a_clone_that_was_interrupted_is_made_anew(one: LibvirtPower, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(common.Server, "mark", lambda *_: 1 / 0)  # all copied, and dead before the last step
        with pytest.raises(ZeroDivisionError):
            await one.clone("alma", "alma")
    assert (await named(one))["alma-1"].stage == Stage.CLONING
    refused(await one.start("alma-1", always), "is not complete", "was not started")
    assert await one.clone("alma", "alma") == Done(True, "alma-1")
    assert (await named(one))["alma-1"].stage == Stage.WHOLE
    assert len(raw(one).storagePoolLookupByName("images").listVolumes()) == 2


async def test_a_deletion_that_was_interrupted(one: LibvirtPower, monkeypatch: pytest.MonkeyPatch) -> None:
    await one.clone("alma", "alma")
    with monkeypatch.context() as patch:
        patch.setattr(common.Server, "undefine", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await one.delete("alma-1")
    refused(await one.start("alma-1", always), "partly deleted")
    assert await one.clone("alma", "alma") == Done(True, "alma-2")
    assert await one.delete("alma-1") == Done(True, "alma-1")


async def test_a_deletion_spares_what_others_use(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    text = raw(one).lookupByName("alma-1").XMLDesc(2)
    text = text[: text.index("<uuid>")] + text[text.index("</uuid>") + len("</uuid>") :]
    raw(one).defineXML(text.replace("<name>alma-1<", "<name>by-hand<"))
    await one.delete("alma-1")
    assert len(raw(one).storagePoolLookupByName("images").listVolumes()) == 2


@pytest.mark.parametrize("ask", ["start", "stop", "leave"])
async def test_an_unknown_machine(one: LibvirtPower, ask: str) -> None:
    match ask:
        case "start":
            refused(await one.start("nothing", always), "there is no machine nothing", "nothing was started")
        case "stop":
            assert await one.stop("nothing", within=1) == Done(False, "nothing")
        case _:
            assert await one.leave("nothing", "s2") is None


async def test_what_is_not_ours_is_seen_and_never_touched(one: LibvirtPower) -> None:
    foreign = LibvirtPower("", cluster="chemistry", server="s1")
    foreign._link = one._link
    await foreign.clone("alma", "alma")
    await foreign.start("alma-1", always)
    found = (await named(one))["alma-1"]
    assert (found.type, found.state, found.cores) == ("", State.ON, 2)
    for outcome in (
        await one.stop("alma-1", within=1),
        await one.start("alma-1", always),
        await one.delete("alma-1"),
        await one.leave("alma-1", "s2"),
    ):
        refused(outcome, "not a machine of the cluster physics", "not changed")
    assert (await named(one))["alma-1"].state == State.ON


async def test_a_machine_that_was_paused_by_hand(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    await one.start("alma-1", fits)
    raw(one).lookupByName("alma-1").suspend()
    found = (await named(one))["alma-1"]
    assert (found.state, found.word, found.state.occupies) == (State.PAUSED, "paused", True)
    refused(await one.start("alma-1", fits), "paused", "resume it")
    refused(await one.stop("alma-1", within=0), "paused", "keeps its memory")
    refused(await one.delete("alma-1"), "paused")
    assert (await named(one))["alma-1"].state == State.PAUSED


async def test_a_machine_that_is_paused_just_before_its_time_is_over(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    await one.start("alma-1", fits)
    raw(one).lookupByName("alma-1").suspend()
    starting.destroy(common.Server(raw(one), "physics"), "alma-1")
    assert (await named(one))["alma-1"].state == State.PAUSED


async def test_a_definition_changed_by_hand_while_the_machine_runs(one: LibvirtPower) -> None:
    """Until it stops it has what it started with, and when it starts again, what the definition has."""
    await one.clone("alma", "alma")
    await one.start("alma-1", fits)
    domain = raw(one).lookupByName("alma-1")
    for cores, counted in (("1", 2), ("7", 7)):
        raw(one).defineXML(re.sub("<vcpu(.*)>.<", rf"<vcpu\1>{cores}<", domain.XMLDesc(2)))
        assert (await named(one))["alma-1"].cores == counted


async def test_a_machine_renamed_by_hand_keeps_its_image_until_its_end(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    text = raw(one).lookupByName("alma-1").XMLDesc(2)
    raw(one).lookupByName("alma-1").undefine()
    raw(one).defineXML(text.replace("<name>alma-1<", "<name>renamed<"))
    assert (await named(one))["renamed"].type == "alma"
    await one.delete("renamed")
    assert raw(one).storagePoolLookupByName("images").listVolumes() == ["alma.qcow2"]


async def test_a_copy_made_by_hand_is_not_ours(one: LibvirtPower) -> None:
    await one.clone("alma", "alma")
    text = re.sub("<uuid>.*</uuid>", "", raw(one).lookupByName("alma-1").XMLDesc(2))
    raw(one).defineXML(text.replace("<name>alma-1<", "<name>copy<"))
    assert (await named(one))["copy"].type == ""
    refused(await one.delete("copy"), "not a machine of the cluster physics")


async def test_a_guest_that_does_not_shut_down(one: LibvirtPower, monkeypatch: pytest.MonkeyPatch) -> None:
    await one.clone("alma", "alma")
    await one.start("alma-1", fits)
    asked: list[str] = []
    monkeypatch.setattr(starting, "shut_down", lambda _, name: asked.append(name))
    began = trio.current_time()
    assert await one.stop("alma-1", within=0.5) == Done(True, "alma-1")
    assert 0.5 <= trio.current_time() - began < 30
    assert asked == ["alma-1"]


async def test_starts_at_once_are_judged_one_after_the_other(one: LibvirtPower) -> None:
    """Of eight machines of four cores and one of two there fit four and one."""

    def slowly(*what: Any) -> str:
        time.sleep(0.02)
        return fits(*what)

    names = [f"alma-{number}" for number in range(1, 10)]
    for name in names:
        await one.clone("alma", "alma", name=name)
        if name != "alma-1":
            raw(one).lookupByName(name).setVcpusFlags(4, 2 | 4)
    outcomes: list[object] = []

    async def start(name: str) -> None:
        outcomes.append(await one.start(name, slowly))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(start, name)
    used = sum(each.cores for each in (await named(one)).values() if each.state.occupies)
    assert used == CORES
    assert sum(isinstance(each, Done) for each in outcomes) == 5


@pytest.mark.slow
async def test_twelve_servers_are_filled_and_none_more(tmp_path: Path) -> None:
    powers = [power_at(host_file(tmp_path / f"s{number}.xml", gib=1), f"s{number}") for number in range(SERVERS)]
    started, full = 0, 0
    for power in powers:
        for number in range(10):
            cloned = await power.clone("alma", "alma")
            assert cloned == Done(True, f"alma-{number + 1}")
            outcome = await power.start(f"alma-{number + 1}", fits)
            started += isinstance(outcome, Done)
            full += outcome == Refused("0 cores are free")
    assert (started, full) == (SERVERS * 9, SERVERS)
    used = [each.cores for power in powers for each in (await named(power)).values() if each.state.occupies]
    assert sum(used) == 216


async def test_a_cold_move(two: tuple[LibvirtPower, LibvirtPower]) -> None:
    here, there = two
    before = (await named(here))["alma-1"]
    assert await cold_move("alma-1", here, there) == Done(True, "alma-1")
    assert "alma-1" not in await named(here)
    assert (await named(there))["alma-1"] == before
    assert await cold_move("alma-1", here, there) == Done(False, "alma-1")
    assert await there.start("alma-1", fits) == Done(True, "alma-1")
    assert await cold_move("alma-1", there, here) != Done(True, "alma-1")


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("is_told", [True, False], ids=["dead after", "dead before"])
async def test_a_move_after_a_death_at_any_step(
    two: tuple[LibvirtPower, LibvirtPower], monkeypatch: pytest.MonkeyPatch, steps: int, is_told: bool
) -> None:
    """Of the four steps some are done; then the process dies, with the next one done or not."""
    here, there = two
    with monkeypatch.context() as patch:
        power, name = ((here, "leave"), (there, "arrive"), (here, "forget"), (there, "settle"))[steps]
        patch.setattr(power, name, _dying(getattr(power, name), is_told))
        with pytest.raises(InterruptedError):
            await cold_move("alma-1", here, there)
    assert sum([await can_start(here), await can_start(there)]) <= 1
    assert await cold_move("alma-1", here, there) == Done(steps < 3 or (steps == 3 and not is_told), "alma-1")
    assert [await can_start(here), await can_start(there)] == [False, True]


def _dying(step: Any, is_done: bool) -> Any:
    async def die(*words: Any) -> None:
        if is_done:
            await step(*words)
        raise InterruptedError

    return die


async def can_start(power: LibvirtPower) -> bool:
    """Starts it, and stops it again."""
    is_on = isinstance(await power.start("alma-1", always), Done)
    if is_on:
        await power.stop("alma-1", within=1)
    return is_on


async def test_a_move_to_a_server_without_the_image(tmp_path: Path, one: LibvirtPower) -> None:
    other = power_at(host_file(tmp_path / "s2.xml"), "s2")
    await one.clone("alma", "alma")
    refused(await cold_move("alma-1", one, other), "in no storage pool that is active on this server")
    assert await can_start(one)
    assert list(await named(other)) == ["alma"]


async def test_a_move_where_the_name_is_taken(two: tuple[LibvirtPower, LibvirtPower]) -> None:
    here, there = two
    await there.clone("alma", "alma")
    refused(await cold_move("alma-1", here, there), "another machine with the name", "nothing was defined")
    assert await can_start(here)


async def test_a_machine_that_is_on_is_not_moved(two: tuple[LibvirtPower, LibvirtPower]) -> None:
    here, there = two
    await here.start("alma-1", fits)
    refused(await cold_move("alma-1", here, there), "alma-1 is running", "was not moved")
    assert list(await named(there)) == ["alma"]


async def test_a_move_to_a_third_server_waits_for_the_first(two: tuple[LibvirtPower, LibvirtPower]) -> None:
    here, there = two
    definition = await here.leave("alma-1", "s3")
    assert definition is not None
    refused(await cold_move("alma-1", here, there), "is moving to s3")
    refused(await here.delete("alma-1"), "is moving to s3")
    assert await here.stay("alma-1", "s3") == Done(True, "alma-1")
    assert await cold_move("alma-1", here, there) == Done(True, "alma-1")


async def test_a_machine_started_by_hand_amid_a_move(two: tuple[LibvirtPower, LibvirtPower]) -> None:
    here, there = two
    definition = await here.leave("alma-1", "s2")
    assert isinstance(definition, Definition)
    raw(here).lookupByName("alma-1").create()
    await there.arrive(definition, "s1")
    refused(await here.forget("alma-1", "s2"), "alma-1 is running")
    assert not isinstance(await there.start("alma-1", always), Done)
    refused(await cold_move("alma-1", here, there), "alma-1 is running")


async def test_events_of_machines(one: LibvirtPower) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.watch)
        assert await one.events.receive() == Event(EventKind.CONNECTED)
        await one.clone("alma", "alma")
        await one.start("alma-1", fits)
        raw(one).lookupByName("alma-1").suspend()
        kinds: list[EventKind] = []
        with trio.fail_after(30):
            while not kinds or kinds[-1] != EventKind.PAUSED:
                event = await one.events.receive()
                assert event.machine == "alma-1"
                kinds.append(event.kind)
        assert kinds == [EventKind.DEFINED, EventKind.STARTED, EventKind.PAUSED]
        nursery.cancel_scope.cancel()


def test_a_broken_connection_that_a_call_finds_first_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Event] = []
    link = Link(host_file(tmp_path / "s1.xml"), heard.append)
    link.connection()
    with monkeypatch.context() as patch:
        patch.setattr(link, "is_alive", lambda: False)
        link.connection()
    link.connection()
    link._lose(1)
    assert [event.kind for event in heard] == [EventKind.CONNECTED, EventKind.LOST, EventKind.CONNECTED]
    link.close()


async def test_a_server_without_libvirt() -> None:
    power = power_at("test:///nowhere/host.xml")
    found = await power.machines()
    assert isinstance(found, Unavailable)
    assert "cannot be reached" in found.reason
    outcome = await power.start("alma-1", always)
    assert isinstance(outcome, Unavailable)
    gone = await power_at("qemu+unix:///system?socket=/nowhere/libvirt-sock").capacity()
    assert isinstance(gone, Unavailable)
    assert gone.fault == Fault.MISSING
    assert "start libvirtd" in gone.reason


async def test_libvirt_prints_nothing(one: LibvirtPower, capfd: pytest.CaptureFixture[str]) -> None:
    await one.start("nothing", always)
    await one.clone("nothing", "alma")
    await power_at("test:///nowhere/host.xml").machines()
    assert capfd.readouterr() == ("", "")
