"""What follows from the leader of every node: levels, depth, and edges between sites. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

Leaders = Mapping[str, str | None]
"""Address of a node -> that of its leader; None: it has none."""


def level(leaders: Leaders, node: str) -> int:
    """Edges on the way up. A leader that is gone, or a way in a circle, ends the way."""
    edges, leader = 0, leaders.get(node)
    while leader is not None and leader in leaders and edges < len(leaders):
        edges, leader = edges + 1, leaders[leader]
    return edges


def depth_optimum(nodes: int, fanout: int) -> int:
    depth, width, room = 0, 1, 1
    while room < nodes:
        depth, width = depth + 1, width * fanout
        room += width
    return depth


def edges_between(leaders: Leaders, site_of: Callable[[str], str]) -> Counter[tuple[str, str]]:
    """(site of the subordinate, site of its leader) -> how many edges of the tree; also within a site."""
    return Counter((site_of(node), site_of(leader)) for node, leader in leaders.items() if leader is not None)


def wide_edges(leaders: Leaders, site_of: Callable[[str], str]) -> int:
    """How many edges of the tree have their ends at two sites."""
    return sum(count for (one, other), count in edges_between(leaders, site_of).items() if one != other)
