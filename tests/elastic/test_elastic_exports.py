"""The exports of the queue's node: their file, what is in force, and a death at any point."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from fake_machine import FakeCommands

from subord.services.batch.running import Ran
from subord.services.elastic.plan import Mount
from subord.services.elastic.preparing.exports import HEAD, Export, export, read, shown_by, unexport, wanted_of
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.machine import Machine

FIRST, SECOND = "10.0.0.7", "fd00::8"
BY_HAND = Export("/srv/apps", "10.9.9.9")


class DeathError(Exception):
    """The agent has ended."""


class Server:
    """A queue's node with an exportfs that has a table, as the real one. It reads one file of exports."""

    def __init__(self, place: Path) -> None:
        self.file = place / "exports.d" / "subord.exports"
        self.sources = place / "srv"
        for name in ("home", "apps"):
            (self.sources / name).mkdir(parents=True)
        self.table = {BY_HAND: "by hand"}
        self.commands = FakeCommands({"exportfs -a": self._all, "exportfs -s": self._show, "exportfs -u": self._end})
        self.machine = self.commands.machine()
        self.other_faults = 0

    def mounts(self, *names: str) -> list[Mount]:
        return [Mount(source=f"{self.sources}/{name}", target=f"/mnt/{name}") for name in names or ("home",)]

    def in_force(self) -> set[tuple[str, str]]:
        """Besides what was exported by hand."""
        return {(Path(each.directory).name, each.host) for each in self.table if each != BY_HAND}

    def _all(self, *_: str) -> tuple[int, str]:
        held = read(self.file.read_text())
        assert held is not None
        self.table |= {each: text for each, text in held.options.items() if os.path.isdir(each.directory)}
        failed = self.other_faults or any(not os.path.isdir(each.directory) for each in held.options)
        return int(bool(failed)), "exportfs: Failed to stat /other: No such file or directory" if failed else ""

    def _show(self, *_: str) -> tuple[int, str]:
        return 0, "".join(f"{each.directory}  {each.host}({text})\n" for each, text in self.table.items())

    def _end(self, *words: str) -> tuple[int, str]:
        for each in self.table:
            if each.words == words[-1]:
                del self.table[each]
                return 0, ""
        return 1, f"exportfs: Could not find '{words[-1]}' to unexport."


async def test_each_directory_has_a_line_with_the_addresses_of_the_nodes(tmp_path: Path) -> None:
    server = Server(tmp_path)
    apps = Mount(source=f"{tmp_path}/srv/apps", target="/mnt/apps", read_only=True)
    assert await export(str(server.file), [SECOND, FIRST], [*server.mounts("home"), apps], server.machine) == ""
    options = "sync,root_squash,no_subtree_check"
    assert server.file.read_text() == (
        f"{HEAD}\n"
        f"{tmp_path}/srv/apps 10.0.0.7(ro,{options}) fd00::8(ro,{options})\n"
        f"{tmp_path}/srv/home 10.0.0.7(rw,{options}) fd00::8(rw,{options})\n"
    )
    assert server.in_force() == {(name, host) for name in ("home", "apps") for host in (FIRST, SECOND)}
    assert [each.name for each in server.file.parent.iterdir()] == ["subord.exports"]


async def test_a_node_that_goes_is_exported_to_no_more_and_others_stay(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await export(str(server.file), [FIRST, SECOND], server.mounts(), server.machine)
    assert await unexport(str(server.file), [FIRST], server.mounts(), server.machine) == ""
    assert server.in_force() == {("home", FIRST)}
    assert SECOND not in server.file.read_text()
    assert await unexport(str(server.file), [], server.mounts(), server.machine) == ""
    assert set(server.table) == {BY_HAND}
    assert not server.file.exists()
    assert f"exportfs -u [fd00::8]:{tmp_path}/srv/home" in server.commands.ran


async def test_nothing_to_export_needs_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path)
    machine = FakeCommands(missing=["exportfs"]).machine(lacking="no rights")
    assert await export(str(server.file), [FIRST], [], machine) == ""
    assert await unexport(str(server.file), [], server.mounts(), machine) == ""
    assert not server.file.parent.exists()


