"""The bridge and a wire to every node, in namespaces that have no other link.

Intuition: a hotel switchboard in a cellar: every room has one line to it, and no line leaves the house.

Interface names: `eth0` in a node's namespace, `n<position>` at the bridge. Bytes and packets *received* at the
bridge end are those the node sent: adding them up counts each frame of the lab once.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netlab import linux
from netlab.errors import LabError
from netlab.layout import block_of, hardware_address, port_name
from netlab.neighbours import PermanentEntries

NODE_INTERFACE_INDEX = 2
LINK_S_MAX = 5.0
FORWARDING = 3  # BR_STATE_FORWARDING, include/uapi/linux/if_bridge.h


class Wires:
    """Makes and owns the network of a lab. Call it inside the private outer namespace."""

    def __init__(self, network: str) -> None:
        from pyroute2 import IPRoute  # 0.16 s and 10 MiB, which only the controller has to pay

        self._open_netlink: Callable[[], Any] = IPRoute
        self._network = network
        self._prefix = block_of(network).prefixlen
        self._outer = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._netlink: Any = IPRoute()
        self._ports: dict[str, int] = {}
        self.namespaces: dict[str, int] = {}  # address -> descriptor, which keeps the namespace alive
        self.hosts: Counter[str] = Counter()  # address -> how many hosts have had it before this one
        _without_ipv6()
        self._netlink.link("set", index=1, state="up")
        self._netlink.link("add", ifname="br0", kind="bridge", address="02:ff:00:00:00:01", br_mcast_snooping=0)
        self._bridge: int = self._netlink.link_lookup(ifname="br0")[0]
        self._netlink.link("set", index=self._bridge, state="up")

    def add(self, address: str, known: PermanentEntries | None) -> None:
        """A namespace for the node, wired to the bridge; with permanent neighbours when given. Raises OSError."""
        linux.unshare(linux.CLONE_NEWNET)
        try:
            self.namespaces[address] = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._furnish(address, known)
        finally:
            linux.setns(self._outer, linux.CLONE_NEWNET)
        port: int = self._netlink.link_lookup(ifname=self.port_name(address))[0]
        self._netlink.link("set", index=port, master=self._bridge, state="up")
        self._ports[address] = port

    def _furnish(self, address: str, known: PermanentEntries | None) -> None:
        _without_ipv6()
        index = NODE_INTERFACE_INDEX
        mac = ":".join(f"{byte:02x}" for byte in hardware_address(address, self.hosts[address]))
        peer = {"ifname": self.port_name(address), "net_ns_fd": self._outer}
        broadcast = str(block_of(self._network).broadcast_address)
        with self._open_netlink() as inside:
            inside.link("set", index=1, state="up")  # without `lo` even 127.0.0.1 is unreachable
            inside.link("add", ifname="eth0", kind="veth", index=index, address=mac, peer=peer)
            inside.addr("add", index=index, address=address, prefixlen=self._prefix, broadcast=broadcast)
            inside.link("set", index=index, state="up")
        if known is not None:
            known.write_here()

    def port_name(self, address: str) -> str:
        return port_name(address, self._network)

    def cut(self, address: str, *, connected: bool) -> None:
        """Pull the node's cable out of the bridge, or put it back. The node itself sees no link change."""
        self._netlink.link("set", index=self._ports[address], master=self._bridge if connected else 0)

    def replace(self, address: str, *, ask_by_arp: bool) -> None:
        """Another host at the same address: a fresh namespace with another MAC. Raises OSError.

        Its neighbours learn the MAC as on a real wire: it announces itself (RFC 5227, 2.3). Permanent entries
        cannot be learnt: they are written anew, everywhere.
        """
        self._netlink.link("del", index=self._ports.pop(address))
        os.close(self.namespaces.pop(address))
        self.hosts[address] += 1
        self.add(address, None if ask_by_arp else self._entries(tuple(self.namespaces)))
        if ask_by_arp:
            _await(lambda: self._is_forwarding(address))
            self._inside(address, lambda: self._announce(address))
        else:
            entry = self._entries((address,))
            for other in self.namespaces:
                self._inside(other, entry.write_here)

    def _entries(self, addresses: tuple[str, ...]) -> PermanentEntries:
        return PermanentEntries(addresses, NODE_INTERFACE_INDEX, self.hosts)

    def _inside(self, address: str, act: Callable[[], None]) -> None:
        linux.setns(self.namespaces[address], linux.CLONE_NEWNET)
        try:
            act()
        finally:
            linux.setns(self._outer, linux.CLONE_NEWNET)

    def _is_forwarding(self, address: str) -> bool:
        """Whether the bridge lets through what comes from that port: some milliseconds after it was plugged in."""
        (link,) = self._netlink.get_links(self._ports[address])
        state: int = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_SLAVE_DATA", "IFLA_BRPORT_STATE")
        return state == FORWARDING

    def _announce(self, address: str) -> None:
        """From inside its namespace, when the interface there does not swallow everything any more."""
        with self._open_netlink() as inside:
            _await(lambda: inside.get_links(NODE_INTERFACE_INDEX)[0].get_attr("IFLA_QDISC") != "noop")
        _announce(address, self.hosts[address])

    def close(self) -> None:
        """Let go of the namespaces; each vanishes, with its wire, when the last process in it has ended."""
        for descriptor in self.namespaces.values():
            os.close(descriptor)
        self.namespaces.clear()


def port_counters() -> dict[str, tuple[int, int]]:
    """Bytes (Ethernet header included) and packets that came in, by interface of the namespace we are in."""
    counters = {}
    for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split(maxsplit=2)
        counters[name.strip()] = (int(fields[0]), int(fields[1]))
    return counters


def _await(condition: Callable[[], bool]) -> None:
    """The kernel brings links up beside us. Raises LabError when that takes too long."""
    until = time.monotonic() + LINK_S_MAX
    while not condition():
        if time.monotonic() > until:
            raise LabError(f"A new wire did not come up within {LINK_S_MAX:g} s: end this lab.")
        time.sleep(0.002)


def _announce(address: str, host: int) -> None:
    """An ARP announcement: "this address is mine", for everybody who has noted another MAC (RFC 5227, 1.1)."""
    mac, ip = hardware_address(address, host), socket.inet_aton(address)
    header = struct.pack("!6s6sH", b"\xff" * 6, mac, 0x0806)
    request = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, mac, ip, bytes(6), ip)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind(("eth0", 0))
        wire.send(header + request)


def _without_ipv6() -> None:
    """Nobody here speaks it, and its neighbour discovery would count as traffic at rest."""
    for which in ("all", "default"):
        try:
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")
        except OSError:  # a kernel without IPv6, or a read-only /proc/sys: a few packets more
            return
