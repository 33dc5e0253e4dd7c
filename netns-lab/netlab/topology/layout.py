"""Which addresses the nodes have, and what follows from an address.

Intuition: house numbers. A position is the place of the address in the network; all else of a node is named by it.
The daemon's own arithmetic numbers them (subord.core.network), so that the two can never disagree.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from netlab.errors import LabError
from netlab.topology import positions
from netlab.topology.sites import Sites
from subord.core.network import Address, Network, NetworkError

NODES_MAX = 1023  # ports of one Linux bridge (BR_MAX_PORTS)
NETWORK = "10.0.0.0/16"
SUBNETS = ("10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24")
"""Of the layout `routed`: one bridge each, and the last address is the router's."""
NAMES = (*positions.DRAWN, "routed")
PORT_NAME_POSITION_MAX = 10**14 - 1  # IFNAMSIZ: 15 characters

Block = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where the nodes of a lab are: addresses in order of position; but for `subnets` or `sites` on one bridge."""

    addresses: tuple[str, ...]
    network: str
    subnets: tuple[str, ...] = ()
    sites: Sites | None = None  # one bridge each, too (topology/sites_file.py)


def layout(name: str, nodes: int | None, network: str | None = None, seed: int = 1) -> Layout:
    """The layout of that name, or of a file with one address a line (the first `nodes`; None: all).

    Without `network` the one that goes with the name. Raises LabError.
    """
    if name not in NAMES:
        network = network or NETWORK
        return Layout(addresses=checked(_first_of_file(Path(name), nodes), network), network=network)
    if nodes is None:
        raise LabError("How many nodes? Give --nodes N.")
    if name == "routed":
        network = network or ",".join(SUBNETS)
        found = [
            address for subnet, some in zip(SUBNETS, shares(nodes), strict=True) for address in _of(subnet, some)
        ]
        return Layout(addresses=checked(found, network), network=network, subnets=SUBNETS)
    network = network or (f"fd00:5::1-fd00:5::{max(nodes, 2):x}" if name == "six" else NETWORK)
    if nodes > NODES_MAX:
        raise _too_many(nodes)
    numbers = network_of(network)
    drawn = positions.positions(name, nodes, numbers.size, seed)
    return Layout(addresses=checked(map(numbers.address_text_of, drawn), network), network=network)


def listed(addresses: Iterable[str], network: str | None = None) -> Layout:
    """These addresses on one bridge. Raises LabError."""
    network = network or NETWORK
    return Layout(addresses=checked(addresses, network), network=network)


def addresses(name: str, nodes: int | None, network: str | None = None, seed: int = 1) -> list[str]:
    """Those of a layout alone."""
    return list(layout(name, nodes, network, seed).addresses)


def seeds(where: Layout, count: int, positions: Iterable[int] = ()) -> tuple[str, ...]:
    """Addresses of the nodes at these positions, or without any of `count` evenly spread ones. Raises LabError."""
    by_position = {position_of(address, where.network): address for address in where.addresses}
    nodes = list(by_position)
    wanted = list(positions) or [nodes[(2 * number + 1) * len(nodes) // (2 * count)] for number in range(count)]
    for position in wanted:
        if position not in by_position:
            raise LabError(f"--seed-nodes {position}: no node of this layout has that position. Nothing was started.")
    return tuple(by_position[position] for position in wanted)


def shares(nodes: int) -> list[int]:
    """How many nodes of `routed` each subnet has. Raises LabError when there is no room."""
    found = [nodes // len(SUBNETS) + (number < nodes % len(SUBNETS)) for number in range(len(SUBNETS))]
    room = network_of(SUBNETS[0]).size - 1  # the router has one
    if found[0] > room:
        raise LabError(
            f"--layout routed has room for {room * len(SUBNETS)} nodes, not for {nodes}. Nothing was started."
        )
    return found


def router_addresses(subnets: Iterable[str]) -> list[str]:
    """The last host address of each subnet."""
    numbers = map(network_of, subnets)
    return [each.address_text_of(each.size) for each in numbers]


@lru_cache(maxsize=64)
def network_of(network: str) -> Network:
    """The network as a value. Raises LabError."""
    try:
        return Network.parse(network)
    except NetworkError as reason:
        raise LabError(f"--network {network}: {reason}. Nothing was started.") from None


def position_of(address: str, network: str) -> int:
    """Position of the address (protocol.md, section 1). Raises LabError when it has none."""
    position = network_of(network).position_of(address)
    if position is None:
        raise LabError(f"{address} is no host address of {network}: correct the layout, --nodes or --network.")
    return position


def silent_below(addresses: Sequence[str], network: str) -> int:
    """Positions below the highest node that are no node's: whom nodes may ask in vain."""
    return max(position_of(address, network) for address in addresses) - len(addresses)


