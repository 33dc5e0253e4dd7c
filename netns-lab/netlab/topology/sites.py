"""Sites: which node is at which, the link between each two, and the file that says so.

All sites share one network, and an address says nothing of the node's site. Inside a site nothing is delayed. A
mistake in the file is reported in its own words, before anything is started; README.md has the keys, and
netns-lab/sites/four.toml is an example.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from netlab.errors import LabError
from netlab.topology.addresses import NODES_MAX
from subord.sim.scenario import validate
from subord.sim.scenario.definition import ScenarioError

SITES_MAX = 16
QUEUE_BYTES_MAX = 1 << 18

Order = Literal["contiguous", "interleaved"]
S = TypeVar("S", bound=msgspec.Struct)


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

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {address: number for number, some in enumerate(self.members) for address in some}

    def name_of(self, address: str) -> str:
        return self.names[self.numbers[address]]

    def all_of(self, addresses: Collection[str]) -> str | None:
        """The name of the site that has exactly these nodes; None: there is none."""
        wanted = set(addresses)
        found = (name for name, some in zip(self.names, self.members, strict=True) if set(some) == wanted)
        return next(found, None)

    @cached_property
    def between(self) -> dict[tuple[int, int], Link]:
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


FILE_CHARACTERS_MAX = 1 << 20
_TABLES = {"words": "a list of tables"}
_PAIR = {"words": "a list of the names of two sites"}

Table = Annotated[dict[str, Any], msgspec.Meta(extra={"words": "a table"})]
Tables = Annotated[tuple[dict[str, Any], ...], msgspec.Meta(extra=_TABLES)]
Name = Annotated[str, msgspec.Meta(extra={"words": "a name of at most 32 letters, digits, - and _"})]
Count = Annotated[int, msgspec.Meta(ge=1, le=NODES_MAX)]
Share = Annotated[float, msgspec.Meta(gt=0, le=1000)]
Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=60_000)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]
Speed = Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 30)]


class _File(msgspec.Struct, kw_only=True):
    sites: Tables
    addresses: Order = "contiguous"
    link: Table = msgspec.field(default_factory=dict)
    links: Tables = ()


class _Site(msgspec.Struct, kw_only=True):
    name: Name
    nodes: Count | None = None
    share: Share | None = None


class _Link(msgspec.Struct, kw_only=True):
    delay_ms: Milliseconds | None = None  # one way
    rtt_ms: Milliseconds | None = None  # there and back
    loss: Fraction = 0.0
    mbit_per_s: Speed | None = None  # not given: unlimited
    queue_bytes_max: Bytes = QUEUE_BYTES_MAX


class _Between(_Link, kw_only=True):
    between: Annotated[tuple[str, str], msgspec.Meta(extra=_PAIR)]


@dataclass(frozen=True, kw_only=True)
class Topology:
    """What the file says."""

    file: Path
    sites: tuple[_Site, ...]
    order: Order
    links: tuple[tuple[int, int, Link], ...]

    @property
    def nodes(self) -> int | None:
        """How many nodes all of them have together; None: the file does not say."""
        fixed = [site.nodes for site in self.sites if site.nodes is not None]
        return sum(fixed) if len(fixed) == len(self.sites) else None

    def place(self, addresses: Sequence[str]) -> Sites:
        """These nodes, in order of position, at their sites. Raises LabError."""
        try:
            counts = _counts(self.sites, len(addresses))
        except ScenarioError as reason:
            raise _refused(self.file, reason) from None
        members: list[list[str]] = [[] for _ in self.sites]
        for address, site in zip(addresses, assigned(counts, self.order), strict=True):
            members[site].append(address)
        names = tuple(site.name for site in self.sites)
        return Sites(names=names, members=tuple(map(tuple, members)), links=self.links)


def read_sites(path: Path) -> Topology:
    """Raises LabError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as reason:
        raise _refused(path, f"{reason.strerror}; give a file such as netns-lab/sites/four.toml") from None
    except UnicodeDecodeError:
        raise _refused(path, "no text in UTF-8") from None
    if len(text) > FILE_CHARACTERS_MAX:
        raise _refused(path, f"more than {FILE_CHARACTERS_MAX} characters: this is another file")
    try:
        return parsed(text, path)
    except ScenarioError as reason:
        raise _refused(path, reason) from None


