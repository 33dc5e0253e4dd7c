"""Parts of a tree: a branch, and nodes that should be in the tree and are not.

Inputs are the rows of a tree, depth first; outputs are those of a branch, those that are down and the paths to them,
and the names of nodes that are on the list of nodes and never joined.
"""

from __future__ import annotations

from collections.abc import Sequence

from subord.client.daemon import Document

NEVER_CAME_MAX = 65_536
"""In a network of more positions such nodes are not named."""
UP = ("live", "held")


def branch(rows: list[Document], address: str) -> list[Document]:
    """The rows of one node and all below it; none if it is not there."""
    first = next((index for index, row in enumerate(rows) if row["address"] == address), len(rows))
    end = first + 1
    while end < len(rows) and rows[end]["real_level"] > rows[first]["real_level"]:
        end += 1
    return rows[first:end]


def down(rows: Sequence[Document]) -> list[Document]:
    """The rows that are not up, and all rows above them."""
    kept: list[Document] = []
    needed = -1  # rows above this level belong to the path of a kept row
    for row in reversed(rows):
        level = row["real_level"]
        if row["standing"] not in UP or level < needed:
            kept.append(row)
            needed = level
    return kept[::-1]


def never_came(network_text: str, positions: int, members: Sequence[Document]) -> list[str] | None:
    """The listed nodes that are no members; None: the network is a whole block of addresses, no list."""
    if positions > NEVER_CAME_MAX or "/" in network_text:
        return None
    from ipaddress import ip_address

    from subord.core.address.network import Network, NetworkError

    try:
        network = Network.parse(network_text)
    except NetworkError:  # perhaps of a newer version
        return None
    there = {str(ip_address(each["address"])) for each in members}
    named = (network.address_text_of(position) for position in range(1, network.size + 1))
    return [address for address in named if address not in there]
