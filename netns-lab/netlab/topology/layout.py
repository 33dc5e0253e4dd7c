"""Which addresses the nodes of a lab have, by the name of a layout or from a file, and how fast nodes are.

What is drawn comes from a seed: the same seed draws the same. A layout holds its addresses in order of position,
and only addresses that can be nodes of one lab.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from netlab.errors import LabError
from netlab.topology.addresses import NETWORK, NODES_MAX, hardware_address, link_of, network_of, position_of
from netlab.topology.sites import Sites, read_sites
from subord.core.address.network import Address

BLOCKS = 5
SPREAD = 16.0  # the highest performance, in multiples of the lowest
SPREAD_MAX = 1e6
LOWEST_JOBS_PER_HOUR = 100.0
JOBS_PER_HOUR_MAX = 1e9  # that a daemon takes
SUBNETS = ("10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24")
"""Of the layout `routed`: one bridge each, and the last address is the router's."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Addresses in order of position, on one bridge unless there are `subnets` or `sites`, which have one each."""

    addresses: tuple[str, ...]
    network: str
    subnets: tuple[str, ...] = ()
    sites: Sites | None = None


def located(sites: Path | None, name: str, nodes: int | None, network: str | None, seed: int) -> Layout:
    """The layout of that name at these sites, whose file may say how many nodes there are. Raises LabError."""
    if sites is not None and name == "routed":
        raise LabError("--layout routed has subnets of its own, and no --sites: leave one out. Nothing was started.")
    if sites is not None and nodes is None and name in NAMES:
        nodes = read_sites(sites).nodes
    return placed(sites, layout(name, nodes, network, seed))


def placed(sites: Path | None, where: Layout) -> Layout:
    """Its nodes at the sites of that file, if there is one. Raises LabError."""
    return where if sites is None else replace(where, sites=read_sites(sites).place(where.addresses))


def layout(name: str, nodes: int | None, network: str | None = None, seed: int = 1) -> Layout:
    """The layout of that name, or of a file with one address a line (the first `nodes`; None: all).

    Without `network` the one that goes with the name. Raises LabError.
    """
    if name not in NAMES:
        return listed(_first_of_file(Path(name), nodes), network)
    if nodes is None:
        raise LabError("How many nodes? Give --nodes N.")
    if name == "routed":
        network = network or ",".join(SUBNETS)
        numbers = zip(map(network_of, SUBNETS), shares(nodes), strict=True)
        found = [subnet.address_text_of(position + 1) for subnet, some in numbers for position in range(some)]
        return Layout(addresses=checked(found, network), network=network, subnets=SUBNETS)
    network = network or (f"fd00:5::1-fd00:5::{max(nodes, 2):x}" if name == "six" else NETWORK)
    if nodes > NODES_MAX:
        raise _too_many(nodes)
    drawn = positions(name, nodes, network_of(network).size, seed)
    return listed(map(network_of(network).address_text_of, drawn), network)


def listed(addresses: Iterable[str | Address], network: str | None = None) -> Layout:
    """These addresses on one bridge. Raises LabError."""
    network = network or NETWORK
    return Layout(addresses=checked(addresses, network), network=network)


def seeds_of(where: Layout, count: int, positions: Iterable[int] = ()) -> tuple[str, ...]:
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
    found = _even(nodes, len(SUBNETS))
    room = network_of(SUBNETS[0]).size - 1  # the router has one
    if found[0] > room:
        raise LabError(
            f"--layout routed has room for {room * len(SUBNETS)} nodes, not for {nodes}. Nothing was started."
        )
    return found


def _even(nodes: int, parts: int) -> list[int]:
    return [nodes // parts + (number < nodes % parts) for number in range(parts)]


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


def _first_of_file(path: Path, nodes: int | None) -> list[Address]:
    """The first `nodes` addresses of the file; None: all of them."""
    try:
        lines = path.read_text().splitlines()
    except OSError as reason:
        names = ", ".join(NAMES)
        raise LabError(f"--layout {path}: {reason.strerror}. Give {names}, or a file of addresses.") from None
    found: dict[Address, int] = {}
    for number, line in enumerate(lines, 1):
        if not (text := line.partition("#")[0].strip()):
            continue
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise LabError(f"{path}, line {number}: `{text}` is no IP address.") from None
        if address in found:
            raise LabError(f"{path}, line {number}: {address} is in line {found[address]} already.")
        found[address] = number
    if nodes is not None and nodes > len(found):
        raise LabError(f"{path} has {len(found)} addresses, fewer than --nodes {nodes}. Nothing was started.")
    return list(found)[:nodes]


def performances(mapping: str, addresses: Sequence[str], spread: float, seed: int) -> dict[str, float]:
    """Jobs an hour of each address; {} for other mappings than `performance`, or with a spread of 0.

    The logarithm is drawn evenly, so that there are as many nodes in each factor of two; the fastest and the slowest
    are always there.
    """
    if mapping != "performance" or not spread:
        return {}
    chance = random.Random(f"performances/{seed}")
    exponents = [0.0, 1.0, *(chance.random() for _ in range(len(addresses) - 2))][: len(addresses)]
    chance.shuffle(exponents)
    return {
        address: LOWEST_JOBS_PER_HOUR * spread**exponent
        for address, exponent in zip(addresses, exponents, strict=True)
    }


def positions(name: str, nodes: int, size: int, seed: int) -> list[int]:
    """So many positions, ascending, of a network with `size` positions. Raises LabError when there are too few."""
    needed = 3 * nodes if name == "thirds" else nodes
    if needed > size:
        raise LabError(
            f"--layout {name} with --nodes {nodes} needs {needed} positions, the network has {size}."
            " Nothing was started. Give fewer nodes or a larger --network."
        )
    return sorted(DRAWN[name](nodes, size, random.Random(seed)))


def _dense(nodes: int, _size: int, _chance: random.Random) -> list[int]:
    return list(range(1, nodes + 1))


def _random(nodes: int, size: int, chance: random.Random) -> list[int]:
    found: set[int] = set()
    while len(found) < nodes:  # a /64 is too long for random.sample
        found.add(chance.randint(1, size))
    return list(found)


def _blocks(nodes: int, size: int, chance: random.Random) -> list[int]:
    """Five blocks that do not overlap, with the free positions before, between and behind them."""
    lengths = _even(nodes, BLOCKS)
    free_before = sorted(chance.randint(0, size - nodes) for _ in lengths)
    found: list[int] = []
    for free, length in zip(free_before, lengths, strict=True):
        first = free + len(found) + 1
        found += range(first, first + length)
    return found


DRAWN: dict[str, Callable[[int, int, random.Random], list[int]]] = {
    "dense": _dense,
    "six": _dense,
    "random": _random,
    "blocks": _blocks,
    "end": lambda nodes, size, _chance: list(range(size - nodes + 1, size + 1)),
    "thirds": lambda nodes, _size, _chance: list(range(3, 3 * nodes + 1, 3)),
}
NAMES = (*DRAWN, "routed")
