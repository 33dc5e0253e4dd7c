"""The part of a server on libvirt's test driver: what it answers, obeys and refuses, and what it keeps."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from math import inf, nan
from pathlib import Path
from typing import Any

import libvirt_room
import msgspec
import pytest
import trio
from conditions import until
from libvirt_room import CORES, host_file
from loops import over

from subord.config.schema import MachinesConfig
from subord.services.machines import task
from subord.services.machines.model import Capacity, Doing, Machine, State
from subord.services.machines.orders import (
    Action,
    Arrive,
    Clone,
    Delete,
    Fence,
    Forget,
    Order,
    Settle,
    Start,
    Stay,
    Step,
    Stop,
)
from subord.services.machines.plan import Plan, Type
from subord.services.machines.power import binding
from subord.services.machines.power.driver import LibvirtPower
from subord.services.machines.servers import Answer
from subord.services.machines.serving import kept
from subord.services.machines.serving.doing import BUG
from subord.services.machines.serving.host import Host
from subord.services.machines.serving.kept import Kept
from subord.services.machines.serving.telling import Telling, answer_of
from subord.services.machines.task import Do, Done, Results, decode_said, encode, told_of

ALMA = Type(name="alma", template="alma", queues=("long",), cores=2, memory_mb=2048, image_mb=10_240)
PLAN = Plan(manager=1, types=(ALMA,), store_mb=1_000_000, always_on=("alma-9",))
FENCE = Fence(1, 1000)
CONFIG = MachinesConfig(uri="test:///x", reserve_mb=0)
NUMBERS = count(1)


@pytest.fixture(autouse=True)
def binding_is_there() -> None:
    libvirt_room.need_binding()


class Served:
    """A server with its libvirt, and what the queue's node says to it."""

    def __init__(self, top: Path, name: str, uri: str = "", **config: Any) -> None:
        self.directory = top / f"agent-{name}"
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.power = LibvirtPower(uri or host_file(top / f"{name}.xml"), cluster="physics", server=name)
        self.name = name
        self.config = msgspec.structs.replace(CONFIG, **config)
        self.restart()

    def restart(self) -> None:
        """The agent; its libvirt goes on."""
        self.host = Host(self.name, self.config, str(self.directory), self.power)
        self.host.follow(PLAN)

    @property
    def raw(self) -> Any:
        """libvirt itself: what a person does by hand."""
        return self.power._link.connection()

    async def ask(self, fence: Fence = FENCE) -> Answer:
        said = decode_said(answer_of(self.host, *await self.host.ask(fence)))
        assert isinstance(said, task.Answer)
        return said.heard

    async def machines(self) -> dict[str, Machine]:
        answer = await self.ask()
        assert not answer.fault, answer.fault
        return {each.name: each for each in answer.server.machines}

    async def do(self, *actions: Action | Step, fence: Fence = FENCE, **changes: Any) -> list[Done]:
        """Over the wire."""
        told = [told_of(Order(fence, next(NUMBERS), time.time() + 20, each)) for each in actions]
        orders = tuple(msgspec.structs.replace(each, **changes) for each in told if each is not None)
        results = await self.said(Do(*fence, "10.0.0.1", orders))
        assert not results.fault, results.fault
        return list(results.results)

    async def said(self, given: Do) -> Results:
        found = decode_said(encode(await self.host.do(msgspec.msgpack.decode(encode(given), type=Do))))
        assert isinstance(found, Results)
        return found

    async def settled(self) -> dict[str, Machine]:
        """When nothing is under way."""
        await until(lambda: not self.host.works.under_way, "the end of what is under way")
        return await self.machines()


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Served]:
    served = Served(tmp_path, "s1")
    yield served
    served.power.close()


