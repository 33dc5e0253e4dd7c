"""`subord exec`: runs a command on nodes, and shows what it printed and how it ended on each."""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import TIMEOUT_S, add_names, add_socket
from subord.client.orders.signing import add_key_option
from subord.services.exec.words import NOTHING, add_targets, add_time, batch

TIME_S = 3600.0
EXIT_CODES = "exit codes: 0 if the command ended with 0 on every node, else 1; with -S the highest one of all nodes"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "exec",
        help="run a command on nodes",
        description="Run a command on nodes, and print what it writes there, with the name of the node before each "
        "line. An operator signs the order, and the agent of each node carries it out as its policy allows. Ctrl-C "
        "ends the command on all nodes.",
        epilog=EXIT_CODES,
        usage="subord exec (-w NODES | -g GROUP | --below NODE | --state STATE | -a | -x NODES) [OPTION ...]\n"
        "                   [--] COMMAND [ARGUMENT ...]",
    )
    add_targets(parser)
    parser.add_argument("words", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command and its arguments")
    _add_task(parser)
    _add_output(parser)
    _add_actions(parser)
    parser.add_argument(
        "--batch", metavar="N|N%", type=batch, help="in waves of N nodes; stop after the first wave with a failure"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="ask the nodes whether they would run it, and why not; nothing is run"
    )
    add_key_option(parser)
    add_names(parser)
    parser.add_argument(
        "--receipts", action="store_true", help="have each node sign its result; results are shown at the end"
    )
    add_socket(parser)
    parser.set_defaults(timeout=TIMEOUT_S)


def _add_task(parser: argparse.ArgumentParser) -> None:
    found = parser.add_argument_group("the command")
    found.add_argument("-u", "--user", default="root", help="the user that it runs as (default: root)")
    add_time(found, "end it on a node", TIME_S)
    found.add_argument("--shell", action="store_true", help="COMMAND is one word, which /bin/sh -c runs")
    found.add_argument("--chdir", metavar="DIRECTORY", default="", help="where it runs (default: the user's home)")
    text = "set a variable of its environment; may be repeated"
    found.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help=text)
    text = "give it no input (default: what is piped into this command, at most some 30 kB)"
    found.add_argument("-n", "--no-stdin", action="store_true", help=text)


def _add_output(parser: argparse.ArgumentParser) -> None:
    found = parser.add_argument_group("output")
    found.add_argument("-b", "--gather", action="store_true", help="at the end, equal output of many nodes once")
    found.add_argument("-q", "--quiet", action="store_true", help="no line about nodes when all went well")
    found.add_argument("-S", "--max-code", action="store_true", help="exit with the highest exit code of the nodes")
    found.add_argument("--json", action="store_true", help="print a JSON object for each node, and one for all")


def _add_actions(parser: argparse.ArgumentParser) -> None:
    found = parser.add_argument_group("earlier orders, instead of COMMAND").add_mutually_exclusive_group()
    found.add_argument(
        "--list", action="store_true", help="show the commands that run on the nodes (default: on all)"
    )
    found.add_argument("--cancel", metavar="TAG", help="end the command of this order on the nodes (default: on all)")
    found.add_argument(
        "--attach",
        metavar="TAG",
        help="show the results of a command that was given on this node, in another terminal; needs root",
    )
    text = "print the whole output that NODE has kept of an earlier order"
    found.add_argument("--fetch", metavar=("TAG", "NODE"), nargs=2, help=text)


def run(arguments: argparse.Namespace) -> int:
    """Prints the output of all nodes, and which nodes that covers; returns the exit code of EXIT_CODES."""
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if arguments.fetch is not None or arguments.list or arguments.cancel is not None or arguments.attach is not None:
        from subord.services.exec.earlier import act

        return act(arguments)
    if not words:
        raise CommandError(f"say which command: subord exec -w NODES -- COMMAND; {NOTHING}", exit_codes.USAGE)
    from subord.services.exec.running import run as run_words

    return run_words(arguments, words)
