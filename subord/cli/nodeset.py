"""`subord nodeset`: the nodes that a set stands for, and the groups of this host."""

from __future__ import annotations

import argparse
import json

from subord import SCHEMA_VERSION
from subord.client import exit_codes
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_json, add_names, add_nodes


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "nodeset",
        help="print the nodes that a set stands for, or the groups",
        description="Print the addresses of the nodes that a set stands for, as every command understands it. "
        "Operators: a comma unites, ! subtracts, & keeps what is on both sides, ^ what is on one side only; they "
        "are applied from left to right. Groups are @group, @source:group, and @* for all nodes of a source. Quote a "
        "set, because shells read !, & and *.",
    )
    add_nodes(parser, "the set")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--list", action="store_true", help="one node per line instead of a folded set")
    form.add_argument("--count", action="store_true", help="the number of nodes")
    form.add_argument("--groups", action="store_true", help="instead of nodes: all groups, one per line")
    add_json(form)
    add_names(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the set or the groups."""
    if arguments.groups == bool(arguments.nodes):
        raise CommandError("give either NODES or --groups; see subord nodeset --help", exit_codes.USAGE)
    if arguments.groups:
        print("\n".join(_groups(arguments)))
        return exit_codes.OK
    from subord.client.node_sets.choice import chosen

    addresses = chosen(arguments, arguments.nodes)
    if arguments.count:
        print(len(addresses))
        return exit_codes.OK
    nodes = renamed(addresses, names_for(arguments, addresses) if arguments.names else {})
    if arguments.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "addresses": nodes}))
    else:
        print("\n".join(nodes) if arguments.list else folded(nodes))
    return exit_codes.OK


def _groups(arguments: argparse.Namespace) -> list[str]:
    """Those of the default source first, without its name. Raises CommandError."""
    from subord.client.node_sets.algebra import NodeSetError
    from subord.client.node_sets.choice import groups_of_host, of_daemon
    from subord.client.node_sets.groups import Failure

    groups = groups_of_host(of_daemon(arguments).sources)
    try:
        sources = groups.sources()
        default = groups.default_or_none()
    except NodeSetError as error:
        raise CommandError(str(error), exit_codes.USAGE) from None
    lines: list[str] = []
    for name in sorted(sources, key=lambda name: (name != default, name)):
        found = sources[name].names()
        if isinstance(found, Failure):  # the groups of the other sources are not the worse for it
            to_stderr(f"subord: {found.text}")
            continue
        prefix = "@" if name == default else f"@{name}:"
        lines += [f"{prefix}{group}" for group in sorted(found)]
    return lines
