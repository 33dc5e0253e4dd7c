"""What follows from the address of a node: its position, MAC, port name and bridge.

The positions come from the arithmetic of the daemon (subord.core.address.network), so the lab and the daemons agree.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from netlab.errors import LabError
from subord.core.address.network import Network, NetworkError

NETWORK = "10.0.0.0/16"
NODES_MAX = 1023  # ports of one Linux bridge (BR_MAX_PORTS)
PORT_NAME_POSITION_MAX = 10**14 - 1  # IFNAMSIZ: 15 characters

Block = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=64)
def network_of(network: str) -> Network:
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


def packed(address: str) -> bytes:
    """Its 4 or 16 bytes, as on the wire."""
    return ipaddress.ip_address(address).packed


def silent_below(addresses: Sequence[str], network: str) -> int:
    """How many positions below the highest node have no node, so that requests for them stay unanswered."""
    return max(position_of(address, network) for address in addresses) - len(addresses)


def router_addresses(subnets: Iterable[str]) -> list[str]:
    numbers = map(network_of, subnets)
    return [each.address_text_of(each.size) for each in numbers]


@lru_cache(maxsize=64)
def link_of(network: str) -> Block:
    """The block of a node's interface: of a list, the smallest block that has all of it inside."""
    numbers = network_of(network)
    if numbers.prefix_length is not None:
        return ipaddress.ip_network(numbers.text)
    ends = sorted(map(ipaddress.ip_address, re.split("[,-]", numbers.text)), key=int)
    first, last = ends[0], ends[-1]
    block = ipaddress.ip_network(f"{first}/{30 if numbers.version == 4 else 64}", strict=False)
    # Neither the first nor the last address of a block is a host's.
    while block.prefixlen and not int(block[0]) < int(first) <= int(last) < int(block[-1]):
        block = block.supernet()
    return block


def links(network: str, subnets: Sequence[str]) -> list[Block]:
    return [link_of(each) for each in subnets] if subnets else [link_of(network)]


def link_number(address: str, blocks: Sequence[Block]) -> int:
    return next(number for number, block in enumerate(blocks) if ipaddress.ip_address(address) in block)


def hardware_address(address: str, host: int = 0) -> bytes:
    """Locally administered MAC that holds the last 32 bits of the address, so that no lookup is needed.

    `host` counts the hosts that have had the address before.
    """
    return bytes((2, host % 256)) + packed(address)[-4:]


def port_name(address: str, network: str) -> str:
    """Name of the node's port at the bridge: its position, or of a very high one the last 32 bits of its address."""
    position = position_of(address, network)
    return f"x{packed(address)[-4:].hex()}" if position > PORT_NAME_POSITION_MAX else f"n{position}"
