"""`subord hosts`: the names and addresses of added nodes, and which nodes have them in their hosts file."""

from __future__ import annotations

import argparse

from subord.client.options import add_asking, add_json
from subord.services.asking import TIMEOUT_S, add_asking_nodes


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    from subord.client.orders.signing import add_key_option

    parser = subparsers.add_parser(
        "hosts",
        help="show the names of added nodes, and which nodes know them",
        description="Show the names and addresses of the nodes that the cluster has added, as this node holds them. "
        "The agent of each node writes them into its hosts file (elastic.hosts_file).",
    )
    add_json(parser)
    add_asking(parser, TIMEOUT_S)
    parser.epilog = "exit codes: 0 if the table was shown, also if there is none"
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    text = "show which nodes have written the table, and why others have not"
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)
    text = "publish a table without names: each node takes the lines of the table away"
    off = actions.add_parser("off", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_key_option(off)
    add_json(off)
    add_asking(off, TIMEOUT_S, "time for the daemon to answer")
    off.epilog = (
        "While the cluster grows and shrinks, the next change brings a table again. exit codes: 0 if this is "
        "published, 1 if another table was published at the same time"
    )
    status.epilog = "exit codes: 0 if every node answered and has the table, or follows none, 1 if one did not"
    for each in (*status._actions, *off._actions):  # else defaults would take the place of options before the action
        if each.dest in ("json", "timeout", "socket"):
            each.default = argparse.SUPPRESS


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    if arguments.action == "off":
        from subord.services.hosts import ending

        return ending.run(arguments)
    from subord.services.hosts import showing

    return showing.status(arguments) if arguments.action == "status" else showing.table(arguments)