@pytest.fixture
async def two(tmp_path: Path, one: Served) -> AsyncIterator[tuple[Served, Served]]:
    """Two servers with one store of images; the first one has a machine."""
    other = Served(tmp_path, "s2")
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    await one.do(Stop("alma-1", "s1"))
    assert (await one.settled())["alma-1"].is_still
    pools = [each.raw.storagePoolLookupByName("images") for each in (one, other)]
    for name in set(pools[0].listVolumes()) - set(pools[1].listVolumes()):
        pools[1].createXML(libvirt_room.VOLUME.format(name=name, gib=10))
    yield one, other
    other.power.close()


# -- a life of a machine --------------------------------------------------------------------------------------------


async def test_it_is_cloned_started_stopped_and_deleted(one: Served) -> None:
    assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
    under_way = (await one.machines())["alma-1"]
    assert under_way.is_counted
    there = (await one.settled())["alma-1"]
    assert (there.state, there.type, there.need, there.doing) == (State.ON, "alma", ALMA.need, None)
    assert time.time() - 5 < there.since <= time.time()
    assert await one.do(Stop("alma-1", "s1")) == [Done()]
    assert (await one.settled())["alma-1"].is_still
    assert await one.do(Start("alma-1", "s1")) == [Done()]
    assert (await one.settled())["alma-1"].state == State.ON
    await one.do(Stop("alma-1", "s1"))
    await one.settled()
    assert await one.do(Delete("alma-1", "s1")) == [Done()]
    assert set(await one.settled()) == {"alma"}
    assert await one.do(Delete("alma-1", "s1"), Stop("alma-1", "s1")) == [Done(), Done()], "it is done already"


async def test_an_answer_has_all_machines_and_what_is_free(one: Served) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    answer = await one.ask(Fence(1, 1001))
    server = answer.server
    assert (server.name, server.capacity, server.mhz) == ("s1", Capacity(CORES, 49152, 0, 64), 2400)
    assert {each.name: each.type for each in server.machines} == {"alma": "", "alma-1": "alma"}
    assert (answer.fence, answer.fault, answer.pools) == (Fence(1, 1001), "", {"images": 80 * 1024})
    assert abs(answer.now - time.time()) < 5


async def test_several_orders_at_once_each_for_itself(one: Served) -> None:
    names = [f"alma-{number}" for number in range(1, 9)]
    assert await one.do(*(Clone(each, "alma", "s1") for each in names)) == [Done()] * 8
    # Eight have 16 of 18 cores, as soon as they are ordered.
    last, over_ = await one.do(Clone("alma-x", "alma", "s1"), Clone("alma-y", "alma", "s1"))
    assert last == Done()
    assert over_.fault == "0 of 2 cores are free on the server s1; nothing was started"
    assert over_.is_refused
    there = await one.settled()
    assert [there[each].state for each in (*names, "alma-x")] == [State.ON] * 9


# -- what is not obeyed ---------------------------------------------------------------------------------------------


async def test_the_room_is_judged_when_a_machine_starts_whatever_was_ordered(one: Served) -> None:
    """A machine that is not ours is started by hand while the image is copied."""
    foreign = one.raw.defineXML(libvirt_room.TEMPLATE.format(name="foreign", cores=CORES))
    assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
    foreign.create()
    there = await one.settled()
    assert there["alma-1"].state == State.OFF
    assert (await one.ask()).faults == {
        "alma-1": "0 of 2 cores are free on the server s1; nothing was started",
    }
    foreign.destroy()
    await one.do(Start("alma-1", "s1"))
    assert (await one.settled())["alma-1"].state == State.ON
    assert (await one.ask()).faults == {}, "the next change has come to something"


async def test_capacity_that_is_lowered_below_use_stops_nothing_and_starts_nothing(one: Served) -> None:
    await one.do(Clone("alma-1", "alma", "s1"), Clone("alma-2", "alma", "s1"))
    await one.settled()
    await one.do(Stop("alma-2", "s1"))
    await one.settled()
    one.config = msgspec.structs.replace(one.config, cores=1)
    one.restart()
    there = await one.machines()
    assert (there["alma-1"].state, there["alma-2"].state) == (State.ON, State.OFF)
    (done,) = await one.do(Start("alma-2", "s1"))
    assert done.fault == "0 of 2 cores are free on the server s1; nothing was started"
    state = await Telling(one.host).state()
    assert (state.have.cores, state.used.cores) == (1, 2)
    assert state.refusal == done.fault


