"""The router of the layout `routed`: one host with an interface on every bridge, which forwards between the subnets.

In its namespace `eth0`, `eth1`, ... are the interfaces, at the ports `r0`, `r1`, ... of the bridges. There is no
route out of the lab.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netlab.topology.addresses import Block, hardware_text

FIRST_INTERFACE_INDEX = 2


def router_port_name(number: int) -> str:
    """Name of the router's port at that bridge."""
    return f"r{number}"


def hardware_address(number: int) -> bytes:
    """MAC of an interface of the router; no node has such a one."""
    return bytes((6, 0, 0, 0, 0, number))


def set_up(open_netlink: Callable[[], Any], outer: int, addresses: Sequence[str], blocks: Sequence[Block]) -> None:
    """Make the present namespace a router; `outer` is the namespace of the bridges. Raises OSError."""
    with open_netlink() as inside:
        inside.link("set", index=1, state="up")
        for number, (address, block) in enumerate(zip(addresses, blocks, strict=True)):
            index, mac = FIRST_INTERFACE_INDEX + number, hardware_text(hardware_address(number))
            peer = {"ifname": router_port_name(number), "net_ns_fd": outer}
            inside.link("add", ifname=f"eth{number}", kind="veth", index=index, address=mac, peer=peer)
            broadcast = str(block.broadcast_address)
            inside.addr("add", index=index, address=address, prefixlen=block.prefixlen, broadcast=broadcast)
            inside.link("set", index=index, state="up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
