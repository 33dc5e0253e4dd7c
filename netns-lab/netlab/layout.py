"""Which addresses the nodes have, and what follows from an address.

Intuition: house numbers. A position is the host part of the address; everything else of a node is named by it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from pathlib import Path

from netlab.errors import LabError

NODES_MAX = 1023  # ports of one Linux bridge (BR_MAX_PORTS)


def addresses(layout: str, nodes: int | None, network: str) -> list[str]:
    """Addresses in ascending order: "dense" from position 1, or the first `nodes` (None: all) of a file, one a line.

    Raises LabError.
    """
    block = block_of(network)
    if layout == "dense":
        if nodes is None:
            raise LabError("How many nodes? Give --nodes N.")
        found = [block.network_address + position for position in range(1, nodes + 1)]
    else:
        found = _read(Path(layout))
        if nodes is not None and nodes > len(found):
            raise LabError(f"{layout} has {len(found)} addresses, fewer than --nodes {nodes}. Nothing was started.")
        found = found[:nodes]
    return checked(map(str, found), network)


def block_of(network: str) -> ipaddress.IPv4Network:
    """The network as a value. Raises LabError."""
    try:
        return ipaddress.IPv4Network(network)
    except ValueError as reason:
        raise LabError(f"--network {network}: {reason}. Give an IPv4 block such as 10.0.0.0/16.") from None


def position_of(address: str, network: str) -> int:
    """Host part of the address (protocol.md, section 1)."""
    return int(ipaddress.IPv4Address(address)) - int(block_of(network).network_address)


def hardware_address(address: str, host: int = 0) -> bytes:
    """Locally administered MAC that holds the IPv4 address, so that it is known without asking.

    `host` counts the hosts that have had the address before.
    """
    return bytes((2, host % 256)) + ipaddress.IPv4Address(address).packed


def port_name(address: str, network: str) -> str:
    """Name of the node's port at the bridge."""
    return f"n{position_of(address, network)}"


def checked(addresses: Iterable[str], network: str) -> list[str]:
    """These addresses, ascending, when they can be nodes of one lab. Raises LabError."""
    block = block_of(network)
    found = sorted(ipaddress.IPv4Address(address) for address in addresses)
    if not 1 <= len(found) <= NODES_MAX:
        raise LabError(f"{len(found)} nodes: a lab has 1 to {NODES_MAX}, the ports of one Linux bridge.")
    for address in found:
        if address not in block or address in (block.network_address, block.broadcast_address):
            raise LabError(f"{address} is no host address of {network}: correct the layout, --nodes or --network.")
    return [str(address) for address in found]


def _read(path: Path) -> list[ipaddress.IPv4Address]:
    try:
        lines = path.read_text().splitlines()
    except OSError as reason:
        raise LabError(f"--layout {path}: {reason.strerror}. Give `dense` or a file of addresses.") from None
    found: dict[ipaddress.IPv4Address, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            raise LabError(f"{path}, line {number}: `{text}` is no IPv4 address.") from None
        if address in found:
            raise LabError(f"{path}, line {number}: {address} is in line {found[address]} already.")
        found[address] = number
    return list(found)
