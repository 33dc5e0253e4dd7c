"""Two servers of libvirt's qemu driver in a room with Slurm, whose guests join it.

Each server is a host of the room: its network has a bridge that reaches `head`, and nothing else. Whatever runs
there, guests too, ends with the host.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import libvirt_room
import qemu_room
import slurm_guest
import slurm_room
from batch_room import Room, furnished, need
from room_hosts import NETWORK, Hosts, hosts_of

from subord.services.batch.running import Commands
from subord.services.batch.slurm import adapter as slurm

PARTITION: Final = "tiny"
TEMPLATE: Final = "tiny"
SERVERS: Final = ("s1", "s2")
LINES: Final = f"""\
SlurmctldParameters=enable_configless
MaxNodeCount=16
TreeWidth=65533
SlurmdTimeout=30
SchedulerParameters=sched_interval=2,sched_min_interval=100000,bf_interval=1
PartitionName={PARTITION} Nodes=ALL Default=YES
"""
BRIDGE: Final = """
ip link add br0 type bridge
ip address flush dev eth0
ip link set eth0 master br0
ip address add "$1/24" dev br0
ip link set br0 up
ip route add default via "$2"
"""


DNSMASQ: Final = (
    *("dnsmasq", "--conf-file=/dev/null", "--no-resolv", "--user=root", "--interface=bridge", "--bind-interfaces"),
    *("--dhcp-authoritative", f"--dhcp-range={NETWORK}.100,{NETWORK}.199,24h", f"--dhcp-option=3,{NETWORK}.1"),
)
"""Addresses for guests, whose names are known from then on, as in libvirt's own networks."""


class HostDaemon(qemu_room.QemuDaemon):
    """The libvirtd of a server."""

    def __init__(self, folder: Path, hosts: Hosts, host: str) -> None:
        super().__init__(folder)
        self._hosts, self.host = hosts, host

    @property
    def prefix(self) -> list[str]:
        return [*self._hosts.enter(self.host), *super().prefix]

    def stop(self) -> None:
        """nsenter, which has started it, waits for it."""
        if self._process is not None and self._process.poll() is None:
            children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            for each in children:
                os.kill(int(each), signal.SIGKILL)
            self._process.wait()
            self._process = None
        super().stop()


class Servers:
    def __init__(self, room: Room, hosts: Hosts, controller: slurm_room.Slurm, unpacked: Path) -> None:
        self.room, self.controller, self.hosts = room, controller, hosts
        self.pool = room.make("pool")
        self._console = room.folder / "console"
        self._kernel = qemu_room.kernel_in(unpacked)
        self._initrd = slurm_guest.initrd_of(room, unpacked)
        files = {"--dhcp-leasefile": "leases", "--pid-file": "dnsmasq.pid"}
        room.run(*DNSMASQ, *(f"{option}={room.folder}/{name}" for option, name in files.items()))
        room.run("mount", "--bind", room.write("resolv.conf", f"nameserver {NETWORK}.1\n"), "/etc/resolv.conf")
        self.daemons: dict[str, HostDaemon] = {}

    def start(self) -> None:
        for name in SERVERS:
            address = self.hosts.start(name)
            self.hosts.run(name, "sh", "-ec", BRIDGE, "sh", address, f"{NETWORK}.1")
            self.daemons[name] = HostDaemon(self.room.folder / name, self.hosts, name)
            self.daemons[name].start()
            self._define(self.daemons[name])

    def stop(self) -> None:
        """The guests run on, until the room ends."""
        for daemon in self.daemons.values():
            daemon.stop()

    @property
    def adapter(self) -> slurm.Slurm:
        return slurm.Slurm(Commands(slurm.ENVIRONMENT, tuple(self.room.words())), PARTITION)

    def job(self, script: str) -> subprocess.Popen[str]:
        """A job of ann, with the standard streams of its own."""
        words = self.room.words("srun", f"--partition={PARTITION}", "sh", "-c", script, user="ann")
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd="/")

    @property
    def release(self) -> str:
        """Of the kernel of the guests."""
        return self._kernel.name.removeprefix("vmlinuz-")

    def said(self) -> str:
        """The end of what the guests have printed."""
        return self._console.read_text(errors="replace")[-2000:] if self._console.exists() else ""

    def images(self) -> list[str]:
        return sorted(path.name for path in self.pool.iterdir())

    def _define(self, daemon: HostDaemon) -> None:
        """The pool is that of all servers, as on shared storage."""
        connection = libvirt_room.need_binding().open(daemon.uri)
        pool = connection.storagePoolDefineXML(qemu_room.POOL.format(path=self.pool))
        pool.create()
        if "tiny.qcow2" not in pool.listVolumes():
            pool.createXML(qemu_room.VOLUME)
        values = {"name": TEMPLATE, "memory": slurm_guest.MEMORY_MIB, "log": self._console}
        values |= {"kernel": self._kernel, "initrd": self._initrd, "pool": self.pool}
        connection.defineXML(slurm_guest.TEMPLATE.format(**values))
        connection.close()


@contextmanager
def servers(unpacked: Path) -> Iterator[Servers]:
    """`unpacked`: a kernel for guests."""
    need(slurm_room.PROGRAMS | {"dnsmasq": "dnsmasq-base"})
    with furnished() as room, hosts_of(room) as hosts:
        controller = slurm_room.controlled(room, LINES)
        room.environment |= slurm.ENVIRONMENT
        both = Servers(room, hosts, controller, unpacked)
        try:
            both.start()
            yield both
        finally:
            both.stop()