@lru_cache(maxsize=64)
def link_of(network: str) -> Block:
    """The block that a node's interface is set to: of a list the smallest that has it all inside."""
    numbers = network_of(network)
    if numbers.prefix_length is not None:
        return ipaddress.ip_network(numbers.text)
    ends = [int(ipaddress.ip_address(end)) for item in numbers.text.split(",") for end in item.split("-")]
    first, last = min(ends), max(ends)
    bits = 32 if numbers.version == 4 else 128
    # Neither the first nor the last address of a block is a host's.
    length = min(64, bits) if numbers.version == 6 else bits - 2
    while length > 0:
        low = first >> (bits - length) << (bits - length)
        if low < first and last < low + (1 << (bits - length)) - 1:
            break
        length -= 1
    kind = ipaddress.IPv4Address if numbers.version == 4 else ipaddress.IPv6Address
    return ipaddress.ip_network(f"{kind(first)}/{length}", strict=False)


def links(network: str, subnets: Sequence[str]) -> list[Block]:
    """One block for each bridge of the lab."""
    return [link_of(each) for each in subnets] if subnets else [link_of(network)]


def link_number(address: str, blocks: Sequence[Block]) -> int:
    """To which bridge the node is wired."""
    return next(number for number, block in enumerate(blocks) if ipaddress.ip_address(address) in block)


def hardware_address(address: str, host: int = 0) -> bytes:
    """Locally administered MAC that holds the last 32 bits of the address, so that it is known without asking.

    `host` counts the hosts that have had the address before.
    """
    return bytes((2, host % 256)) + ipaddress.ip_address(address).packed[-4:]


def hardware_text(mac: bytes) -> str:
    """02:00:0a:00:01:02"""
    return ":".join(f"{byte:02x}" for byte in mac)


def port_name(address: str, network: str) -> str:
    """Name of the node's port at the bridge; of a very high position the last 32 bits of its address."""
    position = position_of(address, network)
    if position > PORT_NAME_POSITION_MAX:
        return f"x{ipaddress.ip_address(address).packed[-4:].hex()}"
    return f"n{position}"


def checked(addresses: Iterable[str | Address], network: str) -> tuple[str, ...]:
    """These addresses, in order of position, when they can be nodes of one lab. Raises LabError."""
    found = {position_of(str(address), network): str(address) for address in addresses}
    if not 1 <= len(found) <= NODES_MAX:
        raise _too_many(len(found))
    block = link_of(network)
    for address in found.values():  # of a list, an address that no interface can have
        edges = (block[0], block[-1]) if block.version == 4 else (block[0],)
        if block.num_addresses > 2 and ipaddress.ip_address(address) in edges:
            raise LabError(f"{address} is no host address of {block}: correct the layout, --nodes or --network.")
    if len({hardware_address(address) for address in found.values()}) < len(found):
        raise LabError("Two nodes have the same last 32 bits in their addresses: give another --seed or --network.")
    return tuple(found[position] for position in sorted(found))


def _too_many(nodes: int) -> LabError:
    return LabError(f"{nodes} nodes: a lab has 1 to {NODES_MAX}, the ports of one Linux bridge.")


def _of(subnet: str, nodes: int) -> list[str]:
    numbers = network_of(subnet)
    return [numbers.address_text_of(position) for position in range(1, nodes + 1)]


def _first_of_file(path: Path, nodes: int | None) -> list[Address]:
    found = _read(path)
    if nodes is not None and nodes > len(found):
        raise LabError(f"{path} has {len(found)} addresses, fewer than --nodes {nodes}. Nothing was started.")
    return found[:nodes]


def _read(path: Path) -> list[Address]:
    try:
        lines = path.read_text().splitlines()
    except OSError as reason:
        names = ", ".join(NAMES)
        raise LabError(f"--layout {path}: {reason.strerror}. Give {names}, or a file of addresses.") from None
    found: dict[Address, int] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise LabError(f"{path}, line {number}: `{text}` is no IP address.") from None
        if address in found:
            raise LabError(f"{path}, line {number}: {address} is in line {found[address]} already.")
        found[address] = number
    return list(found)
