"""A guest that joins Slurm: a kernel, busybox, munged and slurmd of this machine's packages, all in memory.

It is made as an operator makes an image for clones: it has the key of munge and the users, and nothing that differs
between machines. The name comes from the SMBIOS, the address from DHCP, and the configuration from slurmctld.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import qemu_room
from batch_room import ADDRESS, Room

MEMORY_MIB: Final = 256
PLUGINS: Final = Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
OTHER_PLUGINS: Final = re.compile(
    r"slurm_pmi|(openapi|rest|burst_buffer|slurmctld|node_features|power|sched|job_submit|cli_filter)_.*|mpi_.*x.*"
)
"""Of slurmctld and of other programs."""
PROGRAMS: Final = ("/usr/sbin/slurmd", "/usr/sbin/slurmstepd", "/usr/sbin/munged", "/usr/bin/scontrol")
OPENED_LATER: Final = ("/lib/x86_64-linux-gnu/libgcc_s.so.1",)
"""By glibc, when a thread is cancelled."""
MODULES: Final = (
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"),
    *("failover", "net_failover", "virtio_net", "evdev", "button"),
)
"""In the order in which they need each other."""
INIT: Final = """#!/bin/sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /run /tmp /var/log {state} {munge}
chmod 1777 /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# slurmd looks for one of the layouts that systemd makes.
mount -t tmpfs cgroup /sys/fs/cgroup
mkdir /sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
mkdir -p /dev/shm /dev/pts
for each in {modules}; do insmod /$each.ko; done
for each in /dev/input/event*; do (dd if=$each of=/dev/null bs=24 count=1 2>/dev/null; poweroff -f) & done
# What systemd does in a virtual machine: its id is that of the machine.
tr -d - </sys/class/dmi/id/product_uuid >/etc/machine-id
name=$(cat /sys/class/dmi/id/product_serial)
hostname "$name"
echo "127.0.0.1 localhost" >/etc/hosts
ip link set lo up
ip link set eth0 up
until udhcpc -q -n -i eth0 -x "hostname:$name" -s /etc/udhcpc; do sleep 1; done
mkdir -p /run/munge
ln -s {munge}/socket /run/munge/munge.socket.2
munged --force --key-file={munge}/key --socket={munge}/socket --pid-file={munge}/pid \
    --log-file={munge}/log --seed-file={munge}/seed
until slurmd -Z -N "$name" --conf-server {controller}:6817; do sleep 2; done
while :; do sleep 60; done
"""
DHCP_SCRIPT: Final = """#!/bin/sh
if [ "$1" = bound ] || [ "$1" = renew ]; then
  ip address replace "$ip/${mask:-24}" dev "$interface"
  for each in $router; do ip route replace default via "$each"; done
  echo "$ip $(hostname)" >>/etc/hosts
fi
exit 0
"""
TEMPLATE: Final = """<domain type='qemu'><name>{name}</name>
  <memory unit='MiB'>{memory}</memory><vcpu>1</vcpu>
  <sysinfo type='smbios'><system><entry name='serial'>@MACHINE@</entry></system></sysinfo>
  <os><type arch='x86_64' machine='pc'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>
    <cmdline>console=ttyS0 quiet</cmdline><smbios mode='sysinfo'/></os>
  <features><acpi/></features>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{pool}/tiny.qcow2'/>
      <target dev='vda' bus='virtio'/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/>
      <model type='virtio'/></interface>
    <serial type='file'><source path='{log}' append='on'/></serial>
    <memballoon model='none'/></devices>
</domain>"""


def initrd_of(room: Room, unpacked: Path) -> Path:
    """`room`: with a controller that gives nodes their configuration. Its directories are the guest's, too."""
    root = room.make("guest/root")
    for name in ("bin", "etc", "usr/bin", "usr/sbin", f"{room.folder}/munge".lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox") or "", root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    plugins = [each for each in PLUGINS.glob("*.so") if not OTHER_PLUGINS.fullmatch(each.stem)]
    add_files(root, [*PROGRAMS, *OPENED_LATER, *map(str, plugins)])
    qemu_room.add_modules(unpacked, root, *MODULES)
    for name in ("passwd", "group"):
        shutil.copy(room.folder / name, root / "etc")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")
    key = root / f"{room.folder}/munge/key".lstrip("/")
    shutil.copy(room.folder / "munge/key", key)
    (root / "etc/udhcpc").write_text(DHCP_SCRIPT)
    (root / "etc/udhcpc").chmod(0o755)
    init = INIT.format(
        modules=" ".join(MODULES),
        munge=room.folder / "munge",
        state=room.folder / "slurm",
        controller=ADDRESS,
    )
    return qemu_room.packed(root, init)


def add_files(root: Path, files: Iterable[str]) -> None:
    """With the libraries that they need, each where this machine has it."""
    wanted = set(files)
    said = subprocess.run(["ldd", *wanted], capture_output=True, text=True, check=False, timeout=60).stdout
    wanted |= set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE))
    for each in sorted(wanted):
        copy = root / each.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, copy)