def parsed(text: str, path: Path) -> Topology:
    """Raises ScenarioError, without a full stop."""
    whole = _converted(validate.parsed(text), _File, "")
    sites = [_site(table, f"site {number}: ") for number, table in enumerate(whole.sites, 1)]
    names = [site.name for site in sites]
    if not 2 <= len(names) <= SITES_MAX:
        raise ScenarioError(f"{len(names)} sites: a file has 2 to {SITES_MAX} of them")
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError(f"two sites have the name `{name}`")
    validate.check(whole.link, _Link, "link: ")
    listed = dict(_between(each, whole.link, names, f"link {n}: ") for n, each in enumerate(whole.links, 1))
    if len(listed) < len(whole.links):
        raise ScenarioError("two links are between the same two sites")
    links = []
    for one, other in combinations(range(len(names)), 2):
        if (one, other) not in listed and not whole.link:
            raise ScenarioError(
                f"nothing is said of `{names[one]}` and `{names[other]}`: add a [[links]], or a [link] for all others"
            )
        links.append((one, other, listed.get((one, other)) or _link(whole.link, "link: ")))
    return Topology(file=path, sites=tuple(sites), order=whole.addresses, links=tuple(links))


def _converted(table: dict[str, Any], kind: type[S], where: str) -> S:
    validate.check(table, kind, where)
    return msgspec.convert(table, kind)


def _site(table: dict[str, Any], where: str) -> _Site:
    site = _converted(table, _Site, where)
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", site.name):
        raise ScenarioError(
            f"{where}`name` must be at most 32 letters, digits, - and _, not {validate.shown(site.name)}"
        )
    if site.nodes is not None and site.share is not None:
        raise ScenarioError(f"{where}give `nodes` or `share`, not both")
    return site


def _between(
    table: dict[str, Any], default: dict[str, Any], names: list[str], where: str
) -> tuple[tuple[int, int], Link]:
    ends = _converted(table, _Between, where).between
    for name in ends:
        if name not in names:
            raise ScenarioError(f"{where}no site has the name {validate.shown(name)}; sites: {', '.join(names)}")
    one, other = sorted(map(names.index, ends))
    if one == other:
        raise ScenarioError(f"{where}it leads from `{ends[0]}` to itself: what is inside a site has no link")
    own = {key: value for key, value in table.items() if key != "between"}
    said = {"delay_ms", "rtt_ms"} & own.keys()
    inherited = {key: value for key, value in default.items() if not (said and key in ("delay_ms", "rtt_ms"))}
    return (one, other), _link(inherited | own, where)


def _link(table: dict[str, Any], where: str) -> Link:
    given = msgspec.convert(table, _Link)
    if (given.delay_ms is None) == (given.rtt_ms is None):
        raise ScenarioError(f"{where}give either `delay_ms`, one way, or `rtt_ms`, there and back")
    delay_ms = given.rtt_ms / 2 if given.delay_ms is None else given.delay_ms  # type: ignore[operator]
    return Link(
        delay_s=delay_ms / 1e3,
        loss=given.loss,
        bits_per_s=None if given.mbit_per_s is None else given.mbit_per_s * 1e6,
        queue_bytes_max=given.queue_bytes_max,
    )


def _counts(sites: Sequence[_Site], nodes: int) -> list[int]:
    """Nodes of each site: fixed numbers first, the rest by shares, and what is left over to the largest parts."""
    shares = [(site.share or 1.0) * (site.nodes is None) for site in sites]
    fixed = sum(site.nodes or 0 for site in sites)
    rest = nodes - fixed
    if rest < 0 or (rest > 0 and not sum(shares)):
        raise ScenarioError(f"its sites have {fixed} nodes{' alone' if sum(shares) else ''}, and the lab has {nodes}")
    parts = [site.nodes or rest * share / sum(shares) for site, share in zip(sites, shares, strict=True)]
    counts = [int(part) for part in parts]
    by_remainder = sorted(range(len(sites)), key=lambda site: (counts[site] - parts[site], site))
    for site in by_remainder[: nodes - sum(counts)]:
        counts[site] += 1
    if 0 in counts:
        raise ScenarioError(
            f"of {nodes} nodes none is left for the site `{sites[counts.index(0)].name}`: give more --nodes"
        )
    return counts


def _refused(path: Path, reason: object) -> LabError:
    return LabError(f"--sites {path}: {reason}. Nothing was started.")
