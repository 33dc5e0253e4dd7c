"""Room in the kernel's neighbour table, which all namespaces of a machine share.

128 entries are free to use; at 1,024 the table is full, and not even the machine's own name resolution can add one.
Only root of the machine's first namespace may raise the limits. Every user may write permanent entries, which do not
count (Linux >= 5.0); then each node needs one of every other beforehand. The limits are put back when the last lab
that needed them higher ends.

Source: arp(7), net/core/neighbour.c (neigh_alloc).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netlab.common import linux
from netlab.common.measure import memory_available_bytes
from netlab.errors import LabError
from netlab.topology.addresses import packed
from netlab.topology.netlink import attribute, error_of, request

_LIMITS = tuple(f"/proc/sys/net/ipv4/neigh/default/gc_thresh{number}" for number in (1, 2, 3))
_LEDGER = "/run/subord-lab-neighbours"  # the limits as they were, and the labs that need them higher
# IPv6 has a table and a ledger of its own.

# Measured on Linux 6.18, 2 cores: 3 us and 500 bytes an entry; 700 nodes write 490,000 in 1.5 s.
PAIR_BYTES = 512
FREE_ENTRIES = 512  # half of the kernel's own limit
NO_ROOM_TO_ASK = (
    "--arp is out of reach for so many nodes: every node must ask by ARP, and only root of the machine's first"
    " namespace may enlarge the kernel's neighbour table. Nothing was started. Run as root, or with fewer nodes."
)
SILENT_MAX = 2048  # addresses without a host that one node has asked for and the kernel has not forgotten
MEMORY_SHARE_MAX = 0.25
_RTM_NEWNEIGH, _CREATE_REPLACE, _NDA_DST, _NDA_LLADDR = 28, 0x400 | 0x100, 1, 2


def fits(nodes: int, limits: tuple[int, ...], silent: int = 0, *, by_arp: bool = True) -> bool:
    """Whether nodes can have an entry of every address they meet without filling the table.

    `silent` addresses of the network have no host: a request for one leaves an entry, too, for about half a minute.
    `limits` are gc_thresh1, 2 and 3; () when the kernel does not show them.
    """
    met = (nodes - 1 if by_arp else 0) + min(silent, SILENT_MAX)
    if nodes * met <= FREE_ENTRIES:
        return True
    return limits != () and all(has >= wants for has, wants in zip(limits, _wanted(nodes, silent), strict=True))


def _wanted(nodes: int, silent: int) -> tuple[int, int, int]:
    """A node meets its edges, at most 64 candidates in a search round (protocol.md, section 3), and silent addresses.

    The first limit stays low: above it the kernel clears away entries without an answer.
    """
    beyond = nodes * min(silent, SILENT_MAX)
    return 64 * nodes, 128 * nodes + beyond, 256 * nodes + 2 * beyond


class Table:
    """The three limits of the first namespace, for one IP version. Open it before leaving that namespace."""

    def __init__(self, version: int = 4) -> None:
        self._version = version
        self._owner = f"{os.getpid()}/{linux.started_at(os.getpid())}"
        self._files: list[int] = []  # the limits, and the ledger last; [] while no room is needed

    def make_room(self, nodes: int, silent: int = 0) -> bool:
        """True when `nodes` may ask by ARP; raises the limits for as long as needed where that is permitted."""
        if fits(nodes, (), silent):  # another lab may have raised the limits and will lower them
            return True
        how = os.O_RDWR | os.O_CLOEXEC
        try:
            for path in _limits(self._version):
                self._files.append(os.open(path, how))
            self._files.append(os.open(_ledger(self._version), how | os.O_CREAT, 0o644))
        except OSError:  # not root, not the first namespace, or a read-only /proc/sys
            self._close()
            return False
        with self._locked() as ledger:
            ledger["before"] = ledger["before"] or [_read(file) for file in self._files[:3]]
            ledger["users"].append(self._owner)
            for file, wants in zip(self._files, _wanted(nodes, silent), strict=False):
                if _read(file) < wants:
                    _write(file, wants)
        return True

    def restore(self) -> None:
        """Leave the ledger; the last lab puts the limits back. Safe to repeat, works from inside other namespaces."""
        if not self._files:
            return
        with self._locked() as ledger:
            ledger["users"] = [user for user in ledger["users"] if user != self._owner]
            if not ledger["users"]:
                for file, was in zip(self._files, ledger["before"], strict=False):
                    # A lab with a /run of its own counts the limits of this one as those before, and may end later.
                    if was < _read(file):
                        _write(file, was)
                ledger["before"] = []
        self._close()

    @contextmanager
    def _locked(self) -> Iterator[dict[str, list[Any]]]:
        """The ledger, for changes: the limits before, and the labs that live and need them higher."""
        file = self._files[-1]
        fcntl.flock(file, fcntl.LOCK_EX)
        text = os.pread(file, 65536, 0)
        ledger = json.loads(text) if text else {"before": [], "users": []}
        ledger["users"] = [user for user in ledger["users"] if _is_alive(user)]
        yield ledger
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(ledger).encode(), 0)
        fcntl.flock(file, fcntl.LOCK_UN)

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


def _read(limit: int) -> int:
    return int(os.pread(limit, 32, 0))


def _write(limit: int, value: int) -> None:
    os.pwrite(limit, f"{value:<10}".encode(), 0)


def check_silent(nodes: int, silent: int) -> None:
    """For nodes with permanent entries. Raises LabError when requests for silent addresses would fill the table."""
    if not fits(nodes, (), silent, by_arp=False):
        raise LabError(
            f"{nodes} nodes among {silent} addresses without a host are out of reach: only root of the machine's"
            " first namespace may enlarge the kernel's neighbour table, and a full one takes down the machine's own"
            " name resolution. Nothing was started. Run as root, or with fewer nodes or a smaller --network."
        )


def check_permanent(nodes: int) -> None:
    """Raises LabError when so many permanent entries would take too much of the machine's memory."""
    available = memory_available_bytes()
    needed = nodes * nodes * PAIR_BYTES
    if needed > available * MEMORY_SHARE_MAX:
        raise LabError(
            f"{nodes} nodes are out of reach: only root of the machine's first namespace may enlarge the kernel's"
            f" neighbour table, and without that {nodes * nodes} permanent entries would take {needed >> 20} MiB of"
            f" kernel memory. Nothing was started. Run as root, or with fewer nodes."
        )


