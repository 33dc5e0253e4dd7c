"""The bridges of a lab (one for each subnet or site) and the link of every node to one of them.

Interface names: `eth0` in a node's namespace, `n<position>` at the bridge. Bytes and packets *received* at the
bridge end are those the node sent: adding them up counts each frame of the lab once. No link leads out of the outer
namespace, and a node's namespace vanishes with its link when the last process in it has ended.

The router of the layout `routed` is one host with an interface on every bridge (`eth0`, `eth1`, ... at the ports
`r0`, `r1`, ...), which forwards between the subnets.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netlab.common import linux
from netlab.common.waiting import wait_until
from netlab.errors import LabError
from netlab.topology.addresses import Block, hardware_address, link_number, links, port_name, router_addresses
from netlab.topology.arp_filter import ArpFilter
from netlab.topology.filters import ArpProxy
from netlab.topology.neighbours import PermanentEntries
from netlab.topology.relay import TAP_FRAMES_MAX, tap_name
from netlab.topology.sites import Sites

FIRST_INTERFACE_INDEX = 2  # in the namespaces of nodes and of the router
IFA_F_NODAD = 0x02  # include/uapi/linux/if_addr.h
LINK_S_MAX = 5.0
NTF_MASTER, NUD_NOARP = 0x04, 0x40  # an entry of the bridge that lasts: include/uapi/linux/neighbour.h
FORWARDING = 3  # BR_STATE_FORWARDING, include/uapi/linux/if_bridge.h


class Bridges:
    """Makes and owns the network of a lab. Make it inside the private outer namespace.

    `known`: addresses that every node on the same bridge has permanent entries of; for others it asks. `arp_filter`
    stops requests for silent addresses, `arp_proxy` redirects the others. With `sites` each has a bridge, which
    `plug_in_relay` connects.
    """

    def __init__(
        self,
        network: str,
        subnets: Sequence[str] = (),
        known: Sequence[str] = (),
        arp_filter: ArpFilter | None = None,
        arp_proxy: ArpProxy | None = None,
        *,
        sites: Sites | None = None,
    ) -> None:
        from pyroute2 import IPRoute  # 0.16 s and 10 MiB, which only the controller has to pay

        self._open_netlink: Callable[[], Any] = IPRoute
        self._network = network
        self._sites = sites
        self._links = links(network, subnets) * (1 if sites is None else len(sites.names))
        self._routers = router_addresses(subnets)
        self._known = tuple(known)
        self._arp_filter = arp_filter
        self._arp_proxy = arp_proxy
        self._outer = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._netlink: Any = IPRoute()
        self._ports: dict[str, int] = {}
        self.namespaces: dict[str, int] = {}  # address -> descriptor, which keeps the namespace alive
        self._router: int | None = None
        self.hosts: Counter[str] = Counter()  # address -> how many hosts have had it before this one
        self.names = [f"br{number}" for number in range(len(self._links))]
        _disable_ipv6()  # bridges forward it nevertheless
        self._netlink.link("set", index=1, state="up")
        for number, name in enumerate(self.names, 1):
            mac = f"02:ff:00:00:00:{number:02x}"
            self._netlink.link("add", ifname=name, kind="bridge", address=mac, br_mcast_snooping=0)
            self._netlink.link("set", index=self._index_of(name), state="up")
        # Where br_netfilter is loaded it takes every frame through the rules of iptables, of which there are none.
        _write_all([str(path) for path in Path("/proc/sys/net/bridge").glob("bridge-nf-call-*")], "0")
        if arp_proxy is not None:
            arp_proxy.begin()
        if arp_filter is not None:
            arp_filter.copies_redirected &= self._is_redirecting
        self._indexes = list(map(self._index_of, self.names))
        self._entries = [PermanentEntries(self._neighbours(number)) for number in range(len(self._links))]
        if self._routers:
            self._router = self._make(self._set_up_router)
            for number in range(len(self._links)):
                self._plug_in(self._index_of(f"r{number}"), number)

    @property
    def _is_redirecting(self) -> bool:
        return self._arp_proxy is not None and self._arp_proxy.runs

    def add(self, address: str) -> None:
        """A namespace for the node, linked to its bridge. Raises OSError."""
        self.namespaces[address] = self._make(lambda: self._set_up_node(address))
        self._ports[address] = self._index_of(self.port_name(address))
        self._plug_in(self._ports[address], self._link_of(address))
        self._make_known(address)

    def plug_in_relay(self) -> None:
        for number, bridge in enumerate(self._indexes):
            tap = self._index_of(tap_name(number))
            self._netlink.link("set", index=tap, master=bridge, txqlen=TAP_FRAMES_MAX, state="up")

    def _make_known(self, address: str) -> None:
        """To the bridge, before the node has sent anything: else it would copy a redirected request to every port."""
        if self._is_redirecting:
            mac = self._mac(address).hex(":")
            self._netlink.fdb("append", ifindex=self._ports[address], lladdr=mac, flags=NTF_MASTER, state=NUD_NOARP)

    def _mac(self, address: str) -> bytes:
        return hardware_address(address, self.hosts[address])

    def _make(self, set_up: Callable[[], None]) -> int:
        """A new namespace, set up from inside; its descriptor."""
        linux.unshare(linux.CLONE_NEWNET)
        try:
            set_up()
            return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            linux.setns(self._outer, linux.CLONE_NEWNET)

    def _set_up_node(self, address: str) -> None:
        link = self._link_of(address)
        if self._links[link].version == 6:
            _enable_ipv6()
        else:
            _disable_ipv6()
        with self._open_netlink() as inside:
            inside.link("set", index=1, state="up")  # without `lo` even 127.0.0.1 is unreachable
            self._add_interface(
                inside, 0, address, self._links[link], mac=self._mac(address), port=self.port_name(address)
            )
            if self._routers:
                inside.route("add", dst="default", gateway=self._routers[link])
        self._entries[link].write_here()

    def _set_up_router(self) -> None:
        _disable_ipv6()
        with self._open_netlink() as inside:
            inside.link("set", index=1, state="up")
            for number, (address, block) in enumerate(zip(self._routers, self._links, strict=True)):
                self._add_interface(inside, number, address, block, mac=router_mac(number), port=f"r{number}")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for number in range(len(self._links)):
            PermanentEntries(self._hardware(number), FIRST_INTERFACE_INDEX + number).write_here()

    def _add_interface(self, inside: Any, number: int, address: str, block: Block, *, mac: bytes, port: str) -> None:
        """`eth<number>` in the present namespace, with its other end at that port in the outer one."""
        index, peer = FIRST_INTERFACE_INDEX + number, {"ifname": port, "net_ns_fd": self._outer}
        how = {"broadcast": str(block.broadcast_address)} if block.version == 4 else {"flags": IFA_F_NODAD}
        inside.link("add", ifname=f"eth{number}", kind="veth", index=index, address=mac.hex(":"), peer=peer)
        inside.addr("add", index=index, address=address, prefixlen=block.prefixlen, **how)
        inside.link("set", index=index, state="up")

    def _link_of(self, address: str) -> int:
        return link_number(address, self._links) if self._sites is None else self._sites.numbers[address]

    def _index_of(self, name: str) -> int:
        found: int = self._netlink.link_lookup(ifname=name)[0]
        return found

    def _plug_in(self, port: int, link: int) -> None:
        self._netlink.link("set", index=port, master=self._indexes[link], state="up")
        if self._arp_filter is not None:
            self._arp_filter.attach(port, self._indexes[link])
            if self._arp_proxy is not None and not self._arp_filter.works:
                self._arp_proxy.end()  # or the bridge would not hear what is to be counted

    def port_name(self, address: str) -> str:
        return port_name(address, self._network)

    def cut(self, address: str, *, connected: bool) -> None:
        """Pull the node's cable out of the bridge, or put it back. The node itself sees no link change."""
        bridge = self._indexes[self._link_of(address)] if connected else 0
        self._netlink.link("set", index=self._ports[address], master=bridge)
        if connected:
            self._make_known(address)

    def check_replaceable(self) -> None:
        """Raises LabError, with nothing changed, where `replace` is not supported."""
        if len(self._links) > 1 or self._links[0].version == 6:
            raise LabError("Another host at the same address: the lab can do that with IPv4 on one bridge alone.")
        if self._is_redirecting:
            raise LabError("Another host at the same address: no host of this lab would hear its announcement.")

    def replace(self, address: str) -> None:
        """Another host at the same address: a fresh namespace with another MAC. Raises OSError.

        Its neighbours learn the MAC as on a real wire: it announces itself (RFC 5227, 2.3). Permanent entries
        cannot be learnt, so they are written anew in every namespace.
        """
        self._netlink.link("del", index=self._ports.pop(address))
        os.close(self.namespaces.pop(address))
        self.hosts[address] += 1
        if not self._known:
            self.add(address)
            _await(lambda: self._is_forwarding(address))
            self._inside(address, lambda: self._announce(address))
            return
        self._entries[0] = PermanentEntries(self._neighbours(0))
        self.add(address)
        entry = PermanentEntries({address: self._mac(address)})
        for other in self.namespaces:
            self._inside(other, entry.write_here)

    def _hardware(self, link: int) -> dict[str, bytes]:
        """MAC of every known address on that bridge."""
        there = [each for each in self._known if self._sites is not None or self._link_of(each) == link]
        return {each: self._mac(each) for each in there}

    def _neighbours(self, link: int) -> dict[str, bytes]:
        """The permanent entries of a node on that bridge: these, and its router."""
        found = self._hardware(link)
        if found and self._routers:
            found[self._routers[link]] = router_mac(link)
        return found

    def _inside(self, address: str, act: Callable[[], None]) -> None:
        linux.setns(self.namespaces[address], linux.CLONE_NEWNET)
        try:
            act()
        finally:
            linux.setns(self._outer, linux.CLONE_NEWNET)

    def _is_forwarding(self, address: str) -> bool:
        """Whether the bridge forwards frames from that port: some milliseconds after it was plugged in."""
        (link,) = self._netlink.get_links(self._ports[address])
        state: int = link.get_nested("IFLA_LINKINFO", "IFLA_INFO_SLAVE_DATA", "IFLA_BRPORT_STATE")
        return state == FORWARDING

    def _announce(self, address: str) -> None:
        """From inside its namespace, as soon as the interface there sends frames.

        For every host that has noted another MAC of this address (RFC 5227, 1.1).
        """
        with self._open_netlink() as inside:
            _await(lambda: inside.get_links(FIRST_INTERFACE_INDEX)[0].get_attr("IFLA_QDISC") != "noop")
        mac, ip = self._mac(address), socket.inet_aton(address)
        header = struct.pack("!6s6sH", b"\xff" * 6, mac, 0x0806)
        request = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, mac, ip, bytes(6), ip)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("eth0", 0))
            wire.send(header + request)

    def close(self) -> None:
        for descriptor in (*self.namespaces.values(), *([] if self._router is None else [self._router])):
            os.close(descriptor)
        self.namespaces.clear()
        self._router = None


