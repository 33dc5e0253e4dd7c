"""`subord members`: all members of the cluster, as a table, or folded for other programs."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from subord.client import exit_codes
from subord.client.control_socket import socket_path
from subord.client.daemon import Document, ask
from subord.client.drawing import MARK_STYLES, NOTE_STYLE, Line, show
from subord.client.errors import to_stderr
from subord.client.folding import folded, in_order
from subord.client.naming import add_names, names_for, renamed
from subord.client.options import add_asking, add_colour, add_json
from subord.client.text import age, columns, count, printable

TARGET = "/v1/members"
STANDINGS = ("live", "held", "stale", "missing", "gone")
HEAD = ("address", "standing", "since", "place", "leader")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "members",
        help="list all members, also missing and gone ones",
        description="List all members, from any node: live, held (a node above lost its leader), stale (the node "
        "that reported it is silent just now), missing (vanished without goodbye, as its leader reports) and gone "
        "(has no leader any more, and is still remembered). A node that said goodbye is no member any more.",
        epilog='for clush: clush -w "$(subord members --standing live --fold)" uptime',
    )
    parser.add_argument(
        "--standing",
        metavar="WORD,WORD...",
        type=_standings,
        default=STANDINGS,
        help=f"only these: {', '.join(STANDINGS)}",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--fold", action="store_true", help="print their addresses only, as one folded set")
    form.add_argument("--list", action="store_true", help="print their addresses only, one a line")
    add_json(form)
    add_names(parser)
    add_colour(parser)
    add_asking(parser)


def run(arguments: argparse.Namespace) -> int:
    """Prints the members; an incomplete list has a note and is no failure."""
    path = socket_path(arguments)
    answer = ask(path, TARGET, arguments.timeout)
    answer = renamed(answer, names_for(path, arguments, arguments.timeout))
    members = [each for each in answer["members"] if each["standing"] in arguments.standing]
    members.sort(key=lambda each: in_order(each["address"]))
    if arguments.json:
        print(json.dumps({**answer, "members": members}))
    elif arguments.fold or arguments.list:
        if answer["note"]:
            to_stderr(f"subord: incomplete: {printable(answer['note'])}")
        addresses = [each["address"] for each in members]
        print(folded(addresses) if arguments.fold else "\n".join(addresses))
    else:
        show(table(answer, members), sys.stdout, is_plain=arguments.no_color)
    return exit_codes.OK


def table(answer: Document, members: list[Document]) -> list[Line]:
    """A summary, the note if any, and one line per member."""
    lines: list[Line] = [[(summary(members), "bold")]]
    if answer["note"]:
        lines.append([(f"incomplete: {printable(answer['note'])}", NOTE_STYLE)])
    rows = [HEAD, *(_cells(each) for each in members)] if members else []
    styles = ["dim", *(MARK_STYLES.get(each["standing"], "") for each in members)]
    return lines + [[(text, style)] for text, style in zip(columns(rows) if rows else [], styles, strict=False)]


def summary(members: list[Document]) -> str:
    """One line: "11 members: 9 live, 1 missing, 1 gone"."""
    counted = Counter(each["standing"] for each in members)
    by_standing = ", ".join(f"{counted[word]} {word}" for word in STANDINGS if counted[word])
    return count(len(members), "member") + (f": {by_standing}" if by_standing else "")


def _cells(each: Document) -> tuple[str, ...]:
    since = "-" if each["since_s"] is None else age(each["since_s"])
    return each["address"], each["standing"], since, each["place"] or "-", each["leader"] or "-"


def _standings(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    unknown = [word for word in words if word not in STANDINGS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(STANDINGS)}")
    return words
