"""`subord position`: where an address stands in the computed tree. Arithmetic only; no daemon is asked."""

from __future__ import annotations

import argparse
import json
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from subord.client import exit_codes
from subord.client.errors import CommandError

if TYPE_CHECKING:
    from subord.core.address.network import Network
    from subord.core.address.numbering import Numbering

CANDIDATES_SHOWN = 10
FANOUT_MIN, FANOUT_MAX = 2, 1024  # as for [cluster] fanout


class Tree(NamedTuple):
    """What determines the computed tree."""

    network: Network
    numbering: Literal["complete", "paper"]
    fanout: int


class Candidate(TypedDict):
    address: str
    position: int
    level: int
    offset: int


class Leader(TypedDict):
    address: str
    position: int


class Answer(TypedDict):
    """The JSON object of `--json`."""

    address: str
    network: str
    position: int
    level: int
    offset: int
    leader: Leader | None
    candidates: list[Candidate]


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "position",
        help="compute the position of an address and its candidates",
        description="Compute where an address stands in the tree and which leaders it tries first. "
        "Give either --config, or --network with its settings. No daemon is asked.",
    )
    parser.add_argument("address", metavar="ADDRESS", help="an IPv4 or IPv6 address inside the network")
    parser.add_argument("--config", metavar="FILE", help="take the settings from this configuration")
    parser.add_argument("--network", metavar="NET", help="a block (10.0.0.0/24) or a list (10.0.5.10-60,10.0.7.1)")
    parser.add_argument("--fanout", metavar="P", type=_fanout, help="the fan-out (default: 8)")
    parser.add_argument("--numbering", choices=("complete", "paper"), help="default: complete")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the position, the computed leader and the first candidates of an address."""
    tree = _tree(arguments) if arguments.config is None else _configured_tree(arguments)
    answer = _answer(arguments.address, tree)
    print(json.dumps(answer) if arguments.json else _human(answer, tree))
    return exit_codes.OK


def _fanout(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 4 and FANOUT_MIN <= int(text) <= FANOUT_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from {FANOUT_MIN} to {FANOUT_MAX}, not {text!r}")


def _tree(arguments: argparse.Namespace) -> Tree:
    from subord.core.address.network import Network, NetworkError

    if arguments.network is None:
        raise CommandError("give --network NET or --config FILE; see subord position --help", exit_codes.USAGE)
    try:
        network = Network.parse(arguments.network)
    except NetworkError as error:
        raise CommandError(f"argument --network: {error}", exit_codes.USAGE) from None
    return Tree(network, arguments.numbering or "complete", arguments.fanout or 8)


def _configured_tree(arguments: argparse.Namespace) -> Tree:
    for name in ("network", "fanout", "numbering"):
        if getattr(arguments, name) is not None:
            raise CommandError(f"give either --config or --{name}, not both", exit_codes.USAGE)
    from subord.config.load import load
    from subord.config.source import ConfigError

    try:
        cluster = load(arguments.config).cluster
    except ConfigError as error:
        raise CommandError(str(error), exit_codes.CONFIGURATION) from None
    return Tree(cluster.network, cluster.numbering_name, cluster.fanout)


def _answer(address: str, tree: Tree) -> Answer:
    from subord.core.address.numbering import numbering
    from subord.core.address.order import ranked

    network, by = tree.network, numbering(tree.numbering, tree.fanout)
    position = network.position_of(address)
    if position is None:
        raise _outside(address, network)
    leader = by.computed_leader(position)
    level, offset = by.level_and_offset(position)
    candidates = islice(ranked(position, by), CANDIDATES_SHOWN)
    return {
        "address": network.address_text_of(position),
        "network": network.text,
        "position": position,
        "level": level,
        "offset": offset,
        "leader": None if leader is None else _leader(leader, network),
        "candidates": [_candidate(each, network, by) for each in candidates],
    }


def _leader(position: int, network: Network) -> Leader:
    return {"address": network.address_text_of(position), "position": position}


def _candidate(position: int, network: Network, by: Numbering) -> Candidate:
    level, offset = by.level_and_offset(position)
    address = network.address_text_of(position)
    return {"address": address, "position": position, "level": level, "offset": offset}


def _outside(address: str, network: Network) -> CommandError:
    """Distinguishes an invalid address from one of another network."""
    from ipaddress import ip_address

    try:
        ip_address(address)
    except ValueError:
        return CommandError(f"{address!r} is no IP address: write a numeric one, no name", exit_codes.USAGE)
    last = network.address_text_of(network.size)
    return CommandError(
        f"{address} is not in the network: its positions are 1 ({network.address_text_of(1)}) "
        f"to {network.size} ({last})",
        exit_codes.NO_SUCH_NODE,
    )


def _human(answer: Answer, tree: Tree) -> str:
    leader = answer["leader"]
    network = answer["network"] if len(answer["network"]) <= 60 else f"{answer['network'][:57]}..."
    led_by = f"{leader['address']} (position {leader['position']})" if leader else "none: the lowest position"
    lines = [
        f"{answer['address']} in {network}, fan-out {tree.fanout}, {tree.numbering} numbering",
        f"  position  {answer['position']}",
        f"  level     {answer['level']}",
        f"  offset    {answer['offset']}",
        f"  leader    {led_by}",
    ]
    if answer["candidates"]:
        lines += [
            "",
            f"first {len(answer['candidates'])} candidates, nearest first",
            *_table(answer["candidates"]),
        ]
    return "\n".join(lines)


def _table(candidates: list[Candidate]) -> list[str]:
    rows = [["address", "position", "level", "offset"]]
    rows += [[str(value) for value in candidate.values()] for candidate in candidates]
    address, *numbers = (max(map(len, column)) for column in zip(*rows, strict=True))
    return ["  " + "  ".join([row[0].ljust(address), *map(str.rjust, row[1:], numbers)]).rstrip() for row in rows]
