"""Nodes that should be in the tree and are not.

A gone node is drawn below its last leader. A node that is on the list of nodes and never joined is named below the
tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from subord.client.daemon import Document

NEVER_CAME_MAX = 65_536
"""In a network of more positions such nodes are not named."""
UP = ("live", "held")


def with_gone(rows: Sequence[Document], members: Sequence[Document]) -> list[Document]:
    """The rows of a tree (depth first, whole branches) and the members that are gone, each below its last leader."""
    present = {row["address"] for row in rows}
    gone = [_gone_row(each) for each in members if each["standing"] == "gone" and each["address"] not in present]
    below: dict[str, list[Document]] = {}
    for row in sorted([*rows, *gone], key=lambda row: int(row["position"])):
        if row["leader"] is not None and not row["apart"]:
            below.setdefault(row["leader"], []).append(row)
    known = present.union(node["address"] for node in gone)
    tops = [row for row in rows if row["leader"] is None or row["apart"] or row["leader"] not in known]
    tops += [{**node, "apart": _why_apart(node)} for node in gone if node["leader"] not in known]
    drawn: list[Document] = []
    seen: set[int] = set()
    for top in [
        *tops,
        *(node for node in gone if node["leader"] in known),
    ]:  # the latter only if led in a circle
        stack = [(top, 0)]
        while stack:
            row, depth = stack.pop()
            if int(row["position"]) in seen:
                continue
            seen.add(int(row["position"]))
            drawn.append({**row, "real_level": depth})
            stack += [(each, depth + 1) for each in reversed(below.get(row["address"], []))]
    return drawn


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


def is_down(row: Document) -> bool:
    return row["standing"] not in UP


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


def _gone_row(member: Document) -> Document:
    """The row of a gone member."""
    return {
        "address": member["address"],
        "position": member["position"],
        "level": member["level"],
        "offset": None,
        "place": member["place"] or "home",
        "standing": "gone",
        "since_s": member["since_s"],
        "incarnation": None,
        "real_level": 0,
        "leader": member["leader"],
        "apart": None,
    }


def _why_apart(node: Document) -> str:
    return "last was root" if node["leader"] is None else f"last below {node['leader']}"
