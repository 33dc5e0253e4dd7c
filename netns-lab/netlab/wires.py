"""The bridge and a wire to every node, in namespaces that have no other link.

Intuition: a hotel switchboard in a cellar: every room has one line to it, and no line leaves the house.

Interface names: `eth0` in a node's namespace, `n<position>` at the bridge. Bytes and packets *received* at the
bridge end are those the node sent: adding them up counts each frame of the lab once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from netlab import linux
from netlab.layout import block_of, hardware_address, position_of
from netlab.neighbours import PermanentEntries

NODE_INTERFACE_INDEX = 2


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
        mac = ":".join(f"{byte:02x}" for byte in hardware_address(address))
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
        return f"n{position_of(address, self._network)}"

    def cut(self, address: str, *, connected: bool) -> None:
        """Pull the node's cable out of the bridge, or put it back. The node itself sees no link change."""
        self._netlink.link("set", index=self._ports[address], master=self._bridge if connected else 0)

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


def _without_ipv6() -> None:
    """Nobody here speaks it, and its neighbour discovery would count as traffic at rest."""
    for which in ("all", "default"):
        try:
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")
        except OSError:  # a kernel without IPv6, or a read-only /proc/sys: a few packets more
            return
