"""Users, mounts and exports by the real commands, on a node with mounts of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from prepared_node import APART, MASTER, Node, node
from skips import RIGHTS

from subord.config.schema import ElasticConfig
from subord.services.elastic.options import Options
from subord.services.elastic.plan import Mount, Plan, User
from subord.services.elastic.preparing.faults import DROP_IN
from subord.services.elastic.task import Step

pytestmark = pytest.mark.slow

UID, GID = 61_001, 61_100
NO_NFS = "nfs" in Path("/proc/filesystems").read_text().split()


@pytest.fixture
def made() -> Iterator[Node]:
    if os.geteuid() != 0 or subprocess.run([*APART, "true"], check=False, capture_output=True).returncode:
        pytest.skip(f"{RIGHTS}: only root can make users and mounts")
    # Those of pytest are closed to other users, and those in memory are below /dev, where nothing may be mounted.
    folder = Path(tempfile.mkdtemp(prefix="subord-node-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with node(folder) as one:
            yield one
    finally:
        shutil.rmtree(folder)


def plan(made: Node, *mounts: Mount) -> Plan:
    users = (
        User(name="sb-ann", uid=UID, group="sb-chemists", gid=GID, home=f"{made.folder}/homes/sb-ann"),
        User(name="sb-bob", uid=UID + 1, group="sb-chemists", gid=GID, home=f"{made.folder}/nfs/sb-bob"),
    )
    return Plan(manager=1, options=Options(max_nodes=5), users=users, mounts=mounts)


def home(made: Node, *, read_only: bool = False) -> Mount:
    return Mount(source=f"{made.folder}/srv", target=f"{made.folder}/nfs", read_only=read_only)


def own(made: Node) -> str:
    return made.run("sh", "-c", "cat /etc/passwd /etc/group /etc/shadow; ls -l /etc/passwd /etc/group /etc/shadow")


def test_users_are_made_once_and_can_reach_their_homes(made: Node) -> None:
    before = own(made)
    first = made.carry_out(Step.USERS, plan(made, home(made)))
    assert (first.fault, first.is_changed) == ("", True)
    assert made.run("getent", "passwd", "sb-bob").strip() == (
        f"sb-bob:x:{UID + 1}:{GID}::{made.folder}/nfs/sb-bob:/bin/sh"
    )
    assert made.run("id", "sb-ann").strip() == (f"uid={UID}(sb-ann) gid={GID}(sb-chemists) groups={GID}(sb-chemists)")
    assert "sb-ann:!:" in own(made)
    become = ("setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", "--")
    made.run(*become, "touch", f"{made.folder}/homes/sb-ann/file")
    assert not (made.folder / "nfs").exists()
    after = own(made)
    second = made.carry_out(Step.USERS, plan(made, home(made)))
    assert (second.fault, second.is_changed) == ("", False)
    assert own(made) == after != before
    assert "sb-ann" not in Path("/etc/passwd").read_text()


def test_a_user_with_another_id_is_named_and_nothing_is_changed(made: Node) -> None:
    made.run("useradd", "--uid", str(UID + 7), "--no-create-home", "sb-bob")
    before = own(made)
    done = made.carry_out(Step.USERS, plan(made))
    assert done.fault == (
        f"this node has the user sb-bob with the id {UID + 7}, the plan with the id {UID + 1}; nothing was changed: "
        "give the user the same id in the plan and in the image of the node"
    )
    assert own(made) == before


def test_a_lock_that_a_dead_command_has_left_holds_up_nothing(made: Node) -> None:
    with subprocess.Popen(["true"]) as dead:
        pass
    for name in ("passwd", "group", "shadow", "gshadow"):
        made.run("sh", "-c", f"printf %s {dead.pid} >/etc/{name}.lock")
    assert made.carry_out(Step.USERS, plan(made)).fault == ""


def test_a_group_without_its_user_is_what_a_death_leaves(made: Node) -> None:
    made.run("groupadd", "--gid", str(GID), "sb-chemists")
    done = made.carry_out(Step.USERS, plan(made))
    assert (done.fault, done.is_changed) == ("", True)


SANDBOX = (
    *("unshare", "--mount", "--propagation", "slave", "sh", "-c"),
    *('mount --bind /etc /etc && mount -o remount,bind,ro /etc && exec "$@"', "sh"),
)
BARE = ("setpriv", "--bounding-set=-all", "--")


def test_a_unit_that_forbids_it_is_told_with_the_lines_that_allow_it(made: Node) -> None:
    wanted = plan(made, home(made))
    expected = {
        (Step.USERS, BARE): "make users and groups: it has no CAP_CHOWN and no CAP_DAC_OVERRIDE",
        (Step.USERS, SANDBOX): "make users and groups: /etc is read-only for it",
        (Step.MOUNTS, BARE): "mount directories: it has no CAP_SYS_ADMIN",
        (Step.MOUNTS, SANDBOX): "mount directories: what it mounts would be seen by itself alone, as it has a name "
        "space of its own",
    }
    for (step, before), words in expected.items():
        done = made.carry_out(step, wanted, before=before)
        assert done.fault == (
            f"the unit of the agent does not let it {words}; nothing was changed: install {DROP_IN} as a drop-in of "
            "subord-agent.service (docs/elastic.md)"
        )
    assert "sb-ann" not in own(made)


# -- mounts --------------------------------------------------------------------------------------------------------


def mounted(made: Node) -> list[str]:
    return [line for line in made.run("cat", "/proc/self/mountinfo").splitlines() if f"{made.folder}/nfs" in line]


def test_a_directory_is_mounted_once_and_unmounted(made: Node) -> None:
    """Through another type of file system: it is mount, the kernel's table and umount that are real."""
    wanted = plan(made, home(made))
    for is_changed in (True, False):
        done = made.carry_out(Step.MOUNTS, wanted, as_nfs="tmpfs")
        assert (done.fault, done.is_changed) == ("", is_changed)
        (line,) = mounted(made)
        assert f"- tmpfs {MASTER}:{made.folder}/srv rw" in line
        assert "rw,nosuid,nodev" in line
    for is_changed in (True, False):
        done = made.carry_out(Step.LEAVE, wanted, as_nfs="tmpfs")
        assert (done.fault, done.is_changed) == ("", is_changed)
        assert mounted(made) == []


