"""Who should be in the tree and is not: drawn where it was last seen, or named below the tree.

Intuition: the empty chairs at a long table. Whoever sat there yesterday still has a card at the place; whoever is on
the list of guests and never came has none, and is read out at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from subord.client.daemon import Document

NEVER_CAME_MAX = 65_536
"""A network of more positions names nobody in particular."""
UP = ("live", "held")


def with_ghosts(rows: Sequence[Document], members: Sequence[Document]) -> list[Document]:
    """The rows of a tree (depth first, whole branches) and the members that are gone, each below its last leader."""
    present = {row["address"] for row in rows}
    ghosts = [_ghost(each) for each in members if each["standing"] == "gone" and each["address"] not in present]
    below: dict[str, list[Document]] = {}
    for row in sorted([*rows, *ghosts], key=lambda row: int(row["position"])):
        if row["leader"] is not None and not row["apart"]:
            below.setdefault(row["leader"], []).append(row)
    known = present.union(ghost["address"] for ghost in ghosts)
    tops = [row for row in rows if row["leader"] is None or row["apart"] or row["leader"] not in known]
    tops += [{**ghost, "apart": _why_apart(ghost)} for ghost in ghosts if ghost["leader"] not in known]
    drawn: list[Document] = []
    seen: set[int] = set()
    for top in [
        *tops,
        *(ghost for ghost in ghosts if ghost["leader"] in known),
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
    """Only who is not up, and all who stand above one of them."""
    kept: list[Document] = []
    needed = -1  # the level above which the path of what comes later is still wanted
    for row in reversed(rows):
        level = row["real_level"]
        if row["standing"] not in UP or level < needed:
            kept.append(row)
            needed = level
    return kept[::-1]


def is_down(row: Document) -> bool:
    return row["standing"] not in UP


def never_came(network_text: str, positions: int, members: Sequence[Document]) -> list[str] | None:
    """Who is on the list of nodes and no member; None: the network is no list but all addresses of some block."""
    if positions > NEVER_CAME_MAX or "/" in network_text:
        return None
    from ipaddress import ip_address

    from subord.core.address.network import Network, NetworkError

    try:
        network = Network.parse(network_text)
    except NetworkError:  # of a newer version, perhaps
        return None
    there = {str(ip_address(each["address"])) for each in members}
    named = (network.address_text_of(position) for position in range(1, network.size + 1))
    return [address for address in named if address not in there]


def _ghost(member: Document) -> Document:
    """The row of one who is gone."""
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


def _why_apart(ghost: Document) -> str:
    return "last was root" if ghost["leader"] is None else f"last below {ghost['leader']}"
