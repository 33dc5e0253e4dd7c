"""`subord files`: brings files to nodes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from subord.client.options import TIMEOUT_S, add_asking, add_json, add_names, add_socket
from subord.client.orders.signing import add_key_option
from subord.services.exec.words import add_targets, add_time

TIME_S = 600.0
LOOK_S = 60.0
if TYPE_CHECKING:
    _Actions = argparse._SubParsersAction[argparse.ArgumentParser]
    _Options = argparse._ArgumentGroup


def add(subparsers: _Actions) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "files",
        help="bring files to nodes",
        description="Bring files and directories of this host to nodes, along the tree: once (push), or as a set "
        "that the nodes keep (publish). An operator signs the order, and the agent of each node writes the files as "
        "its policy allows (docs/files.md).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_push(actions)
    _add_publish(actions)
    _add_status(actions)
    _add_diff(actions)
    _add_history(actions)
    _add_rollback(actions)
    _add_withdraw(actions)
    _add_gc(actions)


def _add_push(actions: _Actions) -> None:
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
    found = _add_files(
        parser, "where they go on the nodes (default: where they are here)", "when its files have changed"
    )
    found.add_argument(
        "--dry-run", action="store_true", help="say what would change on each node, and change nothing"
    )
    _add_time(found)
    _add_rest(parser)


def _add_publish(actions: _Actions) -> None:
    parser = actions.add_parser(
        "publish",
        help="have nodes keep a directory as it is here",
        description="Publish the next version of a set: the nodes make a directory as DIRECTORY is here, and keep "
        "the version before. Nodes that are off, or join later, do so when they come. A version is staged and "
        "checked first, then the whole directory is exchanged at once.",
        epilog="exit codes: 0 if the version is in place on every node, else 1; nodes that are missing follow later",
        usage="subord files publish NODES... --name NAME [OPTIONS] DIRECTORY",
    )
    add_targets(parser)
    parser.add_argument("directory", metavar="DIRECTORY", help="a directory of this host")
    text = "the name of the set: lower-case letters and digits"
    parser.add_argument("--name", metavar="NAME", required=True, help=text)
    to = "the directory on the nodes, which is that of the set alone (default: as here)"
    found = _add_files(parser, to, "when the version is in place")
    text = "take the place of a directory with files of no set; they are kept as the previous version"
    found.add_argument("--replace", action="store_true", help=text)
    _add_waiting(found)
    _add_rest(parser)


def _add_status(actions: _Actions) -> None:
    text = "Show how each set is on its nodes, after a comparison of all files."
    parser = _add_action(actions, "status", "show how sets are on their nodes", text)
    parser.add_argument("name", metavar="NAME", nargs="?", help="the set (default: all)")
    parser.epilog = "exit codes: 0 if all sets are current on all their nodes, else 1"
    _add_time(parser.add_argument_group("time"), LOOK_S)
    _add_rest(parser)


def _add_diff(actions: _Actions) -> None:
    text = "Show path by path how the files of a set on a node differ from the version that is in place there."
    parser = _add_action(actions, "diff", "show which paths of a set differ on a node", text)
    parser.add_argument("name", metavar="NAME", help="the set")
    parser.add_argument("node", metavar="NODE", help="the node")
    parser.epilog = "exit codes: 0 if no path differs, else 1"
    _add_time(parser.add_argument_group("time"), LOOK_S)
    _add_rest(parser)


def _add_history(actions: _Actions) -> None:
    text = "Show the versions of a set, the newest first. No node is asked."
    parser = _add_action(actions, "history", "show the versions of a set", text)
    parser.add_argument("name", metavar="NAME", help="the set")
    add_json(parser)
    add_asking(parser)


def _add_rollback(actions: _Actions) -> None:
    text = "Publish the files of an earlier version of a set as the next version."
    parser = _add_action(actions, "rollback", "go back to an earlier version of a set", text)
    parser.add_argument("name", metavar="NAME", help="the set")
    text = "the version (default: the last one with other files)"
    parser.add_argument("version", metavar="VERSION", nargs="?", type=int, help=text)
    parser.epilog = "exit codes: as of publish"
    _add_waiting(parser.add_argument_group("the version"))
    _add_rest(parser)


def _add_withdraw(actions: _Actions) -> None:
    text = "Have the nodes keep the files of a set no more. The files stay where they are."
    parser = _add_action(actions, "withdraw", "end a set; its files stay", text)
    parser.add_argument("name", metavar="NAME", help="the set")
    add_key_option(parser)
    add_asking(parser)
    parser.set_defaults(receipts=False, user="root")


def _add_gc(actions: _Actions) -> None:
    text = "Delete on all nodes the previous versions of sets that are withdrawn, and blobs that no set names."
    parser = _add_action(actions, "gc", "delete what no set needs", text)
    parser.add_argument("--previous", action="store_true", help="also the previous version of each set")
    parser.epilog = "exit codes: 0 if every node has answered and deleted all, else 1"
    _add_time(parser.add_argument_group("time"), LOOK_S)
    _add_rest(parser)


# -- options ----------------------------------------------------------------------------------------------------


def _add_action(actions: _Actions, name: str, what: str, text: str) -> argparse.ArgumentParser:
    return actions.add_parser(name, help=what, description=text)


def _add_files(parser: argparse.ArgumentParser, to: str, after: str) -> _Options:
    found = parser.add_argument_group("the files")
    found.add_argument("--to", metavar="DIRECTORY", help=to)
    text = "keep owners, groups, setuid and setgid (default: all belong to the user of the agent)"
    found.add_argument("-p", "--preserve", action="store_true", help=text)
    text = "a line for the shell of each node; if it fails, nothing changes. $SUBORD_STAGED is what was staged first"
    found.add_argument("--check", metavar="LINE", default="", help=text)
    text = f"a line for the shell of each node, run once {after}"
    found.add_argument("--after", metavar="LINE", default="", help=text)
    return found


def _add_time(found: _Options, time_s: float = TIME_S) -> None:
    add_time(found, "give up on a node", time_s)


def _add_waiting(found: _Options) -> None:
    text = "do not wait for the nodes"
    found.add_argument("--no-wait", dest="wait", action="store_false", help=text)
    _add_time(found)


def _add_rest(parser: argparse.ArgumentParser) -> None:
    shown = parser.add_argument_group("output")
    shown.add_argument("-q", "--quiet", action="store_true", help="print nothing when all went well")
    add_json(shown)
    add_key_option(parser)
    add_names(parser)
    add_socket(parser)
    parser.set_defaults(timeout=TIMEOUT_S, batch=None, receipts=False, user="root")


def run(arguments: argparse.Namespace) -> int:
    """Prints what came of it on all nodes; NOT_REACHED if one lacks the files."""
    if arguments.action == "push":
        from subord.services.files.pushing import run as push

        return push(arguments)
    if arguments.action in ("publish", "rollback", "withdraw"):
        from subord.services.files.sets import publishing

        return {"publish": publishing.publish, "rollback": publishing.rollback, "withdraw": publishing.withdraw}[
            arguments.action
        ](arguments)
    from subord.services.files.sets import asking

    actions = {"status": asking.status, "diff": asking.diff, "history": asking.history, "gc": asking.collect}
    return actions[arguments.action](arguments)
