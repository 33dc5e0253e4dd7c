"""Which node is at which site, and what lies between two sites.

Intuition: branches of one firm. All of them share one telephone directory (the network); who sits where stands in
no number, and a call to the next room takes no time, one to the next town does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from netlab.topology.wan_link import Link

SITES_MAX = 16
Order = Literal["contiguous", "interleaved"]
Leaders = Mapping[str, str | None]
"""Address of a node -> that of its leader; None: it has none."""


@dataclass(frozen=True, kw_only=True)
class Sites:
    """The sites of one lab, by number. `members`: addresses of each; `links`: every pair once, with its link."""

    names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    links: tuple[tuple[int, int, Link], ...]

    @staticmethod
    def from_plain(given: Any) -> Sites:
        """From what `dataclasses.asdict` and JSON have made of it."""
        return Sites(
            names=tuple(given["names"]),
            members=tuple(map(tuple, given["members"])),
            links=tuple((one, other, Link(**link)) for one, other, link in given["links"]),
        )

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Address -> number of its site."""
        return {address: number for number, some in enumerate(self.members) for address in some}

    def name_of(self, address: str) -> str:
        """Name of the node's site."""
        return self.names[self.numbers[address]]

    def all_of(self, addresses: Collection[str]) -> str | None:
        """The name of the site whose nodes are these, all of them and no other; None: there is none."""
        wanted = set(addresses)
        found = (name for name, some in zip(self.names, self.members, strict=True) if set(some) == wanted)
        return next(found, None)

    @cached_property
    def between(self) -> dict[tuple[int, int], Link]:
        """The link of every direction."""
        return {pair: link for one, other, link in self.links for pair in ((one, other), (other, one))}


def dealt(counts: Sequence[int], order: Order) -> list[int]:
    """The site of each address in turn, so that every site gets its count.

    Contiguous: one site after the other. Interleaved: whoever is furthest behind its share is next.
    """
    if order == "contiguous":
        return [site for site, count in enumerate(counts) for _ in range(count)]
    whole, given = sum(counts), [0] * len(counts)
    found = []
    for turn in range(1, whole + 1):
        site = max(range(len(counts)), key=lambda each: (counts[each] * turn - given[each] * whole, -each))
        given[site] += 1
        found.append(site)
    return found


def edges_between(leaders: Leaders, site_of: Callable[[str], str]) -> Counter[tuple[str, str]]:
    """(site of the subordinate, site of its leader) -> how many edges of the tree; within a site, too."""
    return Counter((site_of(node), site_of(leader)) for node, leader in leaders.items() if leader is not None)


def wide_edges(leaders: Leaders, site_of: Callable[[str], str]) -> int:
    """How many edges of the tree have their ends at two sites."""
    return sum(count for (one, other), count in edges_between(leaders, site_of).items() if one != other)
