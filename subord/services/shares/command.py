"""`subord shares`: publishes the shares of classes of work, and shows how the nodes follow them."""

from __future__ import annotations

import argparse

from subord.client.options import add_asking, add_json, add_names, duration
from subord.services.asking import TIMEOUT_S, add_asking_nodes

ROUND_S_MIN, ROUND_S_MAX = 0.3, 600.0
"""As in core/carriage/shares/bounds.py."""
DRY_RUN = "say what would be published, and whether this node would take it; nothing is changed"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "shares",
        help="divide the nodes among classes of work",
        description="Divide all nodes together among classes of work, such as 60, 30 and 10 percent, and show what "
        "each class has got. A class is a name for groups of processes, which the configuration of each node gives "
        "(shares.classes).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_set(actions)
    text = "show what each class gets and uses, by branch of the root, and which nodes do not follow"
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)
    status.epilog = (
        "With NODES only the states of these nodes are shown, and the shares if the root is among them. exit codes: "
        "0 if every node answered and follows the shares, also when they are off, 1 if one did not"
    )
    _add_why(actions)
    text = "publish that shares are off: each node puts back the weights from before"
    off = actions.add_parser("off", help=text, description=f"{text[0].upper()}{text[1:]}.")
    _add_publishing(off, "time for the daemon to answer")
    off.epilog = "exit codes: 0 if this is published, 1 if another operator has published at the same time"


def _add_set(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "set",
        help="publish the shares of the classes, such as web=60,batch=30,rest=10",
        description="Publish the shares of the classes in percent of all nodes. They sum to 100. First all nodes are "
        "asked which classes they have, and a class that none has is refused.",
        epilog="exit codes: 0 if the shares are published; 1 if another operator has published at the same time; 2 "
        "if they are wrong, and then nothing is changed",
    )
    parser.add_argument("shares", metavar="SHARES", help="a percent for each class, such as web=60,batch=30,rest=10")
    text = "how often nodes report and leaders decide, from 0.3s to 10min (default: as before, at first 1s)"
    parser.add_argument("--round", metavar="TIME", type=_round, help=text)
    text = "publish them although no node has one of the classes, or no node has told its classes"
    parser.add_argument("--force", action="store_true", help=text)
    _add_publishing(parser, "time for the nodes to answer")
    add_names(parser)


def _add_publishing(parser: argparse.ArgumentParser, timeout: str) -> None:
    from subord.client.orders.signing import add_key_option

    parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    add_key_option(parser)
    add_json(parser)
    add_asking(parser, TIMEOUT_S, timeout)


def _add_why(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "why",
        help="explain the shares of a node",
        description="Show which shares a node obeys, and how its leader and each leader above has found them: by "
        "which shares it divides, what the branch has reported, and the steps of the decision in tickets, hundredths "
        "of a node.",
        epilog="exit codes: 0 if the node and all leaders above it answered, 1 if one did not",
    )
    parser.add_argument("node", metavar="NODE", help="the node, by name or address")
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the nodes to answer")


def _round(text: str) -> float:
    seconds = round(duration(text), 3)  # the document has whole milliseconds
    if ROUND_S_MIN <= seconds <= ROUND_S_MAX:
        return seconds
    raise argparse.ArgumentTypeError(f"must be a time from 0.3s to 10min, not {text!r}")


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    if arguments.action == "status":
        from subord.services.shares.commands.status import run as show

        return show(arguments)
    if arguments.action == "why":
        from subord.services.shares.commands.why import run as explain

        return explain(arguments)
    from subord.services.shares.commands import publishing

    return publishing.switch_off(arguments) if arguments.action == "off" else publishing.publish(arguments)
