"""The actuator of a node on files below a directory: weights of all classes or none, usage, and what is put back."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from disks import KIB, Disk, apart
from fake_cgroups import BOOT, CLASSES, SECOND, FakeNode
from loops import over

from subord.config.schema import SharesConfig
from subord.services.shares.actuators import files
from subord.services.shares.actuators.actuator import Actuator, Load
from subord.services.shares.actuators.faults import ActuatorError, words_of
from subord.services.shares.actuators.putting_back import recover
from subord.services.shares.actuators.versions import Version

TICKETS = {"web": 60, "batch": 30, "rest": 10}
GROUPS = ("/apps/web-1", "/apps/batch", "/apps/mail")
BEFORE = [201, 302, 403]


@pytest.fixture(params=[1, 2])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    """With one group for each class."""
    made = FakeNode(tmp_path, request.param)
    for path, weight in zip(GROUPS, BEFORE, strict=True):
        made.group(path, weight)
    return made


def scaled(node: FakeNode, *tickets: float) -> list[int]:
    return [round(each * (100 if node.version == 1 else 10)) for each in tickets]


def failing(monkeypatch: pytest.MonkeyPatch, path: str, error: OSError) -> None:
    """Setting the weight of this group fails."""
    put = Version.put

    def refuse(self: Version, group: str, identity: int, text: str) -> None:
        if group == path:
            raise error
        put(self, group, identity, text)

    monkeypatch.setattr(Version, "put", refuse)


# -- weights --------------------------------------------------------------------------------------------------------


def test_tickets_become_weights_and_are_put_back(node: FakeNode) -> None:
    actuator = node.actuator()
    assert actuator.classes == ("web", "batch", "rest")
    assert actuator.apply(TICKETS) == ()
    assert node.weights(*GROUPS) == scaled(node, 60, 30, 10)
    assert actuator.apply({"web": 1, "batch": 98, "rest": 1}) == ()
    assert node.weights(*GROUPS) == scaled(node, 1, 98, 1)
    assert actuator.restore() == ()
    assert node.weights(*GROUPS) == BEFORE
    assert not (node.state / "shares/before.json").exists()
    assert actuator.restore() == ()


def test_groups_of_one_class_divide_its_tickets(node: FakeNode) -> None:
    node.group("/apps/web-2")
    node.group("/apps/web-3")
    actuator = node.actuator()
    actuator.apply(TICKETS)
    assert node.weights("/apps/web-1", "/apps/web-2", "/apps/web-3") == scaled(node, 20, 20, 20)
    actuator.read(1.0)
    node.used("/apps/web-2", 0.01)
    for number, path in ((100, "/apps/web-1"), (200, "/apps/web-3")):
        node.used(path, 0.5)
        node.tasks(path, "R", first=number)
    actuator.read(2.0)
    actuator.apply(TICKETS)
    words = "one has all that it needs, and leaves its part to the others"
    assert node.weights("/apps/web-1", "/apps/web-2", "/apps/web-3") == scaled(node, 30, 30, 30), words
    assert node.weights(*GROUPS[1:]) == scaled(node, 30, 10)


def test_a_class_that_is_wanted_no_longer_gets_back_what_it_had(node: FakeNode) -> None:
    actuator = node.actuator()
    actuator.apply(TICKETS)
    assert actuator.apply({"web": 70, "batch": 30}) == ()
    assert node.weights(*GROUPS) == [*scaled(node, 70, 30), 403]
    actuator.apply(TICKETS)
    actuator.restore()
    assert node.weights(*GROUPS) == BEFORE


def test_a_class_without_group_is_said_and_the_others_are_set(node: FakeNode) -> None:
    node.remove("/apps/mail")
    actuator = node.actuator()
    assert actuator.apply(TICKETS) == ("class rest has no group on this node now; its tickets go to the others",)
    assert node.weights(*GROUPS[:2]) == scaled(node, 60, 30)
    node.group("/apps/mail", 77)
    assert actuator.apply(TICKETS) == ()
    assert node.weight("/apps/mail") == scaled(node, 10)[0]
    actuator.restore()
    assert node.weight("/apps/mail") == 77


def test_a_weight_that_is_changed_by_another_program_is_set_again(node: FakeNode) -> None:
    actuator = node.actuator()
    actuator.apply(TICKETS)
    node.weight_file("/apps/batch").write_text("5\n")
    actuator.apply(TICKETS)
    assert node.weights(*GROUPS) == scaled(node, 60, 30, 10)
    actuator.restore()
    assert node.weights(*GROUPS) == BEFORE


@over(
    ("tickets", "word"),
    [
        (
            {"web": 60, "gpu": 40},
            "does not know the class gpu; nothing was changed: correct the name, or add it to shares",
        ),
        (
            {"web": 60, "batch": 30},
            "not the tickets of a node: web=60, batch=30; nothing was changed: they sum to 100",
        ),
        ({"web": 100, "batch": 0}, "not the tickets of a node"),
        ({}, "not the tickets of a node: none"),
    ],
)
def test_wrong_tickets_change_nothing(tickets: dict[str, int], word: str, node: FakeNode) -> None:
    with pytest.raises(ActuatorError) as refused:
        node.actuator().apply(tickets)
    assert word in str(refused.value)
    assert node.weights(*GROUPS) == BEFORE
    assert not (node.state / "shares").exists()


def test_no_group_at_all(node: FakeNode) -> None:
    node.remove("/apps")
    with pytest.raises(ActuatorError, match="none of the classes has a group on this node; nothing was changed"):
        node.actuator().apply(TICKETS)


def test_no_classes(node: FakeNode) -> None:
    with pytest.raises(ActuatorError, match=r"this node has no classes: name them in shares\.classes"):
        Actuator(SharesConfig(), str(node.state), str(node.root))


def test_groups_that_are_no_neighbours_are_refused(node: FakeNode) -> None:
    node.group("/other/web", 9)
    actuator = node.actuator("web=/*/web", *CLASSES[1:])
    with pytest.raises(
        ActuatorError, match="/other/web of class web and /apps/batch of class batch do not stand beside"
    ):
        actuator.apply(TICKETS)
    assert [*node.weights(*GROUPS), node.weight("/other/web")] == [*BEFORE, 9]


def test_what_was_never_changed_needs_no_putting_back(node: FakeNode) -> None:
    """Without a permission nothing was set, so nothing is left when shares are off."""
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))

    def refuse(*_: object) -> None:
        raise error

    actuator = node.actuator()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Version, "put", refuse)
        with pytest.raises(ActuatorError, match="the weights of all classes are as before"):
            actuator.apply(TICKETS)
        assert actuator.restore() == ()
    assert not (node.state / "shares/before.json").exists()
    assert node.weights(*GROUPS) == BEFORE


def test_an_idle_group_is_refused_before_its_weight_is_kept(node: FakeNode) -> None:
    """The kernel shows 3 or 0 for it, and would give the group its usual weight again when it is no longer idle."""
    idle = node.weight_file("/apps/batch").parent / "cpu.idle"
    idle.write_text("1\n")
    node.weight_file("/apps/batch").write_text("3\n")
    actuator = node.actuator()
    remedy = "an idle group has no weight; nothing was changed: write 0 to its cpu.idle"
    with pytest.raises(ActuatorError) as refused:
        actuator.apply(TICKETS)
    assert str(refused.value) == f"/apps/batch of class batch is idle (cpu.idle is 1), and {remedy}"
    assert node.weights(*GROUPS) == [201, 3, 403]
    idle.write_text("0\n")
    node.weight_file("/apps/batch").write_text("1024\n")
    actuator.apply(TICKETS)
    actuator.restore()
    assert node.weights(*GROUPS) == [201, 1024, 403]


# -- all or none ----------------------------------------------------------------------------------------------------


@over("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOSPC])
@over("path", GROUPS)
def test_when_one_cannot_be_set_none_is(number: int, path: str, node: FakeNode) -> None:
    error = OSError(number, os.strerror(number))
    with pytest.MonkeyPatch.context() as patch:
        actuator = node.actuator()
        failing(patch, path, error)
        with pytest.raises(ActuatorError) as refused:
            actuator.apply(TICKETS)
    assert f"of {path} of class " in str(refused.value)
    assert str(refused.value).endswith(f"cannot be set: {words_of(error)}; the weights of all classes are as before")
    assert node.weights(*GROUPS) == BEFORE
    actuator.restore()
    assert node.weights(*GROUPS) == BEFORE


def test_the_weights_of_the_call_before_stay(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    actuator = node.actuator()
    actuator.apply(TICKETS)
    failing(monkeypatch, "/apps/mail", PermissionError(errno.EACCES, ""))
    with pytest.raises(ActuatorError, match="the agent must run as root; the weights of all classes are as before"):
        actuator.apply({"web": 10, "batch": 10, "rest": 80})
    assert node.weights(*GROUPS) == scaled(node, 60, 30, 10)


def test_what_cannot_be_put_back_either_is_named_and_kept(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    actuator = node.actuator()
    put, calls = Version.put, list[str]()

    def refuse(self: Version, group: str, identity: int, text: str) -> None:
        calls.append(group)
        if len(calls) > 1:
            raise OSError(errno.EIO, "Input/output error")
        put(self, group, identity, text)

    with monkeypatch.context() as patch:
        patch.setattr(Version, "put", refuse)
        with pytest.raises(ActuatorError, match=r"/apps/[a-z1-]+ could not be put back: the next start of the agent"):
            actuator.apply(TICKETS)
        with pytest.raises(ActuatorError, match="tried again at the next start"):
            actuator.restore()
    assert node.weights(*GROUPS) != BEFORE
    assert recover(str(node.state), str(node.root)) == ()
    assert node.weights(*GROUPS) == BEFORE


def test_a_group_that_vanishes_meanwhile_hinders_nothing(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    put = Version.put

    def vanish(self: Version, group: str, identity: int, text: str) -> None:
        if group == "/apps/batch" and node.weight_file(group).exists():
            node.remove(group)
        put(self, group, identity, text)

    monkeypatch.setattr(Version, "put", vanish)
    actuator = node.actuator()
    assert actuator.apply(TICKETS) == ("the group /apps/batch is gone",)
    assert node.weights("/apps/web-1", "/apps/mail") == scaled(node, 60, 10)
    assert actuator.restore() == ("the group /apps/batch is gone",)
    assert node.weights("/apps/web-1", "/apps/mail") == [201, 403]
    assert not (node.state / "shares/before.json").exists()


def test_a_group_that_vanishes_between_its_directory_and_its_file(
    node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_at = files.write_at

    def vanish(directory: int, name: str, text: str) -> None:
        if os.fstat(directory).st_ino == os.stat(node.cpu / "apps/batch").st_ino:
            node.remove("/apps/batch")
        write_at(directory, name, text)

    actuator = node.actuator()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_at", vanish)
        assert actuator.apply({"web": 60, "batch": 40}) == ("the group /apps/batch is gone",)
    assert node.weights("/apps/web-1", "/apps/mail") == [*scaled(node, 60), 403]


def test_a_group_that_is_made_anew_is_another_one(node: FakeNode) -> None:
    actuator = node.actuator()
    actuator.apply(TICKETS)
    node.remove("/apps/batch")
    node.group("/apps/batch", 55)
    assert actuator.restore() == ("the group /apps/batch is gone",)
    assert node.weights(*GROUPS) == [201, 55, 403], "a value of the earlier group is not put into the new one"


def test_a_new_group_of_an_old_name_gets_back_its_own_value(node: FakeNode) -> None:
    actuator = node.actuator()
    actuator.apply(TICKETS)
    node.remove("/apps/batch")
    node.group("/apps/batch", 55)
    actuator.apply({"web": 60, "batch": 40})
    assert node.weight("/apps/batch") == scaled(node, 40)[0]
    actuator.restore()
    assert node.weights(*GROUPS) == [201, 55, 403]


def test_a_group_without_the_controller_is_named_with_the_remedy(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, 2)
    for path in GROUPS:
        node.group(path, 50)
    node.weight_file("/apps/batch").unlink()
    with pytest.raises(ActuatorError) as refused:
        node.actuator().apply(TICKETS)
    words = f"write +cpu to {node.cpu}/apps/cgroup.subtree_control; nothing was changed"
    assert str(refused.value).endswith(f"cannot be read: the group has no cpu.weight: {words}")
    assert node.weights("/apps/web-1", "/apps/mail") == [50, 50]


def test_a_mount_that_is_read_only_is_named(node: FakeNode) -> None:
    path = node.root / "proc/self/mountinfo"
    path.write_text(path.read_text().replace(" rw,relatime", " ro,relatime").replace(" rw,nosuid", " ro,nosuid"))
    with pytest.raises(
        ActuatorError, match=r"is read-only here: set ProtectControlGroups=no in the unit.*nothing was"
    ):
        node.actuator().apply(TICKETS)
    assert not (node.state / "shares").exists()


@apart
def test_files_on_a_file_system_that_turns_read_only(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "root", 1024 * KIB)
    node = FakeNode(tmp_path, 2)
    for path, weight in zip(GROUPS, BEFORE, strict=True):
        node.group(path, weight)
    actuator = node.actuator()
    actuator.apply(TICKETS)
    disk.close()
    with pytest.raises(ActuatorError, match=r"read-only here.*; the weights of all classes are as before"):
        actuator.apply({"web": 10, "batch": 80, "rest": 10})
    with pytest.raises(ActuatorError, match="cannot be put back to 201: the cgroup file system is read-only"):
        actuator.restore()
    disk.open()
    assert actuator.restore() == ()
    assert node.weights(*GROUPS) == BEFORE


# -- what is kept on disk -------------------------------------------------------------------------------------------


def test_the_values_are_on_disk_before_the_first_change(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(self: Version, group: str, identity: int, text: str) -> None:
        kept = json.loads((node.state / "shares/before.json").read_bytes())
        assert {each["path"]: each["value"] for each in kept["groups"]} == dict(
            zip(GROUPS, ("201", "302", "403"), strict=True)
        )
        raise OSError(errno.EIO, "seen")

    actuator = node.actuator()
    monkeypatch.setattr(Version, "put", look)
    with pytest.raises(ActuatorError, match="seen"):
        actuator.apply(TICKETS)
    assert (node.state / "shares").stat().st_mode & 0o777 == 0o700
    assert (node.state / "shares/before.json").stat().st_mode & 0o777 == 0o600


def test_without_a_place_to_keep_them_nothing_is_changed(node: FakeNode) -> None:
    actuator = node.actuator()
    node.state.rmdir()
    with pytest.raises(ActuatorError, match=r"cannot be kept in .*before.json: No such file.*; nothing was changed"):
        actuator.apply(TICKETS)
    assert node.weights(*GROUPS) == BEFORE


@over(
    ("content", "word"),
    [
        ("{", "truncated"),
        ('{"format": 1}', "missing required field"),
        ('{"format": 2, "kind": "cpu.shares", "boot": "one", "groups": []}', "of another release"),
        (
            '{"format": 1, "kind": "", "boot": "", "groups": [{"path": "/../etc", "identity": 1, "value": "2"}]}',
            "a path of it is no group's",
        ),
    ],
)
def test_a_damaged_file_is_named_and_left(content: str, word: str, node: FakeNode) -> None:
    path = node.state / "shares/before.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    for attempt in (node.actuator, lambda: recover(str(node.state), str(node.root))):
        with pytest.raises(ActuatorError) as refused:
            attempt()
        assert word in str(refused.value)
        assert str(refused.value).endswith(
            "nothing was changed: check the weights of the groups, and delete the file"
        )
    assert path.read_text() == content


def test_a_new_actuator_puts_back_what_an_earlier_one_left(node: FakeNode) -> None:
    node.actuator().apply(TICKETS)
    node.remove("/apps/mail")
    again = node.actuator()
    assert again.notes == ("the group /apps/mail is gone",)
    assert node.weights(*GROUPS[:2]) == BEFORE[:2]
    again.apply(TICKETS)
    again.restore()
    assert node.weights(*GROUPS[:2]) == BEFORE[:2]


def test_after_a_new_start_of_the_machine_nothing_is_put_back(node: FakeNode) -> None:
    node.actuator().apply(TICKETS)
    node.write(BOOT, "two\n")
    assert recover(str(node.state), str(node.root)) == tuple(f"the group {path} is gone" for path in GROUPS)
    assert node.weights(*GROUPS) == scaled(node, 60, 30, 10)
    assert recover(str(node.state), str(node.root)) == ()


def test_after_a_start_with_the_other_version_nothing_is_put_back(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.group("/apps/batch")
    node.group("/apps/mail")
    node.actuator().apply(TICKETS)
    node.write("proc/self/mountinfo", SECOND)
    (node.root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    assert recover(str(node.state), str(node.root)) == (
        "the group /apps/batch is gone",
        "the group /apps/mail is gone",
    )


# -- usage ----------------------------------------------------------------------------------------------------------


def test_usage_is_a_percent_of_the_machine(node: FakeNode) -> None:
    actuator = node.actuator()
    node.used("/apps/web-1", 100)
    assert actuator.read(50.0) is None, "the first reading"
    node.used("/apps/web-1", 101.2)
    node.used("/apps/batch", 0.6)
    assert actuator.read(50.0) is None, "no time has passed"
    assert actuator.read(49.0) is None
    reading = actuator.read(51.0)
    assert reading is not None
    assert reading.notes == ()
    assert reading.loads == {"web": Load(60.0, False), "batch": Load(30.0, False), "rest": Load(0.0, False)}
    node.group("/apps/web-2")
    node.used("/apps/web-2", 0.5)  # since it was made
    node.used("/apps/batch", 0.1)  # made anew
    reading = actuator.read(52.0)
    assert reading is not None
    assert [each.usage for each in reading.loads.values()] == [25.0, 5.0, 0.0]


def test_usage_is_a_percent_of_the_quota_above_the_classes(node: FakeNode) -> None:
    if node.version == 1:
        (node.cpu / "apps/cpu.cfs_quota_us").write_text("25000\n")
    else:
        (node.cpu / "apps/cpu.max").write_text("25000 100000\n")
    actuator = node.actuator()
    actuator.read(1.0)
    node.used("/apps/web-1", 0.15)
    reading = actuator.read(2.0)
    assert reading is not None
    assert reading.loads["web"].usage == pytest.approx(60.0)


def test_a_group_that_is_not_in_the_other_hierarchy_is_named(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.group("/apps/batch")
    (node.usage / "apps/batch/cpuacct.usage").unlink()
    actuator = node.actuator()
    actuator.read(1.0)
    reading = actuator.read(2.0)
    assert reading is not None
    assert reading.notes == ("the usage of /apps/batch of class batch is not known: No such file or directory",)
    node.remove("/apps/batch")
    reading = actuator.read(3.0)
    assert reading is not None
    assert reading.notes == ()
