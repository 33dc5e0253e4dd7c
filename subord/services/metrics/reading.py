"""Reads the files of the kernel, the file systems and the sensors of a node. File systems and sensors may block.

Inputs are files of /proc and /sys; outputs are samples. Invariants: a file system or a sensor that cannot be read
costs its own samples only; what other users can name, such as a mount point, may have any bytes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from subord.services.metrics import kernel
from subord.services.metrics.growth import Growth
from subord.services.metrics.kernel import Samples
from subord.services.metrics.texts import name_of

SENSORS: Final = "/sys/class/hwmon"
SENSORS_MAX: Final = 64
INTERFACES: Final = "/sys/class/net"
VIRTUAL: Final = "/sys/devices/virtual/net"
MOUNTS: Final = "/proc/self/mounts"
LOCAL: Final = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs")
"""File systems that cannot hang on a server."""
OF_CONTAINERS: Final = ("/var/lib/docker/", "/var/lib/containers/", "/var/lib/kubelet/", "/run/", "/snap/")
"""Below these each mount point has a name of its own, and a cluster would have as many metrics as containers."""
MOUNTS_MAX: Final = 8
READ_BYTES: Final = 1 << 16
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_INPUT: Final = re.compile(r"temp[0-9]+_input")


class Kernel:
    """The files of the kernel, round by round."""

    def __init__(self) -> None:
        self._growth = Growth()
        self._sensors: tuple[list[str], list[str]] = [], []
        """The directories of the last round, and the files in them."""
        self._interfaces: tuple[list[str], Collection[str]] = [], ()
        """Those of the last round, and which of them are counted."""

    def read(self) -> Samples:
        """All files but sensors. Raises OSError if one that every kernel has cannot be read."""
        found: dict[str, float] = {"node_time_seconds": time.time()}
        for each in kernel.FILES:
            try:
                found.update(each.parse(_text(each.path)))
            except OSError:
                if not each.is_optional:
                    raise
        with suppress(OSError):
            text = _text(kernel.NETWORK)
            found.update(kernel.network(text, self._counted(kernel.interfaces(text))))
        return self._growth.of(found)

    def _counted(self, names: list[str]) -> Collection[str]:
        """Looked up again when there are other interfaces than before."""
        if names != self._interfaces[0]:
            self._interfaces = names, counted_interfaces(names)
        return self._interfaces[1]

    def temperature(self) -> Samples:
        """Of the sensors, which may take long: some ask a device."""
        texts = []
        for path in self._inputs():
            with suppress(OSError):  # a sensor that is asleep has no value
                texts.append(_text(path))
        return kernel.temperature(texts)

    def _inputs(self) -> list[str]:
        """The files of sensors, listed again when the kernel has other sensors than before."""
        directories = sorted(_listed(SENSORS))
        if directories != self._sensors[0]:
            places = (f"{SENSORS}/{each}" for each in directories)
            files = [
                f"{place}/{name}" for place in places for name in sorted(_listed(place)) if _INPUT.fullmatch(name)
            ]
            self._sensors = directories, files[:SENSORS_MAX]
        return self._sensors[1]


def has_sensors() -> bool:
    """So that a node without any starts no thread for them."""
    return os.path.isdir(SENSORS)


def file_systems() -> Samples:
    """The first local file systems, each once."""
    found: dict[str, float] = {}
    devices = set[str]()
    for place, device in local_mounts(_text(MOUNTS)):
        if device in devices:
            continue
        try:
            status = os.statvfs(place)
        except OSError:
            continue  # this user may not look there, or another one is mounted above it
        if not status.f_blocks:
            continue
        devices.add(device)
        labels = [("mountpoint", os.fsencode(place).decode("utf-8", "replace"))]
        found[name_of("node_filesystem_size_bytes", labels)] = float(status.f_blocks * status.f_frsize)
        found[name_of("node_filesystem_avail_bytes", labels)] = float(status.f_bavail * status.f_frsize)
        if len(devices) == MOUNTS_MAX:
            break
    return found


def local_mounts(text: str) -> Iterator[tuple[str, str]]:
    """Mount points with their devices. What is mounted last at a place is what is seen there."""
    seen: dict[str, tuple[str, str]] = {}
    for line in text.split("\n"):
        fields = line.split(" ")
        if len(fields) > 2:
            seen[_ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1])] = fields[0], fields[2]
    for place, (device, kind) in seen.items():
        # The root of a container is an overlay; others are containers of this node.
        if (kind in LOCAL or (kind == "overlay" and place == "/")) and not place.startswith(OF_CONTAINERS):
            yield place, device


def counted_interfaces(names: Collection[str]) -> Collection[str]:
    """Interfaces whose bytes are not those of others. Bonds, bridges, VLANs, tunnels and the interfaces of
    containers are virtual: what they carry has passed a physical one, or stays on the node. A container has virtual
    ones only."""
    physical = set(names) - {"lo", *_listed(VIRTUAL)}
    if physical:
        # The virtual function behind an interface of a hypervisor counts the same bytes as that interface.
        return {each for each in physical if _leader(each) not in physical}
    return {each for each in names if not any(one.startswith("lower_") for one in _listed(f"{INTERFACES}/{each}"))}


def _leader(interface: str) -> str:
    try:
        return os.path.basename(os.readlink(f"{INTERFACES}/{interface}/master"))
    except OSError:
        return ""


def _listed(directory: str) -> list[str]:
    """Empty: there is none, as in some containers."""
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _text(path: str) -> str:
    """Any bytes, because names of mount points and interfaces may have them. Without the layers of `open`, which take
    most of the time of a round."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, READ_BYTES):
            parts.append(part)
    finally:
        os.close(descriptor)
    return b"".join(parts).decode("utf-8", "surrogateescape")
