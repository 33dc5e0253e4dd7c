"""Which groups belong to which class: the keys of [shares], the mounted hierarchies, and patterns."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from fake_cgroups import CLASSES, FIRST, SECOND, FakeNode
from loops import over

from subord.config.classes import ClassesError, Entry, entries_of, queues_of
from subord.config.load import load
from subord.config.schema import SharesConfig
from subord.config.source import ConfigError
from subord.services.shares.actuators import files
from subord.services.shares.actuators.faults import ActuatorError
from subord.services.shares.actuators.files import matching
from subord.services.shares.actuators.groups import groups_of
from subord.services.shares.actuators.mounts import Places, places_of
from subord.services.shares.actuators.overview import overview
from subord.services.shares.actuators.slices import hierarchy_of

# -- configuration --------------------------------------------------------------------------------------------------


@over(
    ("text", "entry"),
    [
        ("web=/web", Entry("web", "/web", False)),
        (" web = /apps/web-*/ ", Entry("web", "/apps/web-*", False)),
        ("web=/system.slice/web.service", Entry("web", "/system.slice/web.service", False)),
        ("web=web.slice", Entry("web", "/web.slice", True)),
        ("web=apps-web-1.slice", Entry("web", "/apps.slice/apps-web.slice/apps-web-1.slice", True)),
        ("web=web-*.slice", Entry("web", "/web.slice/web-*.slice", True)),
        ("rest=*.slice", Entry("rest", "/*.slice", True)),
        (r"a=a\x2db.slice", Entry("a", r"/a\x2db.slice", True)),
    ],
)
def test_entries(text: str, entry: Entry) -> None:
    assert entries_of([text]) == (entry,)


@over(
    ("texts", "word"),
    [
        (["web"], "must be CLASS=..."),
        (["Web=/web"], "no name of a class: small letters"),
        (["=/web"], "no name of a class"),
        (["web="], "write the path of a cgroup"),
        (["web=web"], "write the path of a cgroup"),
        (["web=apps/web"], "write the path of a cgroup"),
        (["web=-.slice"], "write the path of a cgroup"),
        (["web=a--b.slice"], "write the path of a cgroup"),
        (["web=a/b.slice"], "write the path of a cgroup"),
        (["web=/"], "no path of a cgroup"),
        (["web=//web"], "no path of a cgroup"),
        (["web=/apps/../web"], "no path of a cgroup"),
        (["web=/**/web"], "no path of a cgroup"),
        (["web=/" + "x" * 1024], "no path of a cgroup"),
        (["web=/web\0"], "no path of a cgroup"),
        (["web=/sys/fs/cgroup/cpu/web"], "write the path below the hierarchy"),
        (["web=/web", "batch=batch.slice"], "must be all paths or all slices"),
    ],
)
def test_wrong_entries(texts: list[str], word: str) -> None:
    with pytest.raises(ClassesError) as refused:
        entries_of(texts)
    assert word in str(refused.value)


@over(
    ("texts", "word"),
    [
        (["web"], "must be CLASS=..."),
        (["web=queue"], "by its whole path"),
        (["gpu=/run/q"], "no class of shares.classes"),
        (["web=/run/q", "web=/run/r"], "two queues for web"),
    ],
)
def test_wrong_queues(texts: list[str], word: str) -> None:
    with pytest.raises(ClassesError) as refused:
        queues_of(texts, ["web"])
    assert word in str(refused.value)
    assert queues_of(["web=/run/q"], ["web"]) == {"web": "/run/q"}


@over(
    ("table", "word"),
    [
        ('classes = ["web"]', "subord.toml:4: classes must be CLASS=..., such as"),
        ('classes = "web=/web"', "subord.toml:4: classes must be a list of at most 512 strings"),
        ('classes = ["web=/web"]\nqueues = ["gpu=/q"]', "subord.toml:5: queues has a queue for gpu"),
        ("class = []", 'unknown key "class" in [shares]; did you mean "classes"?'),
    ],
)
def test_a_wrong_configuration_is_refused_at_its_line(table: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "subord.toml"
    path.write_text(f'[cluster]\nnetwork = "127.0.0.1/32"\n[shares]\n{table}\n')
    with pytest.raises(ConfigError) as refused:
        load(str(path))
    assert word in str(refused.value)


# -- what is mounted ------------------------------------------------------------------------------------------------


@over(
    ("mountinfo", "places"),
    [
        (FIRST, Places(1, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", False)),
        (SECOND, Places(2, "/sys/fs/cgroup", "/sys/fs/cgroup", False)),
        ("1 2 0:3 / /c\\040g rw - cgroup2 none rw\n", Places(2, "/c g", "/c g", False)),
        ("1 2 0:3 / /both ro - cgroup none rw,cpu,cpuacct\n", Places(1, "/both", "/both", True)),
        ("1 2 0:3 / /cg rw - cgroup2 none ro\n", Places(2, "/cg", "/cg", True)),
        ("1 2 0:3 / /a ro - cgroup2 none rw\n2 2 0:3 / /b rw - cgroup2 none rw\n", Places(2, "/b", "/b", False)),
        (
            "1 2 0:3 / /s rw - cgroup none rw,name=systemd\n" + SECOND,
            Places(2, "/sys/fs/cgroup", "/sys/fs/cgroup", False),
        ),
    ],
)
def test_where_the_controllers_are(mountinfo: str, places: Places) -> None:
    assert places_of(mountinfo) == places


@over(
    ("mountinfo", "word"),
    [
        ("", "no cgroup controller for processors is mounted"),
        ("1 2 0:3 / / rw - ext4 /dev/vda rw\nnonsense\n", "no cgroup controller for processors is mounted"),
        ("1 2 0:3 / /cpu rw - cgroup none rw,cpu\n", "no controller cpuacct here: mount it beside /cpu"),
    ],
)
def test_no_controller(mountinfo: str, word: str) -> None:
    with pytest.raises(ActuatorError, match=word):
        places_of(mountinfo)


def test_a_second_hierarchy_without_the_controller_is_none(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, 2)
    (node.cpu / "cgroup.controllers").write_text("memory pids\n")
    with pytest.raises(ActuatorError, match=r"has no controller for processors \(cgroup.controllers\); nothing"):
        node.actuator()
    (node.root / "proc/self/mountinfo").unlink()
    with pytest.raises(ActuatorError, match="the mounted cgroups cannot be read: No such file"):
        node.actuator()


# -- patterns -------------------------------------------------------------------------------------------------------


def test_a_group_belongs_to_the_first_entry_that_matches(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    for path in ("/apps/web-1", "/apps/web-2", "/apps/batch", "/apps/mail/in", "/apps/[x]", "/other"):
        node.group(path)
    (node.cpu / "apps/a-file").write_text("")
    found = groups_of(entries_of(["web=/apps/web-?", "x=/apps/[x]", "rest=/apps/*"]), hierarchy_of(str(node.root)))
    assert {each.path: each.name for each in found} == {
        "/apps/web-1": "web",
        "/apps/web-2": "web",
        "/apps/[x]": "x",
        "/apps/batch": "rest",
        "/apps/mail": "rest",
    }
    assert len({each.identity for each in found}) == 5


def test_too_many_groups_are_refused_and_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUPS_MAX", 2)
    for name in "abc":
        (tmp_path / name).mkdir()
    with pytest.raises(ActuatorError, match=r"more than 2 groups match /\*: give the group that holds them all"):
        matching(str(tmp_path), "/*")
    assert matching(str(tmp_path), "/a") == ["/a"]
    assert matching(str(tmp_path), "/x/*") == []


def test_groups_that_cannot_be_listed_are_no_class_without_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ActuatorError, match="cannot be listed: no permission: the agent must run as root"):
        matching(str(tmp_path), "/*")


def test_a_mount_hides_the_one_below_it() -> None:
    """The container or unit has mounted the hierarchy once more at its place, read-only."""
    line = SECOND.replace(" rw,nosuid", " ro,nosuid")
    assert places_of(SECOND + line).is_read_only
    assert not places_of(line + SECOND).is_read_only
    assert not places_of(SECOND + line.replace("/sys/fs/cgroup", "/other")).is_read_only


def test_two_classes_with_one_pattern_are_refused() -> None:
    """The second one would never have a group."""
    with pytest.raises(ClassesError) as refused:
        entries_of(["web=/apps/web", "rest=/apps/*", "batch=/apps/web/"])
    assert str(refused.value) == (
        'has "/apps/web/" for batch, which is for web already: a group belongs to the first entry that matches it'
    )
    assert len(entries_of(["web=/apps/web", "web=/apps/web"])) == 2


# -- subord-agent --check -------------------------------------------------------------------------------------------


def test_what_the_check_says(tmp_path: Path) -> None:
    node = FakeNode(tmp_path, 2)
    config = SharesConfig(classes=CLASSES)
    for path in ("/apps/web-1", "/apps/web-2", "/apps/batch"):
        node.group(path)

    def found() -> tuple[str, bool]:
        return overview(config, str(node.root))

    assert found() == ("cpu.weight of web 2 groups, batch 1 group, rest no group now", True)
    assert overview(SharesConfig(classes=("web=*.slice",)), str(node.root)) == ("CPUWeight of web no group now", True)
    idle = node.weight_file("/apps/web-2").parent / "cpu.idle"
    idle.write_text("1\n")
    text, is_fine = found()
    assert not is_fine
    assert text.startswith("/apps/web-2 of class web is idle (cpu.idle is 1)")
    idle.write_text("0\n")
    node.write("proc/self/mountinfo", SECOND.replace(" rw,nosuid", " ro,nosuid"))
    text = "cpu.weight of web 2 groups, batch 1 group, rest no group now; the cgroup file system is read-only here"
    assert found() == (text, False)
    node.weight_file("/apps/batch").unlink()
    remedy = f"write +cpu to {node.cpu}/apps/cgroup.subtree_control"
    text = f"cpu.weight of /apps/batch of class batch: the group has no cpu.weight: {remedy}"
    assert found() == (text, False)
    node.write("proc/self/mountinfo", "")
    assert found() == ("no cgroup controller for processors is mounted here: mount cgroup2 at /sys/fs/cgroup", False)
    assert not any(node.state.iterdir())