async def test_an_equal_set_is_put_in_force_again_and_not_written(tmp_path: Path) -> None:
    """exportfs may not have been run before a death, or the machine was started anew."""
    server = Server(tmp_path)
    await export(str(server.file), [FIRST], server.mounts(), server.machine)
    before = server.file.stat()
    server.table = {BY_HAND: "by hand"}
    assert await export(str(server.file), [FIRST], server.mounts(), server.machine) == ""
    assert server.in_force() == {("home", FIRST)}
    assert server.file.stat().st_ino == before.st_ino


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("number", range(1, 6))
async def test_a_death_at_any_command_is_made_good_by_the_next_call(
    number: int, is_before: bool, tmp_path: Path
) -> None:
    """The queue's node gets one node more, and loses two, of which one had another directory of an earlier plan."""
    server = Server(tmp_path)
    file, counted = str(server.file), 0
    await export(file, [SECOND], server.mounts("home", "apps"), server.machine)
    await export(file, [FIRST, SECOND, "10.0.0.8"], server.mounts("home"), server.machine)

    async def dies(*words: str, limit_s: float = 1.0, environment: Sequence[str] | None = None) -> Ran:
        nonlocal counted
        counted += 1
        if counted == number and is_before:
            raise DeathError
        ran = await server.commands.run(*words, limit_s=limit_s, environment=environment)
        if counted == number:
            raise DeathError
        return ran

    async def change(machine: Machine) -> str:
        fault = await unexport(file, [FIRST], server.mounts("home"), machine)
        return fault or await export(file, [FIRST, "10.0.0.9"], server.mounts("home"), machine)

    with pytest.raises(DeathError):
        await change(server.machine._replace(run=dies))
    assert await change(server.machine) == ""
    assert server.in_force() == {("home", FIRST), ("home", "10.0.0.9")}
    assert "gone" not in server.file.read_text()


