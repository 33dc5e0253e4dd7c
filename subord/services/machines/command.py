"""`subord machines`: publishes which virtual machines serve the queues, and shows machines and decisions."""

from __future__ import annotations

import argparse
from typing import Final

from subord.client.options import add_asking, add_json, add_names
from subord.services.asking import TIMEOUT_S, add_asking_nodes, add_ordering

CHECK: Final = (
    "show what would be published, what is wrong with it, and whether this node would accept it; change nothing"
)
TRIAL: Final = "publish the plan as a trial: decide, and show what would be done, but do nothing"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "machines",
        help="start virtual machines for the jobs of batch queues",
        description="Start and stop virtual machines for the jobs that wait in the queues of a batch system, within "
        "what each server has. An operator publishes a plan, and the node that has the queues decides by it. Servers "
        "have machines.uri in their configuration.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_plan(actions)
    text = "end the plan: machines stay as they are, on or off, and none is started or stopped"
    off = actions.add_parser("off", help=text, description=f"{text[0].upper()}{text[1:]}.")
    off.epilog = (
        "Without a plan in force nothing is published. exit codes: 0 if no plan is in force any more, 1 if another "
        "operator has published at the same time"
    )
    off.add_argument("--check", dest="dry_run", action="store_true", help=CHECK)
    _add_publishing(off, "time for the daemon to answer")
    _add_list(actions)
    text = "show the plan, the last round, its actions, and the nodes that do not follow the plan"
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)
    status.epilog = (
        "NODES limits the states of nodes that are shown below the last round. exit codes: 0 if every node answered "
        "and follows the plan, or the plan is ended; 1 if not"
    )
    _add_why(actions)
    _add_drain(actions)
    _add_policy(actions)


def _add_plan(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "plan",
        help="publish the types of machines and their queues",
        description="Publish a plan, a TOML file with the types of machines, their templates and queues, limits and "
        "waits. The command first asks the queue's node whether it has a batch system, and servers whether they have "
        "what the plan needs.",
        epilog="docs/machines.md has the keys of FILE with their defaults. exit codes: 0 if the plan is published; 1 "
        "if another operator has published at the same time. With the following codes nothing is changed: 2 if the "
        "plan is wrong, 75 if the queue's node does not answer, 78 if it has no batch system, or no server can "
        "follow the plan",
    )
    _add_file(parser)
    parser.add_argument("--trial", action="store_true", help=TRIAL)
    parser.add_argument("--check", dest="dry_run", action="store_true", help=CHECK)
    text = "publish the plan even if the queue's node or servers cannot follow it, or do not answer"
    parser.add_argument("--force", action="store_true", help=text)
    _add_publishing(parser, "time for the nodes to answer")
    add_names(parser)


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the plan in TOML; `-`: standard input")
    text = "the node that has the queues (default: `manager` of FILE, else that of the last plan, else this node)"
    parser.add_argument("--manager", metavar="NODE", help=text)


def _add_publishing(parser: argparse.ArgumentParser, timeout: str) -> None:
    from subord.client.orders.signing import add_key_option

    add_key_option(parser)
    add_json(parser)
    add_asking(parser, TIMEOUT_S, timeout)


def _add_list(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "list servers with what is used of them, and all their machines"
    parser = actions.add_parser("list", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(parser)
    parser.add_argument("--servers", action="store_true", help="list servers only")
    parser.epilog = "exit codes: 0 if every node answered and every server listed its machines, 1 if not"


def _add_why(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "explain what a waiting job gets, or why it gets nothing"
    parser = actions.add_parser(
        "why",
        help=text,
        description=f"{text[0].upper()}{text[1:]}, by the last round of the queue's node.",
        epilog="exit codes: 0 if the job waits and its reason is shown, 1 if not",
    )
    parser.add_argument("job", metavar="JOB", help="its number in the batch system, such as 4711 or 17_3")
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the queue's node to answer")


def _add_drain(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "empty servers: no machine starts there, and idle machines are stopped"
    parser = actions.add_parser(
        "drain",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. Machines with jobs run until the jobs have ended. A server stays "
        "drained until --undo, over restarts and new plans.",
    )
    add_ordering(parser, all_help="all members; NODES or this must be given")
    parser.add_argument("--undo", action="store_true", help="let machines start there again")
    parser.epilog = "exit codes: 0 if every server has done it, 1 if not"


def _add_policy(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser("policy", help="check a plan without publishing it", description="Check a plan.")
    words = parser.add_subparsers(dest="word", metavar="ACTION", required=True)
    check = words.add_parser(
        "check",
        help="show what is wrong with a plan: in the file, and by what servers have",
        description="Show what is wrong with a plan: in the file, by the queues of the batch system, and by what "
        "servers have (templates, room, libvirt). Nothing is signed or published.",
        epilog="exit codes: 0 if the plan can be followed, also with notes, 1 if nodes did not answer, 2 if the plan "
        "cannot be followed",
    )
    _add_file(check)
    add_json(check)
    add_names(check)
    add_asking(check, TIMEOUT_S, "time for the nodes to answer")


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    if arguments.action == "list":
        from subord.services.machines.commands.listing import run as listed

        return listed(arguments)
    if arguments.action == "status":
        from subord.services.machines.commands.status import run as show

        return show(arguments)
    if arguments.action == "why":
        from subord.services.machines.commands.why import run as explain

        return explain(arguments)
    if arguments.action == "drain":
        from subord.services.machines.commands.draining import run as drain

        return drain(arguments)
    if arguments.action == "policy":
        from subord.services.machines.commands.checking import run as check

        return check(arguments)
    from subord.services.machines.commands import publishing

    return publishing.switch_off(arguments) if arguments.action == "off" else publishing.publish(arguments)