async def test_a_machine_that_is_paused_by_hand_keeps_its_memory(one: Served) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    one.raw.lookupByName("alma-1").suspend()
    assert (await one.machines())["alma-1"].state == State.PAUSED
    for action in (Start("alma-1", "s1"), Stop("alma-1", "s1"), Delete("alma-1", "s1"), Start("alma-1", "s2", "s1")):
        (done,) = await one.do(action)
        assert done.is_refused
        assert "paused" in done.fault or "not off" in done.fault
        assert "nothing was" in done.fault
    assert one.raw.lookupByName("alma-1").state()[0] == 3


async def test_machines_that_are_not_ours_are_never_changed(one: Served) -> None:
    for action in (Start("alma", "s1"), Stop("alma", "s1"), Delete("alma", "s1"), Start("alma", "s2", "s1")):
        (done,) = await one.do(action)
        assert done.fault == "alma is not a machine of this service; nothing was done"
    (done,) = await one.do(Clone("alma-9", "alma", "s1"))
    assert "always on" in done.fault
    (done,) = await one.do(Clone("rocky-1", "rocky", "s1"))
    assert done.fault == "the plan of this server has no type rocky; nothing was cloned"
    (done,) = await one.do(Start("rocky-1", "s1"))
    assert done.fault == "there is no machine rocky-1 on the server s1; nothing was started"
    assert set(await one.settled()) == {"alma"}


async def test_an_order_is_obeyed_once_in_its_sequence_and_in_time(one: Served) -> None:
    until_ = time.time() + 20
    first, second = (told_of(Order(FENCE, number, until_, Clone("alma-1", "alma", "s1"))) for number in (5, 4))
    assert first is not None
    assert second is not None
    once = Do(*FENCE, "10.0.0.1", (first,))
    assert (await one.said(once)).results == (Done(),)
    await one.settled()
    again = "it was obeyed before, or a later one was; nothing was done again"
    for _ in range(2):
        assert [each.fault for each in (await one.said(once)).results] == [again]
        one.restart()  # it is on the disk
    assert [each.fault for each in (await one.said(Do(*FENCE, "10.0.0.1", (second,)))).results] == [again]
    (late,) = await one.do(Stop("alma-1", "s1"), expires=time.time() - 7)
    assert late.fault == "it came 7 s too late; nothing was done"
    assert (await one.settled())["alma-1"].state == State.ON


async def test_a_process_that_was_replaced_is_not_obeyed_also_after_a_restart(one: Served) -> None:
    assert (await one.ask(Fence(2, 50))).fence == Fence(2, 50)
    one.restart()
    (done,) = await one.do(Clone("alma-1", "alma", "s1"), fence=Fence(1, 9000))
    assert done.fault.startswith("it comes from life 9000 of plan 1, and this server obeys life 50 of plan 2")
    assert (await one.ask(Fence(1, 9000))).fence == Fence(2, 50)
    assert set(await one.settled()) == {"alma"}


async def test_a_drained_server_starts_nothing_also_after_a_restart(one: Served) -> None:
    assert await one.host.drain(is_drained=True) == Results(is_changed=True)
    assert await one.host.drain(is_drained=True) == Results()
    one.restart()
    assert (await one.ask()).server.is_drained
    (done,) = await one.do(Clone("alma-1", "alma", "s1"))
    assert done.fault == "the server s1 is drained; nothing was started"
    assert await one.host.drain(is_drained=False) == Results(is_changed=True)
    assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
    await one.settled()


# -- what is wrong --------------------------------------------------------------------------------------------------


