"""`subord members`: all members of the cluster, as a table, or folded for other programs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from subord.client import exit_codes
from subord.client.daemon import NODES_SHARE, NODES_TIMEOUT_S, Document, ask, asked
from subord.client.drawing import MARK_STYLES, Line, heading, show
from subord.client.errors import CommandError, to_stderr
from subord.client.folding import folded, in_order, in_short
from subord.client.naming import names_for, renamed
from subord.client.options import add_asking, add_colour, add_json, add_names, add_nodes, socket_path
from subord.client.text import age, columns, count, printable

STANDINGS = ("live", "held", "stale", "missing", "gone")
DOWN = ("missing", "gone")
DOWN_WORD = "down"
"""In tables; JSON tells the two apart."""
HEAD = ("address", "standing", "since", "place", "version", "leader")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "members",
        help="list all members, also missing and gone ones",
        description="List all members, from any node: live, held (a node above lost its leader), stale (the node "
        "that reported it is silent just now) and down (ended or vanished without goodbye). Nodes that are down stay "
        "on the list of every node until they return, or until `subord forget`; with --json, `missing` ones are "
        "still reported by their leader, and `gone` ones are not. A node that said goodbye is no longer a member. "
        "The table has the version of each daemon that answers within two seconds.",
        epilog='for clush: clush -w "$(subord members --standing live --fold)" uptime',
    )
    add_nodes(parser, "only these")
    parser.add_argument(
        "--standing",
        metavar="WORD,WORD...",
        type=_standings,
        default=STANDINGS,
        help=f"only these: {', '.join(STANDINGS)}; down is short for missing,gone",
    )
    parser.add_argument(
        "--down",
        dest="standing",
        action="store_const",
        const=DOWN,
        help="only nodes that are down: short for --standing down",
    )
    parser.add_argument(
        "--forgotten",
        action="store_true",
        help="list the nodes that operators have forgotten in the last 30 days instead, with the reasons",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--fold", action="store_true", help="print their addresses only, as one folded set")
    form.add_argument("--list", action="store_true", help="print their addresses only, one per line")
    add_json(form)
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the members; an incomplete list has a note and is no failure."""
    if arguments.forgotten:
        return _forgotten(arguments)
    answer = asked(arguments, "/v1/members")
    members = [each for each in _named(arguments, answer["members"]) if each["standing"] in arguments.standing]
    names = names_for(arguments, members)
    members.sort(key=lambda each: in_order(renamed(each["address"], names)))
    if arguments.json:
        print(json.dumps(renamed({**answer, "members": members}, names)))
    elif arguments.fold or arguments.list:
        if answer["note"]:
            to_stderr(f"subord: incomplete: {printable(answer['note'])}")
        _print_set(arguments, [renamed(each["address"], names) for each in members])
    else:
        versions = _versions(arguments, answer["members"])
        show(table(answer, members, versions, names), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def _print_set(arguments: argparse.Namespace, addresses: list[str]) -> None:
    """Nothing for no node."""
    if addresses:
        print(folded(addresses) if arguments.fold else "\n".join(addresses))


def _forgotten(arguments: argparse.Namespace) -> int:
    if arguments.nodes:
        raise CommandError("--forgotten lists all: name no nodes", exit_codes.USAGE)
    from subord.client.orders.statement_lines import addresses_of, forgotten_lines

    found = asked(arguments, "/v1/statements")
    found = renamed(found, names_for(arguments, found))
    if arguments.json:
        print(json.dumps(found))
    elif arguments.fold or arguments.list:
        _print_set(arguments, sorted(addresses_of(found["forgotten"]), key=in_order))
    else:
        show(forgotten_lines(found), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def _named(arguments: argparse.Namespace, members: list[Document]) -> list[Document]:
    """The members that the command line names; all if it names none. Raises CommandError if none of them is one."""
    if not arguments.nodes:
        return members
    from subord.client.node_sets.choice import chosen

    wanted = chosen(arguments, arguments.nodes)
    known = {each["address"]: each for each in members}
    strangers = [address for address in wanted if address not in known]
    if len(strangers) == len(wanted):
        raise CommandError(f"no member: {in_short(strangers)}; `subord members` lists all", exit_codes.NO_SUCH_NODE)
    if strangers:
        to_stderr(f"subord: no member: {in_short(strangers)}")
    return [known[address] for address in wanted if address in known]


def _versions(arguments: argparse.Namespace, members: list[Document]) -> dict[str, str]:
    """The version of each node that answers, by address. `members` are all."""
    target = f"/v1/errors?budget={NODES_TIMEOUT_S * NODES_SHARE:.3f}"
    try:
        found = ask(socket_path(arguments), target, arguments.timeout, gives_up_s=0)
    except CommandError:
        return {}
    return version_of(found, [each["address"] for each in members if each["standing"] not in DOWN])


def version_of(found: Document, up: list[str]) -> dict[str, str]:
    """The versions by address, from `/v1/errors`, which names at most 512 nodes of each version.

    If only one version has unnamed nodes, as many as there are other nodes that are up, then these run it.
    """
    versions = found.get("versions", [])  # an older daemon tells none
    known = {address: each["version"] for each in versions for address in each["addresses"]}
    unnamed = {each["version"]: each["nodes"] - len(each["addresses"]) for each in versions}
    silent = {*found.get("silent", []), *found.get("older", [])}
    rest = [address for address in up if address not in known and address not in silent]
    for version, nodes in unnamed.items():
        if rest and nodes == len(rest) == sum(unnamed.values()):
            known |= dict.fromkeys(rest, version)
    return known


def table(
    answer: Document, members: list[Document], versions: dict[str, str], names: dict[str, str] | None = None
) -> list[Line]:
    """A summary, the note if any, and one line per member."""
    rows = [HEAD, *(_cells(each, versions) for each in members)] if members else []
    rows = [_named_row(row, names) for row in rows] if names else rows
    styles = ["dim", *(MARK_STYLES.get(each["standing"], "") for each in members)]
    lines = zip(columns(rows) if rows else [], styles, strict=False)
    note = renamed(answer["note"], names or {})
    return [*heading(summary(members) + in_words(members, versions), note), *([line] for line in lines)]


def summary(members: list[Document]) -> str:
    """One line: "11 members: 9 live, 2 down"."""
    counted = Counter(each["standing"] for each in members)
    parts = [f"{counted[word]} {word}" for word in STANDINGS if counted[word] and word not in DOWN]
    down, maintained = (
        sum(counted[word] for word in DOWN),
        sum(each.get("maintenance") is not None for each in members),
    )
    parts += [f"{down} down"] if down else []
    parts += [f"{maintained} under maintenance"] if maintained else []
    return count(len(members), "member") + (f": {', '.join(parts)}" if parts else "")


def in_words(members: list[Document], versions: dict[str, str]) -> str:
    """ "; version 0.2.0", or "; 2 versions: 9 with 0.2.0, 1 with 0.1.0, 1 not known"; "" if none is known."""
    counted = Counter(versions[each["address"]] for each in members if each["address"] in versions)
    unknown = sum(each["address"] not in versions and each["standing"] not in DOWN for each in members)
    if len(counted) < 2:
        return "".join(f"; version {printable(version)}" for version in counted)
    parts = [f"{nodes} with {printable(version)}" for version, nodes in counted.most_common()]
    parts += [f"{unknown} not known"] if unknown else []
    return f"; {len(counted)} versions: {', '.join(parts)}"


def _cells(each: Document, versions: dict[str, str]) -> tuple[str, ...]:
    since = "-" if each["since_s"] is None else age(each["since_s"])
    version, leader = printable(versions.get(each["address"], "-")), each["leader"] or "-"
    noted = f"  under maintenance: {printable(each['maintenance'])}" if each.get("maintenance") else ""
    word = DOWN_WORD if each["standing"] in DOWN else each["standing"]
    return each["address"], word, since, each["place"] or "-", version, leader + noted


def _named_row(row: tuple[str, ...], names: dict[str, str]) -> tuple[str, ...]:
    """The row with a name before its address, and names for the other addresses."""
    address, *others = row
    name = "name" if row is HEAD else names.get(address, "-")
    return (name, address, *renamed(others, names))


def _standings(text: str) -> tuple[str, ...]:
    named = (word.strip() for word in text.split(","))
    words = tuple(one for word in named for one in (DOWN if word == DOWN_WORD else (word,)))
    unknown = [word for word in words if word not in STANDINGS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(STANDINGS)}")
    return words
