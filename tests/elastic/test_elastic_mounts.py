"""NFS mounts of an added node: what is mounted, what is left alone, and what is told when the kernel says no."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_machine import Answer, FakeCommands

from subord.services.elastic.plan import Mount
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.mounted import Mounted, read
from subord.services.elastic.preparing.mounts import mount, unmount

MASTER = "10.0.0.1"
KERNEL = "nodev\tsysfs\nnodev\tnfs\nnodev\tnfs4\n\text4\n"
RIGHT = "10.0.0.1:/srv/home"


class Node:
    """A node whose mounts follow its commands. The directories of its mounts are in a directory of the test."""

    def __init__(self, place: Path, answers: dict[str, Answer] | None = None, missing: tuple[str, ...] = ()) -> None:
        self.place = place
        (place / "self").mkdir()
        (place / "filesystems").write_text(KERNEL)
        self.lines = ["25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"]
        own: dict[str, Answer] = {"mount": self._mount, "umount": self._umount}
        self.commands = FakeCommands(own | (answers or {}), missing)
        self.machine = self.commands.machine(place)
        self._say()

    def home(self, *, read_only: bool = False) -> Mount:
        return Mount(source="/srv/home", target=f"{self.place}/home", read_only=read_only)

    def has(self, source: str, target: str, kind: str = "nfs4", options: str = "rw,nosuid") -> None:
        self.lines.append(f"99 25 0:45 / {target} {options} shared:9 - {kind} {source} rw,vers=4.2")
        self._say()

    def _say(self) -> None:
        (self.place / "self" / "mountinfo").write_text("\n".join([*self.lines, ""]))

    def _mount(self, *words: str) -> tuple[int, str]:
        options, source, target = words[4:]
        assert Path(target).is_dir()
        self.has(source, target, options=options)
        return 0, ""

    def _umount(self, *words: str) -> tuple[int, str]:
        self.lines = [line for line in self.lines if line.split()[4] != words[-1]]
        self._say()
        return 0, ""


async def test_what_is_missing_is_mounted_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert await mount([node.home()], MASTER, node.machine)
    assert not await mount([node.home()], MASTER, node.machine)
    assert node.commands.ran == [f"mount -t nfs -o rw,nosuid,nodev,retry=0 {RIGHT} {tmp_path}/home"]


async def test_the_options_and_addresses_are_those_of_mount_nfs(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert await mount([node.home(read_only=True)], "fd00::1", node.machine)
    assert not await mount([node.home(read_only=True)], "fd00::1", node.machine)
    assert node.commands.ran == [f"mount -t nfs -o ro,nosuid,nodev,retry=0 [fd00::1]:/srv/home {tmp_path}/home"]


async def test_a_directory_within_another_one_is_mounted_after_it_and_unmounted_before_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    both = [Mount(source="/b", target=f"{tmp_path}/a/b"), Mount(source="/a", target=f"{tmp_path}/a")]
    await mount(both, MASTER, node.machine)
    assert await unmount(both[::-1], MASTER, node.machine)
    assert [line.split()[-1] for line in node.commands.ran] == [
        f"{tmp_path}/{name}" for name in ("a", "a/b", "a/b", "a")
    ]


async def test_a_target_behind_a_link_is_mounted_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    wanted = Mount(source="/srv/home", target=f"{tmp_path}/link/home")
    assert await mount([wanted], MASTER, node.machine)
    assert not await mount([wanted], MASTER, node.machine)
    assert await unmount([wanted], MASTER, node.machine)
    assert [line.split()[-1] for line in node.commands.ran] == [f"{tmp_path}/disk/home"] * 2


OTHERS = {
    "of another server": ("10.9.9.9:/srv/home", "nfs4", "rw"),
    "of another directory": ("10.0.0.1:/srv/other", "nfs4", "rw"),
    "a disk": ("/dev/sdb1", "ext4", "rw"),
    "read-only": (RIGHT, "nfs4", "ro,nosuid"),
}


@pytest.mark.parametrize(("source", "kind", "options"), OTHERS.values(), ids=OTHERS)
async def test_what_is_mounted_otherwise_is_named_and_nothing_is_mounted(
    source: str, kind: str, options: str, tmp_path: Path
) -> None:
    node = Node(tmp_path)
    node.has(source, f"{tmp_path}/home", kind, options)
    first = Mount(source="/srv/apps", target=f"{tmp_path}/apps")
    with pytest.raises(PreparingError, match="nothing was changed") as caught:
        await mount([first, node.home()], MASTER, node.machine)
    assert f"{tmp_path}/home" in str(caught.value)
    assert node.commands.ran == []


KERNELS: dict[str, tuple[str, str, str]] = {
    "without NFS": ("\text4\n", "mount.nfs: No such device", "the kernel of this node has no NFS"),
    "with it": (KERNEL, "mount.nfs: access denied by server while mounting x", "see `exportfs -s`"),
    "no server": (KERNEL, "mount.nfs: Connection refused", "start the NFS server of the queue's node"),
    "no answer": (KERNEL, "mount.nfs: Connection timed out", "port 2049"),
    "no directory": (
        KERNEL,
        "mount.nfs: mounting x failed, reason given by server: No such file or directory",
        "make",
    ),
    "something else": (KERNEL, "mount.nfs: an incorrect mount option was specified", "the order is given again"),
}


@pytest.mark.parametrize(("kernel", "said", "to_do"), KERNELS.values(), ids=KERNELS)
async def test_a_mount_that_fails_is_told_with_what_to_do(kernel: str, said: str, to_do: str, tmp_path: Path) -> None:
    node = Node(tmp_path, {"mount": (32, said)})
    (tmp_path / "filesystems").write_text(kernel)
    with pytest.raises(PreparingError) as caught:
        await mount([node.home()], MASTER, node.machine)
    assert f"{tmp_path}/home of this node is not mounted from 10.0.0.1: {said}; " in str(caught.value)
    assert to_do in str(caught.value)


async def test_a_node_without_mount_nfs_is_told_the_package(tmp_path: Path) -> None:
    node = Node(tmp_path, missing=("mount.nfs",))
    with pytest.raises(
        PreparingError, match=r"mount\.nfs is not on this node; nothing was changed: install nfs-comm"
    ):
        await mount([node.home()], MASTER, node.machine)


async def test_a_mount_that_succeeds_and_is_not_there_is_told(tmp_path: Path) -> None:
    node = Node(tmp_path, {"mount": (0, "")})
    with pytest.raises(PreparingError, match=f"mount says that {tmp_path}/home is mounted"):
        await mount([node.home()], MASTER, node.machine)


@pytest.mark.parametrize("name", ["a disk", "of another server", "of another directory"])
async def test_only_what_the_plan_mounts_from_this_address_is_unmounted(name: str, tmp_path: Path) -> None:
    node = Node(tmp_path)
    source, kind, options = OTHERS[name]
    node.has(source, f"{tmp_path}/home", kind, options)
    node.has(RIGHT, f"{tmp_path}/by-hand")
    assert not await unmount([node.home()], MASTER, node.machine)
    assert node.commands.ran == []


@pytest.mark.parametrize("is_slow", [False, True])
async def test_what_is_in_use_is_unmounted_lazily(is_slow: bool, tmp_path: Path) -> None:
    def busy(*words: str) -> tuple[int, str]:
        if "--lazy" in words:
            return 0, ""
        if is_slow:
            raise PreparingError("umount has not ended")
        return 32, "target is busy"

    node = Node(tmp_path, {"umount": busy})
    node.has(RIGHT, f"{tmp_path}/home")
    assert await unmount([node.home()], MASTER, node.machine)
    assert [line.split()[1] for line in node.commands.ran] == [f"{tmp_path}/home", "--lazy"]


async def test_all_are_tried_if_one_cannot_be_unmounted(tmp_path: Path) -> None:
    node = Node(tmp_path, {"umount": (32, "Operation not permitted")})
    node.has(RIGHT, f"{tmp_path}/home")
    node.has("10.0.0.1:/apps", f"{tmp_path}/apps")
    with pytest.raises(PreparingError, match="stays mounted") as caught:
        await unmount([node.home(), Mount(source="/apps", target=f"{tmp_path}/apps")], MASTER, node.machine)
    assert "/home cannot" in str(caught.value)
    assert "/apps cannot" in str(caught.value)


def test_the_table_of_the_kernel_is_read() -> None:
    text = (
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n"
        "37 35 0:44 / /a\\040b rw - nfs4 10.0.0.1:/a\\040b ro,vers=4.2\n"
        "38 35 0:45 / /under rw shared:1 master:2 - autofs systemd-1 rw\n"
        "39 38 0:46 / /under rw - nfs 10.0.0.1:/x rw\n"
        "40 35 0:47 / /empty rw - tmpfs  rw\n"
        "a line of another kernel\n"
    )
    assert read(text) == {
        "/mnt2": Mounted("/dev/root", "ext3", is_read_only=False),
        "/a b": Mounted("10.0.0.1:/a b", "nfs4", is_read_only=True),
        "/under": Mounted("10.0.0.1:/x", "nfs", is_read_only=False),
        "/empty": Mounted("", "tmpfs", is_read_only=False),
    }
