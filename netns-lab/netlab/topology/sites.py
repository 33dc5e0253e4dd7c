"""Sites: which node is at which, and the link between each two.

All sites share one network, and an address says nothing of the node's site. Inside a site nothing is delayed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

SITES_MAX = 16
QUEUE_BYTES_MAX = 1 << 18

Order = Literal["contiguous", "interleaved"]


@dataclass(frozen=True, kw_only=True)
class Link:
    """Between two sites, the same in both directions, each of which has a queue and a bandwidth of its own."""

    delay_s: float  # one way
    loss: float = 0.0  # share of all frames, from 0 to 1
    bits_per_s: float | None = None  # None: unlimited
    queue_bytes_max: int = QUEUE_BYTES_MAX  # waiting to be sent; what is under way does not count


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
        """The name of the site that has exactly these nodes; None: there is none."""
        wanted = set(addresses)
        found = (name for name, some in zip(self.names, self.members, strict=True) if set(some) == wanted)
        return next(found, None)

    @cached_property
    def between(self) -> dict[tuple[int, int], Link]:
        """The link of every direction."""
        return {pair: link for one, other, link in self.links for pair in ((one, other), (other, one))}


def assigned(counts: Sequence[int], order: Order) -> list[int]:
    """The site of each address in turn, so that every site gets its count.

    Contiguous: one site after the other. Interleaved: the site that is furthest behind its share is next.
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
