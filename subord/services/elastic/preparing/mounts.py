"""Mounts the directories of the queue's node by NFS, and unmounts them when the node leaves.

Inputs are the mounts of the plan and the address of the queue's node; output is whether something was mounted or
unmounted. Invariants: what is mounted already is left as it is; a directory on which something else is mounted is a
fault, and then nothing is mounted; only what the plan mounts from this address is ever unmounted. Files with the bits
setuid and setgid have no effect there, and devices are none: what one node can write must not make root on another.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final

from subord.services.batch.running import Ran
from subord.services.elastic.plan import Mount
from subord.services.elastic.preparing.faults import PreparingError
from subord.services.elastic.preparing.folders import make_folders
from subord.services.elastic.preparing.machine import Machine, in_thread
from subord.services.elastic.preparing.mounted import Mounted, read
from subord.services.elastic.preparing.rights import Need, of_read_only

MOUNT_S_MAX: Final = 45.0
UNMOUNT_S_MAX: Final = 15.0
PACKAGES: Final = "nfs-common (Debian) or nfs-utils in the image of the node"
OPTIONS: Final = "nosuid,nodev,retry=0"
"""Besides rw or ro. A mount that fails is tried again by the order, not by mount.nfs, which does so for two minutes.
It is a hard one, the default: if the queue's node is away, programs wait; a soft one would lose what they write."""
MEANINGS: Final = {
    "connection refused": "start the NFS server of the queue's node (systemctl enable --now nfs-server)",
    "timed out": "let the queue's node answer on port 2049 of TCP",
    "no route": "let this node reach the queue's node",
    "access denied": "see `exportfs -s` on the queue's node: it does not export that to the address of this node",
    "no such file": "make the directory on the queue's node",
}


async def mount(mounts: Iterable[Mount], master: str, machine: Machine) -> bool:
    """Whether some were missing. Raises PreparingError."""
    wanted = sorted(mounts, key=lambda each: each.target.count("/"))
    missing = await _missing(wanted, master, machine)
    if not missing:
        return False
    machine.demand(Need.MOUNTS)
    machine.demand_program("mount.nfs", PACKAGES)
    for each in missing:
        await _mount(each, master, machine)
    if left := await _missing(wanted, master, machine):
        raise PreparingError(f"mount says that {left[0].target} is mounted on this node, and the kernel does not")
    return True


async def _missing(mounts: Sequence[Mount], master: str, machine: Machine) -> list[Mount]:
    """With their targets as the kernel names them. Raises PreparingError."""
    there = read(await machine.read("self/mountinfo"))
    missing = []
    for each in mounts:
        target = await _target(each.target, there)
        found = there.get(target)
        if found is None:
            missing.append(Mount(source=each.source, target=target, read_only=each.read_only))
        else:
            _demand_right(each, found, master, machine)
    return missing


async def _target(path: str, there: dict[str, Mounted]) -> str:
    """The directory behind symbolic links. One that is mounted is not touched: its server may be gone."""
    return path if path in there else await in_thread(lambda: os.path.realpath(path), path)


def _demand_right(wanted: Mount, found: Mounted, master: str, machine: Machine) -> None:
    """Raises PreparingError."""
    source = source_of(wanted, master)
    if found.source != source or found.kind not in machine.nfs:
        raise PreparingError(
            f"on {wanted.target} of this node {found.source} ({found.kind}) is mounted, and the plan mounts {source} "
            "there; nothing was changed: unmount it, or correct the plan or the image of the node"
        )
    if found.is_read_only != wanted.read_only:
        modes = ("read-only", "to be written") if found.is_read_only else ("to be written", "read-only")
        raise PreparingError(
            f"{wanted.target} of this node is mounted {modes[0]}, and the plan wants it {modes[1]}; nothing was "
            "changed: unmount it; the order is given again"
        )


def source_of(mount: Mount, master: str) -> str:
    """As mount.nfs wants it, and the kernel says it."""
    return f"[{master}]:{mount.source}" if ip_address(master).version == 6 else f"{master}:{mount.source}"


async def _mount(wanted: Mount, master: str, machine: Machine) -> None:
    """Raises PreparingError."""
    source = source_of(wanted, master)
    try:
        await in_thread(lambda: make_folders(wanted.target), wanted.target)
    except OSError as error:
        raise of_read_only(error, f"the directory {wanted.target} cannot be made on this node") from None
    options = f"{'ro' if wanted.read_only else 'rw'},{OPTIONS}"
    ran = await machine.run("mount", "-t", "nfs", "-o", options, source, wanted.target, limit_s=MOUNT_S_MAX)
    if ran.code:
        what = f"{wanted.target} of this node is not mounted from {master}: {ran.words[:160]}"
        raise PreparingError(f"{what}; mounts before it stay: {await _to_do(ran, machine)}")


async def _to_do(ran: Ran, machine: Machine) -> str:
    """By what the kernel and mount.nfs say; mounting has loaded the module, if there is one."""
    kinds = (await machine.read("filesystems")).split()
    if kinds and not machine.nfs & set(kinds):
        return "the kernel of this node has no NFS: give the image one whose module nfs can be loaded (modprobe nfs)"
    text = ran.words.lower()
    return next((what for key, what in MEANINGS.items() if key in text), "the order is given again")


async def unmount(mounts: Iterable[Mount], master: str, machine: Machine) -> bool:
    """Whether something was mounted. What is in use goes when its last user ends. Raises PreparingError, after all
    were tried."""
    faults, is_changed = [], False
    for each in sorted(mounts, key=lambda each: -each.target.count("/")):
        try:
            is_changed |= await _unmount(each, master, machine)
        except PreparingError as error:
            faults.append(str(error))
    if faults:
        raise PreparingError("; ".join(faults))
    return is_changed


async def _unmount(wanted: Mount, master: str, machine: Machine) -> bool:
    """Raises PreparingError."""
    there = read(await machine.read("self/mountinfo"))
    target = await _target(wanted.target, there)
    found = there.get(target)
    if found is None or found.source != source_of(wanted, master) or found.kind not in machine.nfs:
        return False
    machine.demand(Need.MOUNTS)
    try:
        if not (await machine.run("umount", target, limit_s=UNMOUNT_S_MAX)).code:
            return True
    except PreparingError:
        pass  # the queue's node does not answer
    words = ("umount", "--lazy", "--no-canonicalize", "--internal-only", target)
    ran = await machine.run(*words, limit_s=UNMOUNT_S_MAX)
    if ran.code:
        raise PreparingError(f"{target} cannot be unmounted on this node, and stays mounted: {ran.words}")
    return True
