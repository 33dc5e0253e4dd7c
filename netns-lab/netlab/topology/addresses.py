"""What follows from the address of a node: its position, MAC, port name and bridge.

The positions come from the arithmetic of the daemon (subord.core.address.network), so the lab and the daemons agree.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

from netlab.errors import LabError
from subord.core.address.network import Network, NetworkError

NETWORK = "10.0.0.0/16"
PORT_NAME_POSITION_MAX = 10**14 - 1  # IFNAMSIZ: 15 characters

Block = ipaddress.IPv4Network | ipaddress.IPv6Network


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


def packed(address: str) -> bytes:
    """Its 4 or 16 bytes, as on the wire."""
    return ipaddress.ip_address(address).packed


def silent_below(addresses: Sequence[str], network: str) -> int:
    """How many positions below the highest node have no node, so that requests for them stay unanswered."""
    return max(position_of(address, network) for address in addresses) - len(addresses)


def router_addresses(subnets: Iterable[str]) -> list[str]:
    """The last host address of each subnet."""
    numbers = map(network_of, subnets)
    return [each.address_text_of(each.size) for each in numbers]


@lru_cache(maxsize=64)
def link_of(network: str) -> Block:
    """The block of a node's interface: of a list, the smallest block that has all of it inside."""
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
    """The number of the bridge that the node is plugged into."""
    return next(number for number, block in enumerate(blocks) if ipaddress.ip_address(address) in block)


def hardware_address(address: str, host: int = 0) -> bytes:
    """Locally administered MAC that holds the last 32 bits of the address, so that no lookup is needed.

    `host` counts the hosts that have had the address before.
    """
    return bytes((2, host % 256)) + packed(address)[-4:]


def hardware_text(mac: bytes) -> str:
    """02:00:0a:00:01:02"""
    return mac.hex(":")


def port_name(address: str, network: str) -> str:
    """Name of the node's port at the bridge: its position, or of a very high one the last 32 bits of its address."""
    position = position_of(address, network)
    return f"x{packed(address)[-4:].hex()}" if position > PORT_NAME_POSITION_MAX else f"n{position}"
