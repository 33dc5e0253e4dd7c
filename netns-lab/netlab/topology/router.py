"""One host that has a leg on every bridge and passes on what is not for its own street.

Intuition: the crossing where three streets meet. Whoever wants to go to another street goes there first; a fourth
road, out of town, does not exist.

In its namespace `eth0`, `eth1`, ... are the legs, at the bridges `r0`, `r1`, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from netlab.topology.layout import Block, hardware_text

FIRST_INTERFACE_INDEX = 2


def leg_name(number: int) -> str:
    """Name of the leg's port at its bridge."""
    return f"r{number}"


def hardware_address(number: int) -> bytes:
    """MAC of a leg; no node has such a one."""
    return bytes((6, 0, 0, 0, 0, number))


def furnish(open_netlink: Callable[[], Any], outer: int, addresses: Sequence[str], blocks: Sequence[Block]) -> None:
    """Make the namespace that we are in a router; `outer` is the namespace of the bridges. Raises OSError."""
    with open_netlink() as inside:
        inside.link("set", index=1, state="up")
        for number, (address, block) in enumerate(zip(addresses, blocks, strict=True)):
            index, mac = FIRST_INTERFACE_INDEX + number, hardware_text(hardware_address(number))
            peer = {"ifname": leg_name(number), "net_ns_fd": outer}
            inside.link("add", ifname=f"eth{number}", kind="veth", index=index, address=mac, peer=peer)
            broadcast = str(block.broadcast_address)
            inside.addr("add", index=index, address=address, prefixlen=block.prefixlen, broadcast=broadcast)
            inside.link("set", index=index, state="up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