async def test_a_template_that_is_missing(one: Served) -> None:
    one.raw.lookupByName("alma").undefine()
    assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
    assert await one.settled() == {}
    faults = (await one.ask()).faults
    assert faults == {
        "alma-1": "there is no template alma on this server; nothing was cloned: define it there, or correct the plan"
    }
    (told,) = (await Telling(one.host).state()).machines
    assert (told.name, told.fault) == ("alma-1", faults["alma-1"])


async def test_a_store_that_is_full(tmp_path: Path) -> None:
    one = Served(tmp_path, "full", host_file(tmp_path / "full.xml", gib=60))
    await one.do(Clone("alma-1", "alma", "full"))
    there = await one.settled()
    assert set(there) == {"alma"}, "what was begun is deleted again"
    assert "the storage is full, and nothing was cloned" in (await one.ask()).faults["alma-1"]
    one.power.close()


@over(
    ("uri", "words"),
    [
        ("test:///no/host.xml", "there is no file /no/host.xml"),
        ("test+unix:///default?socket=/no/libvirt-sock", "install and start libvirtd there"),
        ("strange:///x", "cannot be reached"),
    ],
)
async def test_a_server_without_libvirtd(tmp_path: Path, uri: str, words: str) -> None:
    one = Served(tmp_path, "s1", uri)
    for _ in range(2):
        answer = await one.ask()
        assert words in answer.fault
        assert answer.fence == FENCE
        assert not answer.server.is_reachable
        assert answer.server.machines == ()
    results = await one.said(Do(*FENCE, "10.0.0.1", ()))
    assert words in results.fault
    state = await Telling(one.host).state()
    assert (words in state.fault, state.at) == (True, 0.0)
    one.power.close()


async def test_a_server_without_the_binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "load", lambda: binding.missing(ImportError("No module named 'libvirt'")))
    one = Served(tmp_path, "s1")
    assert (await one.ask()).fault.startswith(
        "this Python has no libvirt (No module named 'libvirt'); no machine was"
    )
    assert "pip install 'subord[machines]'" in (await Telling(one.host).state()).fault


@over("expires", [inf, nan, 1e12])
async def test_an_order_without_an_end_does_not_damage_what_is_kept(one: Served, expires: float) -> None:
    (done,) = await one.do(Stop("alma-1", "s1"), expires=expires)
    assert "compare the clocks of the nodes" in done.fault
    assert await one.do(Stop("alma-1", "s1")) == [Done()]
    one.restart()
    assert not (await one.ask()).fault
    text = (one.directory / "machines" / "server.json").read_text()
    assert text.count("alma-1") == 1


async def test_orders_for_ever_more_machines_are_refused_and_the_file_can_be_read(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "OBEYED_MAX", 10)
    await one.do(*(Stop(f"m{number}", "s1") for number in range(10)))
    told = told_of(Order(FENCE, next(NUMBERS), time.time() + 20, Stop("n", "s1")))
    assert told is not None
    found = await one.said(Do(*FENCE, "10.0.0.1", (told,)))
    assert "for 11 machines within hours, and 10 are the most; nothing was done" in found.fault
    one.restart()
    assert not (await one.ask()).fault


def test_the_file_has_room_for_the_longest_names(tmp_path: Path) -> None:
    names = [f"{number:04}" + 60 * "\x01" for number in range(kept.OBEYED_MAX)]
    far = Fence(1 << 53, 1 << 53)
    Kept(str(tmp_path), "f").obey([Order(far, 1 << 53, 1e300, Stop(name, "s1")) for name in names], 0.0)
    assert len(Kept(str(tmp_path), "f").heard().numbers) == kept.OBEYED_MAX