def test_a_directory_in_use_is_unmounted_all_the_same(made: Node) -> None:
    wanted = plan(made, home(made))
    made.carry_out(Step.MOUNTS, wanted, as_nfs="tmpfs")
    words = [*made.enter, "sh", "-c", f"cd {made.folder}/nfs && echo there && exec cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"there\n"
        done = made.carry_out(Step.LEAVE, wanted, as_nfs="tmpfs")
        assert (done.fault, done.is_changed) == ("", True)
        assert mounted(made) == []
        user.send_signal(signal.SIGKILL)


def test_a_disk_where_the_plan_mounts_is_named(made: Node) -> None:
    (made.folder / "nfs").mkdir()
    made.run("mount", "-t", "tmpfs", "disk", f"{made.folder}/nfs")
    done = made.carry_out(Step.MOUNTS, plan(made, home(made)), as_nfs="tmpfs")
    assert f"on {made.folder}/nfs of this node disk (tmpfs) is mounted" in done.fault
    done = made.carry_out(Step.LEAVE, plan(made, home(made)), as_nfs="tmpfs")
    assert (done.fault, done.is_changed, len(mounted(made))) == ("", False, 1)


@pytest.mark.skipif(NO_NFS, reason="the kernel has NFS")
def test_a_kernel_without_nfs_is_told(made: Node) -> None:
    done = made.carry_out(Step.MOUNTS, plan(made, home(made)))
    if shutil.which("mount.nfs", path="/usr/sbin:/sbin") is None:
        assert "mount.nfs is not on this node; nothing was changed: install nfs-common" in done.fault
    else:
        assert "mount.nfs: No such device; mounts before it stay: the kernel of this node has no NFS" in done.fault


# -- exports -------------------------------------------------------------------------------------------------------


@pytest.fixture
def server(made: Node) -> Node:
    """A queue's node, with two directories to export, one of which another program has exported by hand."""
    if shutil.which("exportfs", path="/usr/sbin:/sbin") is None:
        pytest.skip("a program is missing: apt-get install nfs-kernel-server")
    for name in ("srv", "apps"):
        (made.folder / name).mkdir()
    made.run("sh", "-c", "mkdir -p /etc/exports.d && rm -f /etc/exports.d/* && : >/etc/exports")
    made.run("exportfs", "-o", "ro,no_subtree_check", f"10.9.9.9:{made.folder}/apps")
    return made


def exported(server: Node) -> set[str]:
    """DIRECTORY HOST MODE."""
    rows = [line.split() for line in server.run("exportfs", "-s").splitlines()]
    modes = {True: "rw", False: "ro"}
    return {f"{Path(path).name} {who.partition('(')[0]} {modes[',rw,' in who]}" for path, who in rows}


def test_directories_are_exported_to_nodes_and_taken_back(server: Node) -> None:
    by_hand = "apps 10.9.9.9 ro"
    wanted = plan(server, home(server), Mount(source=f"{server.folder}/apps", target="/opt/apps", read_only=True))
    assert server.export(wanted, "10.0.0.7", "fd00::8") == ""
    assert exported(server) == {
        *(by_hand, "srv 10.0.0.7 rw", "srv fd00::8 rw"),
        *("apps 10.0.0.7 ro", "apps fd00::8 ro"),
    }
    assert server.run("exportfs", "-s").count("root_squash") == 5
    assert server.export(wanted, "fd00::8", ends=True) == ""
    assert exported(server) == {by_hand, "srv fd00::8 rw", "apps fd00::8 ro"}
    read_only = plan(server, home(server, read_only=True))
    assert server.export(read_only, "fd00::8") == ""
    assert exported(server) == {by_hand, "srv fd00::8 ro", "apps fd00::8 ro"}, "until the node leaves"
    assert server.export(read_only, ends=True) == ""
    assert exported(server) == {by_hand}
    assert server.run("ls", "/etc/exports.d") == ""


def test_many_nodes_are_exported_to(server: Node) -> None:
    hosts = [f"10.0.{number // 250}.{number % 250 + 1}" for number in range(1000)]
    assert server.export(plan(server, home(server)), *hosts) == ""
    assert len(exported(server)) == 1001


def test_a_wrong_line_of_others_holds_up_nothing(server: Node) -> None:
    server.run("sh", "-c", "echo '/nowhere/at/all 10.1.1.1(rw,nonsense' >/etc/exports")
    assert server.export(plan(server, home(server)), "10.0.0.7") == ""
    assert "srv 10.0.0.7 rw" in exported(server)


def test_a_unit_that_may_not_export_is_told(server: Node) -> None:
    fault = server.export(plan(server, home(server)), "10.0.0.7", before=SANDBOX)
    assert fault.startswith("the unit of the agent does not let it export directories: /etc is read-only for it")
    assert exported(server) == {"apps 10.9.9.9 ro"}


def test_a_table_that_is_locked_is_told(server: Node) -> None:
    config = ElasticConfig()
    assert config.exports_file == "/etc/exports.d/subord.exports"
    read_only = (
        *("unshare", "--mount", "sh", "-c"),
        *('mount -o remount,bind,ro /var/lib/nfs && exec "$@"', "sh"),
    )
    fault = server.export(plan(server, home(server)), "10.0.0.7", before=read_only)
    assert "/var/lib/nfs is read-only for it" in fault


# -- the batch daemon ----------------------------------------------------------------------------------------------


def test_a_batch_daemon_outlives_the_order(made: Node) -> None:
    """It has its own session, holds the output open, and is told that it is running already."""
    file = made.folder / "execd"
    file.write_text(
        f'#!/bin/sh\n[ -e {made.folder}/pid ] && {{ echo "execd is already running" >&2; exit 1; }}\n'
        f"sleep 600 &\necho $! >{made.folder}/pid\necho $SGE_ROOT >{made.folder}/root\n"
    )
    file.chmod(0o755)
    config = ElasticConfig(batch_daemon=(str(file),), batch_environment=("SGE_ROOT=/sge",))
    for is_changed in (True, False):
        done = made.carry_out(Step.DAEMON, plan(made), config=config)
        assert (done.fault, done.is_changed) == ("", is_changed)
    assert (made.folder / "root").read_text() == "/sge\n"
    os.kill(int((made.folder / "pid").read_text()), signal.SIGTERM)