@pytest.mark.parametrize("names", [("home",), ()])
async def test_a_node_keeps_what_an_earlier_plan_has_exported_until_it_leaves(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """Its jobs have files open there: without the export they fail with stale file handles."""
    server = Server(tmp_path)
    file = str(server.file)
    await export(file, [FIRST, SECOND], server.mounts("home", "apps"), server.machine)
    mounts = server.mounts(*names) if names else []
    for work in (export, unexport):
        assert await work(file, [FIRST, "10.0.0.9"], mounts, server.machine) == ""
    assert server.in_force() == {("home", FIRST), ("apps", FIRST), *((name, "10.0.0.9") for name in names)}
    assert await unexport(file, ["10.0.0.9"], mounts, server.machine) == ""
    assert server.in_force() == {(name, "10.0.0.9") for name in names}


async def test_a_file_of_others_is_never_touched(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.file.parent.mkdir()
    server.file.write_text("/srv *(rw)\n")
    for work in (export, unexport):
        fault = await work(str(server.file), [FIRST], server.mounts(), server.machine)
        assert f"{server.file} of the queue's node was not written by subord; nothing was changed" in fault
    assert server.file.read_text() == "/srv *(rw)\n"
    assert server.commands.ran == []


async def test_a_line_of_others_that_is_wrong_holds_up_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.other_faults = 1
    assert await export(str(server.file), [FIRST], server.mounts(), server.machine) == ""


async def test_a_directory_that_is_missing_is_told_before_anything_is_changed(tmp_path: Path) -> None:
    server = Server(tmp_path)
    fault = await export(str(server.file), [FIRST], server.mounts("home", "none"), server.machine)
    assert f"the plan mounts {tmp_path}/srv/none of the queue's node, where that is no directory" in fault
    assert not server.file.exists()
    assert server.commands.ran == []


async def test_a_directory_that_has_vanished_does_not_hold_up_the_end_of_a_node(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await export(str(server.file), [FIRST, SECOND], server.mounts("home", "apps"), server.machine)
    (tmp_path / "srv" / "apps").rmdir()
    assert await unexport(str(server.file), [FIRST], server.mounts("home", "apps"), server.machine) == ""
    assert {host for _, host in server.in_force()} == {FIRST}


async def test_a_missing_exportfs_is_named_and_does_not_hold_up_the_end_of_a_node(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await export(str(server.file), [FIRST], server.mounts(), server.machine)
    machine = FakeCommands(missing=["exportfs"]).machine()
    fault = await export(str(server.file), [FIRST, SECOND], server.mounts(), machine)
    assert fault == (
        "exportfs is not on this node; nothing was changed: install nfs-kernel-server (Debian) or nfs-utils on the "
        "queue's node"
    )
    assert await unexport(str(server.file), [], server.mounts(), machine) == ""
    assert not server.file.exists()


async def test_a_file_that_exportfs_does_not_read_is_told(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.commands.answers["exportfs -a"] = (0, "")
    fault = await export(str(server.file), [FIRST], server.mounts(), server.machine)
    assert f"does not export {tmp_path}/srv/home to 10.0.0.7: exportfs does not read {server.file}" in fault


async def test_what_exportfs_refuses_is_told_with_its_words(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.commands.answers["exportfs -a"] = (1, "exportfs: can't lock /var/lib/nfs/etab for writing")
    assert "can't lock /var/lib/nfs/etab" in await export(str(server.file), [FIRST], server.mounts(), server.machine)
    server.table[Export(f"{tmp_path}/srv/home", FIRST)] = "rw"
    server.commands.answers["exportfs -u"] = (1, "exportfs: can't lock /var/lib/nfs/etab for writing")
    fault = await unexport(str(server.file), [], server.mounts(), server.machine)
    assert "it is tried again" in fault
    assert "# gone" in server.file.read_text()


@pytest.mark.parametrize("host", ["*", "10.0.0.0/8", "@all", "node001", "10.0.0.7(rw)", ""])
async def test_only_addresses_of_nodes_are_exported_to(host: str, tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert "no address of a node" in await export(str(server.file), [host], server.mounts(), server.machine)
    assert not server.file.exists()


async def test_the_rights_are_asked_for_before_the_file_is_written(tmp_path: Path) -> None:
    server = Server(tmp_path)
    machine = server.machine._replace(lacks=lambda _needs: "the unit forbids it")
    assert await export(str(server.file), [FIRST], server.mounts(), machine) == "the unit forbids it"
    assert not server.file.exists()


async def test_calls_at_the_same_time_are_carried_out_in_the_order_in_which_they_begin(tmp_path: Path) -> None:
    server = Server(tmp_path)
    hosts: list[str] = []
    async with trio.open_nursery() as nursery:
        for number in range(2, 8):
            hosts.append(f"10.0.0.{number}")
            nursery.start_soon(export, str(server.file), list(hosts), server.mounts(), server.machine)
            await trio.lowlevel.checkpoint()
    assert server.in_force() == {("home", host) for host in hosts}


def test_a_directory_that_is_mounted_twice_may_be_written_if_one_of_its_mounts_may() -> None:
    both = [Mount(source="/a", target="/b", read_only=True), Mount(source="/a", target="/c")]
    for mounts in (both, both[::-1]):
        assert wanted_of([FIRST], mounts) == {Export("/a", FIRST): "rw,sync,root_squash,no_subtree_check"}
    with pytest.raises(PreparingError):
        wanted_of(["node"], both)


def test_what_exportfs_shows_is_read() -> None:
    text = "/srv/apps  10.9.9.9(sync,wdelay)\n/srv/home  fd00::5(sync,wdelay)\n\n"
    assert shown_by(text) == {BY_HAND, Export("/srv/home", "fd00::5")}
