"""Reading a file of sites: their names, how many nodes each has, and the links between them.

A mistake is reported in the words of the file, before anything is started.

    addresses = "interleaved"                 # or "contiguous": which address is where

    [link]                                    # between all pairs that are not listed, and what those leave out
    rtt_ms = 50
    mbit_per_s = 1000

    [[sites]]
    name = "north"
    share = 2                                 # or `nodes`, a fixed number

    [[links]]
    between = ["north", "south"]
    rtt_ms = 20
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import msgspec

from netlab.errors import LabError
from netlab.topology.layout import NAMES, NODES_MAX, Layout, layout
from netlab.topology.sites import QUEUE_BYTES_MAX, SITES_MAX, Link, Order, Sites, assigned
from subord.sim.scenario import validate
from subord.sim.scenario.definition import ScenarioError

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


class Wrong(Exception):  # noqa: N818  # becomes a LabError with the name of the file
    """What is wrong with the file, without a full stop."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """What the file says. Of each site (name, fixed number of nodes or None, share of the rest)."""

    file: Path
    sites: tuple[tuple[str, int | None, float], ...]
    order: Order
    links: tuple[tuple[int, int, Link], ...]

    @property
    def nodes(self) -> int | None:
        """How many nodes all of them have together; None: the file does not say."""
        fixed = [nodes for _, nodes, _ in self.sites if nodes is not None]
        return sum(fixed) if len(fixed) == len(self.sites) else None

    def place(self, addresses: Sequence[str]) -> Sites:
        """These nodes, in order of position, at their sites. Raises LabError."""
        try:
            counts = _counts(self.sites, len(addresses))
        except Wrong as reason:
            raise _refused(self.file, reason) from None
        members: list[list[str]] = [[] for _ in self.sites]
        for address, site in zip(addresses, assigned(counts, self.order), strict=True):
            members[site].append(address)
        return Sites(
            names=tuple(name for name, _, _ in self.sites), members=tuple(map(tuple, members)), links=self.links
        )


def located(sites: Path | None, name: str, nodes: int | None, network: str | None, seed: int) -> Layout:
    """The layout of that name at these sites, whose file may say how many nodes there are. Raises LabError."""
    if sites is not None and name == "routed":
        raise LabError("--layout routed has subnets of its own, and no --sites: leave one out. Nothing was started.")
    if sites is not None and nodes is None and name in NAMES:
        nodes = read(sites).nodes
    return placed(sites, layout(name, nodes, network, seed))


def placed(sites: Path | None, where: Layout) -> Layout:
    """Its nodes at the sites of that file, if there is one. Raises LabError."""
    return where if sites is None else replace(where, sites=read(sites).place(where.addresses))


def read(path: Path) -> Topology:
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
    except (Wrong, ScenarioError) as reason:
        raise _refused(path, reason) from None


def parsed(text: str, path: Path) -> Topology:
    """Raises Wrong, ScenarioError."""
    given = validate.parsed(text)
    validate.check(given, _File, "")
    whole = msgspec.convert(given, _File)
    sites = [_site(table, f"site {number}: ") for number, table in enumerate(whole.sites, 1)]
    names = [name for name, _, _ in sites]
    if not 2 <= len(names) <= SITES_MAX:
        raise Wrong(f"{len(names)} sites: a file has 2 to {SITES_MAX} of them")
    for name in names:
        if names.count(name) > 1:
            raise Wrong(f"two sites have the name `{name}`")
    validate.check(whole.link, _Link, "link: ")
    links = {
        pair: link
        for number, table in enumerate(whole.links, 1)
        for pair, link in [_between(table, whole.link, names, f"link {number}: ")]
    }
    if len(links) < len(whole.links):
        raise Wrong("two links are between the same two sites")
    return Topology(file=path, sites=tuple(sites), order=whole.addresses, links=tuple(_all(links, whole.link, names)))


def _site(table: dict[str, Any], where: str) -> tuple[str, int | None, float]:
    validate.check(table, _Site, where)
    site = msgspec.convert(table, _Site)
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", site.name):
        raise Wrong(f"{where}`name` must be at most 32 letters, digits, - and _, not {validate.shown(site.name)}")
    if site.nodes is not None and site.share is not None:
        raise Wrong(f"{where}give `nodes` or `share`, not both")
    return site.name, site.nodes, 1.0 if site.share is None else site.share


def _between(
    table: dict[str, Any], default: dict[str, Any], names: list[str], where: str
) -> tuple[tuple[int, int], Link]:
    validate.check(table, _Between, where)
    ends: tuple[str, str] = msgspec.convert(table, _Between).between
    for name in ends:
        if name not in names:
            raise Wrong(f"{where}no site has the name {validate.shown(name)}; sites: {', '.join(names)}")
    one, other = sorted(map(names.index, ends))
    if one == other:
        raise Wrong(f"{where}it leads from `{ends[0]}` to itself: what is inside a site has no link")
    own = {key: value for key, value in table.items() if key != "between"}
    said = {"delay_ms", "rtt_ms"} & own.keys()
    inherited = {key: value for key, value in default.items() if not (said and key in ("delay_ms", "rtt_ms"))}
    return (one, other), _link(inherited | own, where)


def _link(table: dict[str, Any], where: str) -> Link:
    given = msgspec.convert(table, _Link)
    if (given.delay_ms is None) == (given.rtt_ms is None):
        raise Wrong(f"{where}give either `delay_ms`, one way, or `rtt_ms`, there and back")
    delay_ms = given.rtt_ms / 2 if given.delay_ms is None else given.delay_ms  # type: ignore[operator]
    return Link(
        delay_s=delay_ms / 1e3,
        loss=given.loss,
        bits_per_s=None if given.mbit_per_s is None else given.mbit_per_s * 1e6,
        queue_bytes_max=given.queue_bytes_max,
    )


def _all(
    links: dict[tuple[int, int], Link], default: dict[str, Any], names: list[str]
) -> Iterator[tuple[int, int, Link]]:
    """Every pair, those that are not listed with the default."""
    for pair in combinations(range(len(names)), 2):
        if pair not in links and not default:
            one, other = (names[number] for number in pair)
            raise Wrong(f"nothing is said of `{one}` and `{other}`: add a [[links]], or a [link] for all others")
        yield (*pair, links[pair] if pair in links else _link(default, "link: "))


def _counts(sites: Sequence[tuple[str, int | None, float]], nodes: int) -> list[int]:
    """Nodes of each site: fixed numbers first, the rest by shares, and what is left over to the largest parts."""
    fixed = sum(number for _, number, _ in sites if number is not None)
    whole = sum(share for _, number, share in sites if number is None)
    rest = nodes - fixed
    if rest < 0 or (rest > 0 and not whole):
        raise Wrong(f"its sites have {fixed} nodes{' alone' if whole else ''}, and the lab has {nodes}")
    parts = [rest * share / whole if number is None else float(number) for _, number, share in sites]
    counts = [int(part) for part in parts]
    by_remainder = sorted(range(len(sites)), key=lambda site: (counts[site] - parts[site], site))
    for site in by_remainder[: nodes - sum(counts)]:
        counts[site] += 1
    if 0 in counts:
        raise Wrong(f"of {nodes} nodes none is left for the site `{sites[counts.index(0)][0]}`: give more --nodes")
    return counts


def _refused(path: Path, reason: object) -> LabError:
    return LabError(f"--sites {path}: {reason}. Nothing was started.")