async def test_a_file_that_is_damaged_lets_nothing_be_obeyed(one: Served) -> None:
    await one.ask(Fence(3, 7))
    path = one.directory / "machines" / "server.json"
    path.write_bytes(b"{")
    one.restart()
    answer = await one.ask()
    assert "is damaged, so it is not known which orders this server has obeyed" in answer.fault
    assert answer.fence == Fence(0, 0)
    order = told_of(Order(FENCE, 1, time.time() + 20, Clone("alma-1", "alma", "s1")))
    assert order is not None
    assert "is damaged" in (await one.said(Do(*FENCE, "10.0.0.1", (order,)))).fault
    assert "is damaged" in (await one.host.drain(is_drained=True)).fault
    assert "is damaged" in (await Telling(one.host).state()).fault
    path.unlink()
    assert set(await one.settled()) == {"alma"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
async def test_a_disk_that_takes_nothing_lets_nothing_be_obeyed(one: Served) -> None:
    await one.ask()
    (one.directory / "machines").chmod(0o500)
    assert "cannot be written to" in (await one.ask(Fence(9, 9))).fault
    (one.directory / "machines").chmod(0o700)
    assert (await one.ask(Fence(9, 9))).fence == Fence(9, 9)


async def test_a_full_disk_lets_nothing_be_obeyed(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from subord.services.machines.serving import kept

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    await one.ask()
    monkeypatch.setattr(kept, "write_whole", full)
    order = told_of(Order(FENCE, 1, time.time() + 20, Clone("alma-1", "alma", "s1")))
    assert order is not None
    given = Do(*FENCE, "10.0.0.1", (order,))
    assert "No space left on device; nothing was done: make room there" in (await one.said(given)).fault
    assert "No space left" in (await one.ask(Fence(5, 5))).fault
    monkeypatch.undo()
    assert (await one.said(given)).results == (Done(),), "it was not obeyed before"
    await one.settled()


async def test_a_name_is_free_only_when_the_last_machine_of_it_is_gone(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    await one.do(Stop("alma-1", "s1"))
    await one.settled()
    delete, may_end = one.power.delete, trio.Event()

    async def slow(name: str) -> Any:
        found = await delete(name)
        await may_end.wait()
        return found

    monkeypatch.setattr(one.power, "delete", slow)
    await one.do(Delete("alma-1", "s1"))
    with trio.fail_after(10):
        while "alma-1" in await one.machines():
            pass
    (done,) = await one.do(Clone("alma-1", "alma", "s1"))
    assert done.fault == "alma-1 is just deleting; nothing was cloned"
    may_end.set()
    await one.settled()
    assert await one.do(Clone("alma-1", "alma", "s1")) == [Done()]
    await one.settled()


async def test_a_bug_ends_one_work_alone(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(one.power, "clone", broken)
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    assert (await one.ask()).faults == {"alma-1": BUG}


async def test_a_libvirt_that_hangs_is_told_in_time(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from subord.services.machines.serving import host

    monkeypatch.setattr(host, "LOOK_S", 0.2)
    monkeypatch.setattr(one.power, "machines", trio.sleep_forever)
    answer = await one.ask(Fence(4, 4))
    assert answer.fault.startswith("libvirt at test:///x has not answered for 0.2 s")
    assert answer.fence == Fence(4, 4), "it is kept all the same"
    monkeypatch.undo()
    assert not (await one.ask()).fault


async def test_machines_beyond_the_room_of_an_answer(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    monkeypatch.setattr(task, "MACHINES_MAX", 1)
    answer = await one.ask()
    assert answer.fault.startswith("this server has 2 machines, which an answer has no room for")
    assert answer.server.machines == ()
    assert len((await Telling(one.host).state()).machines) == 2


async def test_what_an_agent_that_died_has_left_is_completed(one: Served) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    await one.do(Stop("alma-1", "s1"))
    await one.settled()
    mark(one, "alma-1", "cloning")
    one.restart()
    assert (await one.machines())["alma-1"].doing is Doing.DELETING
    assert set(await one.settled()) == {"alma"}


async def test_with_the_plan_off_or_for_trial_nothing_is_completed(one: Served) -> None:
    await one.do(Clone("alma-1", "alma", "s1"))
    await one.settled()
    await one.do(Stop("alma-1", "s1"))
    await one.settled()
    mark(one, "alma-1", "deleting")
    for given in (Plan(manager=0), msgspec.structs.replace(PLAN, is_trial=True)):
        one.host.follow(given)
        await one.machines()
        assert not one.host.works.under_way
        assert "alma-1" in await one.machines()


def mark(served: Served, name: str, stage: str) -> None:
    """As a change that was interrupted leaves it."""
    domain = served.raw.lookupByName(name)
    text = domain.metadata(2, "urn:subord:machine", 2)
    domain.setMetadata(2, text.replace("<machine ", f'<machine stage="{stage}" '), "subord", "urn:subord:machine", 2)


# -- moves ----------------------------------------------------------------------------------------------------------


async def moved(one: Served, other: Served, until_step: Callable[[str], bool]) -> None:
    """The steps of the queue's node, up to one."""
    (left,) = await one.do(Start("alma-1", "s2", "s1"))
    assert not left.fault
    if until_step("leave"):
        return
    if left.xml:
        assert await other.do(Arrive("alma-1", "s2", "s1", left.id, left.xml)) == [Done()]
        if until_step("arrive"):
            return
        assert await one.do(Forget("alma-1", "s1")) == [Done()]
        if until_step("forget"):
            return
    assert await other.do(Settle("alma-1", "s2", "s1")) == [Done()]


async def test_a_cold_move(two: tuple[Served, Served]) -> None:
    one, other = two
    await moved(one, other, lambda _: False)
    assert set(await one.settled()) == {"alma"}
    there = (await other.settled())["alma-1"]
    assert (there.state, there.type, there.came_from) == (State.ON, "alma", "")


@pytest.mark.parametrize("step", ["leave", "arrive", "forget"])
async def test_a_move_that_was_interrupted_starts_nowhere_and_goes_on(two: tuple[Served, Served], step: str) -> None:
    one, other = two
    await moved(one, other, lambda each: each == step)
    one.restart()
    other.restart()
    here, there = await one.machines(), await other.machines()
    assert here.get("alma-1", Machine("", ALMA.need, given_to="s2")).given_to == "s2"
    assert ("alma-1" in there) is (step != "leave")
    assert there.get("alma-1", Machine("", ALMA.need, came_from="s1")).came_from == "s1"
    for served in two:
        (done,) = await served.do(Start("alma-1", served.name))
        assert done.is_refused, done
    if step != "forget":
        (wrong,) = await one.do(Start("alma-1", "s3", "s1"))
        assert wrong.fault == "alma-1 was given to the server s2 before; nothing was done"
    await moved(one, other, lambda _: False)
    assert "alma-1" not in await one.settled()
    assert (await other.settled())["alma-1"].state == State.ON


async def test_a_server_that_refuses_a_machine_leaves_it_where_it_is(two: tuple[Served, Served]) -> None:
    one, other = two
    await other.host.drain(is_drained=True)
    (left,) = await one.do(Start("alma-1", "s2", "s1"))
    (refused,) = await other.do(Arrive("alma-1", "s2", "s1", left.id, left.xml))
    assert refused.is_refused
    assert "drained" in refused.fault
    assert await one.do(Stay("alma-1", "s1", "s2")) == [Done()]
    assert await one.do(Start("alma-1", "s1")) == [Done()]
    assert (await one.settled())["alma-1"].state == State.ON
    await other.host.drain(is_drained=False)
    (refused,) = await other.do(Arrive("alma-1", "s2", "s1", left.id, "<domain"))
    assert "is damaged" in refused.fault
    (refused,) = await other.do(Arrive("alma-9", "s2", "s1", left.id, left.xml))
    assert "always on" in refused.fault


async def test_a_machine_that_has_arrived_starts_only_where_there_is_room(two: tuple[Served, Served]) -> None:
    one, other = two
    await moved(one, other, lambda each: each == "forget")
    other.raw.defineXML(libvirt_room.TEMPLATE.format(name="foreign", cores=CORES)).create()
    (done,) = await other.do(Settle("alma-1", "s2", "s1"))
    assert done.fault == "0 of 2 cores are free on the server s2; nothing was started"
    assert (await other.settled())["alma-1"].is_still, "it is here now"


def macs(served: Served, name: str) -> list[str]:
    return re.findall(r"<mac address='([0-9a-f:]+)'", served.raw.lookupByName(name).XMLDesc(2))


async def test_a_moved_machine_keeps_its_addresses_and_is_as_the_template_of_its_new_server(
    two: tuple[Served, Served],
) -> None:
    one, other = two
    address = macs(one, "alma-1")
    (left,) = await one.do(Start("alma-1", "s2", "s1"))
    assert re.search("disk|emulator|source|vcpu|memory", left.xml) is None, "what the template says does not travel"
    # The key of the queue's node is stolen: it decides nothing about what runs on a server.
    forged = left.xml.replace("<devices>", "<vcpu>9</vcpu><devices><emulator>/tmp/evil</emulator>").replace(
        "</devices>", "<filesystem type='mount'><source dir='/'/><target dir='root'/></filesystem></devices>"
    )
    assert await other.do(Arrive("alma-1", "s2", "s1", left.id, forged)) == [Done()]
    found = other.raw.lookupByName("alma-1").XMLDesc(2)
    assert "evil" not in found
    assert "filesystem" not in found
    assert (await other.machines())["alma-1"].need == ALMA.need
    assert macs(other, "alma-1") == address
    assert await one.do(Forget("alma-1", "s1")) == [Done()]
    assert await other.do(Settle("alma-1", "s2", "s1")) == [Done()]
    assert (await other.settled())["alma-1"].state == State.ON


@over(
    ("old", "new", "words"),
    [
        ('type="alma"', 'type="rocky"', "is of no type of the plan of this server"),
        ('cluster="physics"', 'cluster="other"', "is not of a machine that moves"),
        ('stage="leaving"', "", "is not of a machine that moves"),
        (' id="', ' id="0', "has no id of a machine"),
    ],
)
async def test_what_is_no_machine_of_ours_does_not_arrive(
    two: tuple[Served, Served], old: str, new: str, words: str
) -> None:
    one, other = two
    (left,) = await one.do(Start("alma-1", "s2", "s1"))
    assert old in left.xml
    (refused,) = await other.do(Arrive("alma-1", "s2", "s1", left.id, left.xml.replace(old, new)))
    assert refused.is_refused
    assert words in refused.fault


async def test_a_machine_does_not_arrive_where_its_template_is_missing(two: tuple[Served, Served]) -> None:
    one, other = two
    (left,) = await one.do(Start("alma-1", "s2", "s1"))
    other.raw.lookupByName("alma").undefine()
    (refused,) = await other.do(Arrive("alma-1", "s2", "s1", left.id, left.xml))
    assert refused.is_refused
    assert refused.fault.startswith(
        "there is no template alma on this server, from which alma-1 would be defined here"
    )


async def test_a_definition_without_room_in_an_order_stays(
    two: tuple[Served, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    from subord.services.machines.serving import steps

    one, _ = two
    monkeypatch.setattr(steps, "XML_BYTES_MAX", 100)
    (done,) = await one.do(Start("alma-1", "s2", "s1"))
    assert done.is_refused
    assert "and an order has room for 100; it stays here" in done.fault
    assert (await one.machines())["alma-1"].is_still


async def test_a_machine_that_was_given_away_and_is_on_by_hand_is_not_forgotten(two: tuple[Served, Served]) -> None:
    one, other = two
    await moved(one, other, lambda each: each == "arrive")
    one.raw.lookupByName("alma-1").create()
    there = (await one.machines())["alma-1"]
    assert there.is_counted
    (done,) = await one.do(Forget("alma-1", "s1"))
    assert done.fault == "alma-1 is on here, by hand; nothing was forgotten: stop it"
