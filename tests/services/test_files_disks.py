"""Pushes and sets on real small disks: full, out of inodes or read-only, at the target or at the agent.

Each time the outcome names the fault, the old files stay whole, nothing is left, and the next order succeeds once
there is room.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from disks import KIB, PAGE, Disk, apart, bind_read_only
from loops import over

from subord.services.files import commands, delivery, records
from subord.services.files.delivery import Delivery, recover
from subord.services.files.outcome import Pushed
from subord.services.files.records import Records
from subord.services.files.stream import Stream
from tests.services import test_files_sets as sets
from tests.services.test_files_delivery import ENVIRONMENT, OWN, TAG, Node, how, picture

NEW_BYTES = 100 * KIB
TAGS = (bytes([each]) * 16 for each in itertools.count(1))


def published(top: Path, letter: str, size: int = NEW_BYTES) -> None:
    (top / "d").mkdir(exist_ok=True)
    for each in (top / "a", top / "d" / "b"):
        each.write_text(letter * (size // 2))


def old_of(node: Node) -> dict[str, Any]:
    published(node.source, "n")
    published(node.target, "o", 20 * KIB)
    return picture(node.target)


def push_again(node: Node) -> None:
    """A new order succeeds, and nothing is left."""
    chunks = [node.bundle()]
    found = Delivery(Records(str(node.agent)), next(TAGS), OWN, ENVIRONMENT, lambda: None).run(Stream(iter(chunks)))
    assert found.how == "changed"
    assert picture(node.target) == picture(node.source)
    assert node.left == []


# -- pushes: the disk of the target ----------------------------------------------------------------------------


@apart
def test_a_full_disk_at_the_target(tmp_path: Path) -> None:
    """It is full at once, or after a part of what is staged."""
    node = Node(tmp_path)
    disk = Disk(node.target, 2 * NEW_BYTES)
    old = old_of(node)
    for free_bytes in (0, PAGE, 60 * KIB, 80 * KIB):
        disk.fill(free_bytes)
        before = disk.free_bytes
        assert node.push() == Pushed("disk full", detail=f"{node.target}: No space left on device")
        assert disk.free_bytes == before
        disk.free()
        assert picture(node.target) == old
        assert node.left == []
    push_again(node)


@apart
def test_a_target_without_inodes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    Disk(node.target, 1 << 20, files_max=6)
    old = old_of(node)
    node.source.joinpath("new").mkdir()
    published(node.source / "new", "n")
    assert node.push() == Pushed("disk full", detail=f"{node.target}: No space left on device")
    assert picture(node.target) == old
    assert node.left == []
    (node.source / "new" / "d" / "b").unlink()
    (node.source / "new" / "d").rmdir()
    (node.source / "new" / "a").unlink()
    (node.source / "new").rmdir()
    push_again(node)


@apart
def test_what_a_check_prints_takes_no_room_on_a_disk(tmp_path: Path) -> None:
    node = Node(tmp_path)
    published(node.source, "n")
    disk = Disk(tmp_path / "tmp", 256 * KIB)
    node.check = f"head -c {64 << 20} /dev/zero"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(disk.path))
        patch.setattr(tempfile, "tempdir", None)
        assert node.push().how == "changed"


@apart
def test_a_target_that_turns_read_only_when_all_is_staged(tmp_path: Path) -> None:
    """As on a disk that fails. The next process of the agent that can, removes what is staged."""
    node = Node(tmp_path)
    disk = Disk(node.target, 1 << 20)
    old = old_of(node)
    node.check = "true"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commands, "failure", lambda *_: disk.close() or "")
        assert node.push() == Pushed("read-only", detail=f"{node.target}: Read-only file system")
    assert [each.name[:7] for each in node.left] == [".subord", ".subord", TAG.hex()[:7]]
    recover(str(node.agent))
    assert len(node.left) == 3
    disk.open()
    recover(str(node.agent))
    assert node.left == []
    assert picture(node.target) == old
    node.check = ""
    push_again(node)


@apart
def test_a_read_only_target(tmp_path: Path) -> None:
    node = Node(tmp_path)
    disk = Disk(tmp_path / "disk", 1 << 20)
    published(disk.path, "o")
    old = picture(disk.path)
    published(node.source, "n")
    bind_read_only(disk.path, node.target)
    assert node.push() == Pushed("read-only", detail=f"{node.target}: Read-only file system")
    assert how(node.push(is_trial=True))[0] == "would change"
    assert picture(node.target) == old
    assert node.left == []
    node.target = disk.path
    push_again(node)


# -- pushes: the disk of the agent -----------------------------------------------------------------------------


@apart
def test_a_full_disk_of_the_agent(tmp_path: Path) -> None:
    """At the first record of a push, and at the one before the renames, which comes after the check."""
    node = Node(tmp_path)
    disk = Disk(node.agent, 64 * KIB)
    old = old_of(node)
    full = Pushed("disk full", detail=f"{node.agent}/files: No space left on device")
    disk.fill()
    assert node.push() == full
    assert picture(node.target) == old
    disk.free()
    node.check = f"head -c 64K /dev/zero > {node.agent}/ballast; true"
    assert node.push() == full
    disk.free()
    assert picture(node.target) == old
    assert node.left == []
    node.check = ""
    push_again(node)


@apart
def test_the_disk_of_the_agent_is_full_when_the_files_are_in_place(tmp_path: Path) -> None:
    """The command after it still runs, once, also if the process ends while it runs."""
    node = Node(tmp_path)
    disk = Disk(node.agent, 64 * KIB)
    old_of(node)
    node.after = f"echo x >> {tmp_path}/ran"
    activate = delivery.activate

    def then_full(*words: Any, **options: Any) -> str:
        found = activate(*words, **options)
        disk.fill()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "activate", then_full)
        assert node.push().how == "changed"
    assert (tmp_path / "ran").read_text() == "x\n"
    assert picture(node.target) == picture(node.source)
    disk.free()
    assert node.left == []
    recover(str(node.agent))
    assert (tmp_path / "ran").read_text() == "x\n"


@apart
def test_a_read_only_disk_of_the_agent(tmp_path: Path) -> None:
    node = Node(tmp_path)
    disk = Disk(node.agent, 64 * KIB)
    old = old_of(node)
    (node.agent / "files").mkdir()
    disk.close()
    assert node.push() == Pushed("read-only", detail=f"{node.agent}/files: Read-only file system")
    recover(str(node.agent))
    assert picture(node.target) == old
    disk.open()
    push_again(node)


@apart
def test_an_agent_that_starts_on_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    """What an earlier process has left waits until the disk can be written."""
    node = Node(tmp_path)
    disk = Disk(node.agent, 64 * KIB)
    Records(str(node.agent)).write(
        TAG, records.Record("staging", bytes(node.target), ((b"", b"x", b"a"),), (), "", ())
    )
    (node.agent / "files" / "other.part").touch()
    disk.close()
    recover(str(node.agent))
    disk.open()
    recover(str(node.agent))
    assert node.left == []


# -- sets ------------------------------------------------------------------------------------------------------


def first(node: sets.Node) -> dict[str, Any]:
    published(node.source, "o", 20 * KIB)
    assert node.publish().state == "current"
    published(node.source, "n")
    return picture(node.target)


def then_second(node: sets.Node, document: Any, old: dict[str, Any]) -> None:
    """The daemon hands it over again."""
    assert node.follow(document).state == "current"
    assert node.look(document) == sets.Seen(sets.NAME, "current", document.version)
    assert picture(node.target) == picture(node.source)
    assert node.previous == old
    assert list(node.agent.rglob("*.part")) == []


@apart
def test_a_full_disk_at_the_directory_of_a_set(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        node = sets.Node(tmp_path, patch)
        disk = Disk(node.folder, 2 * NEW_BYTES)
        old = first(node)
        document = node.document()
        for free_bytes in (0, PAGE, 60 * KIB, 80 * KIB):
            disk.fill(free_bytes)
            before = disk.free_bytes
            assert node.follow(document).cause == "disk full"
            seen = node.look(document)
            assert (seen.state, seen.version, seen.cause) == ("failed", 1, "disk full")
            assert seen.detail == f"{node.folder}: No space left on device"
            assert (picture(node.target), node.hidden, disk.free_bytes) == (old, [], before)
        disk.free()
        then_second(node, document, old)


@apart
def test_a_set_on_a_read_only_disk(tmp_path: Path) -> None:
    """It can be withdrawn, too: the files stay."""
    with pytest.MonkeyPatch.context() as patch:
        node = sets.Node(tmp_path, patch)
        disk = Disk(node.folder, 1 << 20)
        old = first(node)
        disk.close()
        document = node.document()
        for _ in range(2):
            assert node.follow(document).cause == "read-only"
            assert node.look(document).detail == f"{node.folder}: Read-only file system"
            node.restart()
        assert (picture(node.target), node.hidden) == (old, [])
        withdrawn = node.document(content=sets.Content(sets.WITHDRAWN, 1, 0, 0))
        assert node.follow(withdrawn).state == "released"
        disk.open()
        document = node.document()
        assert node.publish(replaces=True).state == "current"
        assert picture(node.target) == picture(node.source)


def before_write(number: int, act: Callable[[], None], patch: pytest.MonkeyPatch) -> Iterator[int]:
    """`act` comes before the n-th record that is written; counts them."""
    count, write = itertools.count(1), records.write_whole

    def counted(path: str, data: bytes) -> None:
        if next(count) == number:
            act()
        write(path, data)

    patch.setattr(records, "write_whole", counted)
    return count


@pytest.mark.slow
@over("fault", [Disk.fill, Disk.close])
@apart
def test_the_disk_of_the_agent_fails_before_any_record_of_a_set(
    fault: Callable[[Disk], None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The directory is the whole of one version, and the command after it runs once."""
    for number in itertools.count(1):
        with pytest.MonkeyPatch.context() as patch:
            node = sets.Node(tmp_path_factory.mktemp("node"), patch)
            disk = Disk(node.agent, 256 * KIB)
            old = first(node)
            ran = node.source.parent / "ran"
            document = node.document(after=f"echo x >> {ran}")
            with pytest.MonkeyPatch.context() as broken:
                count = before_write(number, partial(fault, disk), broken)
                found = node.follow(document)
            assert picture(node.target) in (old, picture(node.source))
            if next(count) <= number:
                break
            assert found.cause == ("read-only" if fault is Disk.close else "disk full")
            disk.open()
            disk.free()
            assert node.follow(document).state == "current"
            seen = node.look(document)
            assert (seen.state, seen.cause) in (("current", ""), ("failed", "after unknown"))
            assert ran.read_text() == "x\n"
            assert picture(node.target) == picture(node.source)
            assert node.previous == old
            assert list(node.agent.rglob("*.part")) == []
    assert number > 5