class PermanentEntries:
    """Neighbours on one link, as netlink requests made once and sent into each namespace.

    `hardware`: address -> MAC, 6 bytes.
    """

    def __init__(self, hardware: Mapping[str, bytes], interface_index: int = 2) -> None:
        entries = [_entry(address, mac, interface_index) for address, mac in hardware.items()]
        self._requests = [b"".join(entries[start : start + 300]) for start in range(0, len(entries), 300)]

    def write_here(self) -> None:
        """Into the present namespace. Raises OSError."""
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            for each in self._requests:
                netlink.send(each)  # the kernel answers errors alone
            netlink.setblocking(False)
            try:
                answer = netlink.recv(4096)
            except BlockingIOError:
                return
            code = error_of(answer)
            raise OSError(code, f"permanent neighbour entry: {os.strerror(code)}")


def _entry(address: str, mac: bytes, interface_index: int) -> bytes:
    """A permanent neighbour (rtnetlink(7)): ndmsg, address, MAC."""
    target = packed(address)
    family = socket.AF_INET if len(target) == 4 else socket.AF_INET6
    body = struct.pack("=BBHiHBB", family, 0, 0, interface_index, 0x80, 0, 1)
    body += attribute(_NDA_DST, target) + attribute(_NDA_LLADDR, mac)
    return request(_RTM_NEWNEIGH, _CREATE_REPLACE, body)


def lasting_limits(version: int = 4) -> tuple[int, ...]:
    """The limits as they are when no lab runs; () where the kernel does not show them (other namespaces)."""
    try:
        before = json.loads(Path(_ledger(version)).read_text())["before"]
    except (OSError, ValueError):  # no lab of root has run, or one is writing just now
        before = []
    if before:
        return tuple(before)
    try:
        return tuple(int(Path(path).read_text()) for path in _limits(version))
    except OSError:
        return ()


def _limits(version: int) -> tuple[str, ...]:
    return _LIMITS if version == 4 else tuple(path.replace("ipv4", "ipv6") for path in _LIMITS)


def _ledger(version: int) -> str:
    return _LEDGER if version == 4 else f"{_LEDGER}-6"


def _is_alive(owner: str) -> bool:
    pid, _, started = owner.partition("/")
    return str(linux.started_at(int(pid))) == started
