"""Servers of libvirt's qemu driver on this machine: each a libvirtd with folders of its own, and one storage pool.

Guests are emulated: a kernel of Debian, and an initial ramdisk of busybox that waits for the button of power.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import skips
from libvirt_room import LIBVIRTD, NO_DAEMON, Daemon, need_binding

DRIVERS = "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver"
FOLDERS = ("/etc/libvirt", "/run/libvirt", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log/libvirt")
CONF = """security_driver = "none"
user = "root"
group = "root"
cgroup_controllers = []
namespaces = []
remember_owner = 0
stdio_handler = "file"
"""
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
if ! /bin/busybox grep -q deaf /proc/cmdline; then
  /bin/busybox insmod /evdev.ko
  /bin/busybox insmod /button.ko
  for each in /dev/input/event*; do
    (/bin/busybox dd if=$each of=/dev/null bs=24 count=1; /bin/busybox poweroff -f) &
  done
fi
while :; do /bin/busybox sleep 60; done
"""
POOL = "<pool type='dir'><name>images</name><target><path>{path}</path></target></pool>"
VOLUME = """<volume><name>tiny.qcow2</name><capacity unit='MiB'>16</capacity>
  <target><format type='qcow2'/></target></volume>"""
TEMPLATE = """<domain type='qemu'><name>{name}</name><memory unit='MiB'>128</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>
    <cmdline>console=ttyS0 quiet {words}</cmdline></os>
  <features><acpi/></features>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{pool}/tiny.qcow2'/>
      <target dev='vda' bus='virtio'/></disk>
    <memballoon model='none'/></devices>
</domain>"""


def need_qemu() -> None:
    need_binding()
    if os.geteuid():
        pytest.skip(f"{skips.RIGHTS}: qemu:///system is root's")
    if shutil.which(LIBVIRTD) is None:
        pytest.skip(NO_DAEMON)
    if not Path(DRIVERS, "libvirt_driver_qemu.so").exists():
        pytest.skip("no driver of qemu here: apt-get install libvirt-daemon-driver-qemu")
    for program, package in (
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("qemu-img", "qemu-utils"),
        ("busybox", "busybox-static"),
        ("cpio", "cpio"),
    ):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} here: apt-get install {package}")


class QemuDaemon(Daemon):
    """As another server: what it defines and runs is in folders of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, DRIVERS)
        for each in FOLDERS:
            (folder / each[1:]).mkdir(parents=True)
        (folder / "etc/libvirt/qemu.conf").write_text(CONF)
        # Debian's build asks for this user before it reads that another one is wanted.
        for name, line in (
            ("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false"),
            ("group", "libvirt-qemu:x:64055:"),
        ):
            lines = Path("/etc", name).read_text()
            (folder / "etc" / name).write_text(lines if "libvirt-qemu:" in lines else f"{lines}{line}\n")

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self.socket}"

    @property
    def prefix(self) -> list[str]:
        mounts = "".join(f"mkdir -p {each}; mount --bind {self.folder}{each} {each}; " for each in FOLDERS)
        mounts += "".join(f"mount --bind {self.folder}{each} {each}; " for each in ("/etc/passwd", "/etc/group"))
        return ["unshare", "--mount", "sh", "-ec", f'{mounts}exec "$@"', "sh"]

    def end_guests(self) -> None:
        for each in (self.folder / "run/libvirt/qemu").glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(each.read_text()), signal.SIGKILL)


def guest_files(folder: Path) -> tuple[Path, Path]:
    """A kernel and an initial ramdisk, whose guest does nothing until its button of power is pressed."""
    folder.mkdir()
    unpacked = unpacked_kernel(folder)
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    add_modules(unpacked, root, "evdev", "button")
    return kernel_in(unpacked), packed(root, INIT)


def unpacked_kernel(folder: Path) -> Path:
    """The files of Debian's kernel for guests, which is fetched."""
    fetch = "apt-get download $(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p')"
    fetched = subprocess.run(
        ["sh", "-c", fetch], cwd=folder, check=False, capture_output=True, text=True, timeout=300
    )
    packages = list(folder.glob("*.deb"))
    if not packages:
        pytest.skip(f"no kernel for a guest can be fetched: {fetched.stderr[-200:]}")
    subprocess.run(["dpkg", "-x", packages[0], "kernel"], cwd=folder, check=True, timeout=120)
    packages[0].unlink()
    return folder / "kernel"


def kernel_in(unpacked: Path) -> Path:
    return next(unpacked.glob("boot/vmlinuz-*"))


def add_modules(unpacked: Path, root: Path, *names: str) -> None:
    for name in names:
        shutil.copy(next(unpacked.glob(f"lib/modules/*/kernel/**/{name}.ko")), root)


def packed(root: Path, init: str) -> Path:
    """The initial ramdisk beside its files."""
    (root / "init").write_text(init)
    (root / "init").chmod(0o755)
    subprocess.run(["sh", "-c", "find . | cpio --quiet -o -H newc > ../initrd"], cwd=root, check=True, timeout=60)
    return root.parent / "initrd"
