"""`subord files`: brings files to nodes."""

from __future__ import annotations

import argparse

from subord.client.options import TIMEOUT_S, add_json, add_names, add_socket, number
from subord.client.orders.signing import add_key_option
from subord.services.exec.words import add_targets

TIME_S = 600.0
TIME_S_MAX = 86_000


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "files",
        help="bring files to nodes",
        description="Bring files and directories of this host to nodes, along the tree. An operator signs the order, "
        "and the agent of each node writes the files as its policy allows (docs/files.md).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_push(actions)


def _add_push(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "push",
        help="copy files and directories to nodes",
        description="Copy files, directories and links to a directory of each node. All of it is staged and checked "
        "first; then each file is replaced at once, so a reader sees the old or the new one.",
        epilog="exit codes: 0 if every node has the files, else 1",
        usage="subord files push NODES... [OPTIONS] PATH...",
    )
    add_targets(parser)
    parser.add_argument("paths", metavar="PATH", nargs="+", help="a file, directory or link of this host")
    found = parser.add_argument_group("the files")
    found.add_argument("--to", metavar="DIRECTORY", help="where they go on the nodes (default: where they are here)")
    text = "keep owners, groups, setuid and setgid (default: all belong to the user of the agent)"
    found.add_argument("-p", "--preserve", action="store_true", help=text)
    text = "a line for the shell of each node; if it fails, nothing changes. $SUBORD_STAGED is the first new file"
    found.add_argument("--check", metavar="LINE", default="", help=text)
    text = "a line for the shell of each node, run once when its files have changed"
    found.add_argument("--after", metavar="LINE", default="", help=text)
    seconds = number("seconds", TIME_S_MAX)
    text = f"give up on a node after this long (default: {TIME_S:g})"
    found.add_argument("-t", "--timeout", dest="time_s", metavar="SECONDS", type=seconds, default=TIME_S, help=text)
    found.add_argument(
        "--dry-run", action="store_true", help="say what would change on each node, and change nothing"
    )
    shown = parser.add_argument_group("output")
    shown.add_argument("-q", "--quiet", action="store_true", help="print nothing when all went well")
    add_json(shown)
    add_key_option(parser)
    add_names(parser)
    add_socket(parser)
    parser.set_defaults(timeout=TIMEOUT_S, batch=None, receipts=False, user="root")


def run(arguments: argparse.Namespace) -> int:
    """Prints what came of it on all nodes; NOT_REACHED if one lacks the files."""
    from subord.services.files.pushing import run as push

    return push(arguments)