def router_mac(number: int) -> bytes:
    """Of the router's interface at that bridge; no node has such a one."""
    return bytes((6, 0, 0, 0, 0, number))


def _await(condition: Callable[[], bool]) -> None:
    """The kernel brings links up on its own time. Raises LabError when that takes too long."""
    if not wait_until(condition, LINK_S_MAX, 0.002):
        raise LabError(f"A new link did not come up within {LINK_S_MAX:g} s: end this lab.")


def _enable_ipv6() -> None:
    """In the present namespace, before it has a link. Raises LabError when the kernel lacks it.

    No router configures anything, and no address is tried for duplicates, which takes a second.
    """
    settings = {"disable_ipv6": 0, "accept_dad": 0, "dad_transmits": 0, "accept_ra": 0, "router_solicitations": 0}
    try:
        for which in ("all", "default"):
            for name, value in settings.items():
                Path(f"/proc/sys/net/ipv6/conf/{which}/{name}").write_text(str(value))
    except OSError as reason:
        raise LabError(f"This kernel does not let the lab use IPv6: {reason}. Give an IPv4 --network.") from None


def _disable_ipv6() -> None:
    """Where no daemon uses it: its neighbour discovery would count as traffic at rest."""
    _write_all([f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6" for which in ("all", "default")], "1")


def _write_all(paths: Sequence[str], text: str) -> None:
    for path in paths:
        try:
            Path(path).write_text(text)
        except OSError:  # the kernel lacks it, or /proc/sys is read-only: slower, or a few packets more
            return
