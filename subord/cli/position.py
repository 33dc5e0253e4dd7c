"""`subord position`: where an address stands in the computed tree. Arithmetic only; no daemon is asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import add_json, whole_number
from subord.client.text import columns

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
    names: Mapping[str, str] = {}


class Leader(TypedDict):
    address: str
    position: int


class Spot(Leader):
    """A node in the computed tree."""

    level: int
    offset: int


class Answer(Spot):
    """The JSON object of `--json`, but for its version."""

    network: str
    leader: Leader | None
    candidates: list[Spot]


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "position",
        help="compute the position of an address and its candidates",
        description="Compute where an address stands in the tree and which leaders it tries first. "
        "Give either --config, or --network with its settings. No daemon is asked.",
    )
    parser.add_argument("address", metavar="ADDRESS", help="an address inside the network, or the name of a node")
    parser.add_argument("--config", metavar="FILE", help="take the settings from this configuration")
    parser.add_argument("--network", metavar="NET", help="a block (10.0.0.0/24) or a list (10.0.5.10-60,10.0.7.1)")
    parser.add_argument(
        "--fanout", metavar="P", type=whole_number(FANOUT_MIN, FANOUT_MAX), help="the fan-out (default: 8)"
    )
    parser.add_argument("--numbering", choices=("complete", "paper"), help="default: complete")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the position, the computed leader and the first candidates of an address."""
    tree = _tree(arguments) if arguments.config is None else _configured_tree(arguments)
    answer = _answer(_address(arguments.address, tree), tree)
    print(json.dumps({"schema_version": SCHEMA_VERSION, **answer}) if arguments.json else _human(answer, tree))
    return exit_codes.OK


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
        config = load(arguments.config)
    except ConfigError as error:
        raise CommandError(str(error), exit_codes.CONFIGURATION) from None
    cluster = config.cluster
    return Tree(cluster.network, cluster.numbering_name, cluster.fanout, config.names)


def _address(word: str, tree: Tree) -> str:
    """The address of the named node; one of the network is used as it is, which needs few imports."""
    if word in tree.network:
        return word
    from subord.client.node_sets.choice import Knowledge, one_by

    return one_by(Knowledge(lambda: tree.names, lambda: ("", tree.network)), word)


def _answer(address: str, tree: Tree) -> Answer:
    from subord.core.address.numbering import numbering
    from subord.core.address.order import ranked

    network, by = tree.network, numbering(tree.numbering, tree.fanout)
    position = network.position_of(address)
    if position is None:
        raise _outside(address, network)
    leader = by.computed_leader(position)
    return {
        **_spot(position, network, by),
        "network": network.text,
        "leader": None if leader is None else {"address": network.address_text_of(leader), "position": leader},
        "candidates": [_spot(each, network, by) for each in islice(ranked(position, by), CANDIDATES_SHOWN)],
    }


def _spot(position: int, network: Network, by: Numbering) -> Spot:
    level, offset = by.level_and_offset(position)
    return {"address": network.address_text_of(position), "position": position, "level": level, "offset": offset}


def _outside(address: str, network: Network) -> CommandError:
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
        rows = [["address", "position", "level", "offset"]]
        rows += [[str(value) for value in candidate.values()] for candidate in answer["candidates"]]
        lines += ["", f"first {len(rows) - 1} candidates, nearest first", *columns(rows, "  ", right=(1, 2, 3))]
    return "\n".join(lines)
