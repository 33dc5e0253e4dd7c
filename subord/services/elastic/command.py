"""`subord elastic`: publishes how a cluster grows and shrinks with its queue, and shows what is decided and done."""

from __future__ import annotations

import argparse
from typing import Final

from subord.client.options import add_asking, add_json, add_names, whole_number
from subord.services.asking import TIMEOUT_S, add_asking_nodes
from subord.services.elastic import COLUMNS, PLOTS

OFF: Final = "off"
"""Of --idle and --lasts, which stand for themselves then."""
POLL_S: Final = 5.0
DRY_RUN: Final = "say what would be published, and whether this node would accept it; nothing is changed"
ANSWERED: Final = "exit codes: 0 if the queue's node has answered or there is no plan in force, 1 if it has not"


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "elastic",
        help="let the cluster grow and shrink with the queue of its batch system",
        description="Add nodes while jobs of a batch system wait for long, and remove nodes that are idle. The node "
        "that has the queue decides by a plan that an operator publishes; it has elastic.batch in its configuration.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_set(actions)
    text = "publish that the cluster does not grow and shrink: nodes stay as they are"
    off = actions.add_parser("off", help=text, description=f"{text[0].upper()}{text[1:]}.")
    off.epilog = (
        "The next `subord elastic set` keeps the options. exit codes: 0 if this is published, 1 if another operator "
        "has published at the same time"
    )
    _add_publishing(off, "time for the daemon to answer")
    text = (
        "show the queue, the size of the cluster, what is added and removed, and which nodes do not follow the plan"
    )
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)
    status.epilog = (
        "With NODES only the states of these nodes are shown, below those of the queue. exit codes: 0 if every node "
        "answered and follows the plan, also when it is off, 1 if one did not"
    )
    _add_asking_manager(actions, "why", "explain the last decision: why nodes are added or not, removed or stay")
    _add_poll(actions)
    _add_asking_manager(actions, "nodes", "list the nodes of the cluster with their stages, jobs and paid hours")
    _add_statistics(actions)


def _add_poll(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "have this node, which has the queue, look at it now instead of at its next poll"
    parser = actions.add_parser(
        "poll",
        help=text,
        description=f"{text[0].upper()}{text[1:]}, but not within 2 s after the last look. For ResumeProgram and "
        "SuspendProgram of Slurm, which need not come through: each poll asks Slurm which nodes it wants.",
        epilog="exit codes: 0 if its agent is told so, 1 if this node adds and removes no nodes",
    )
    parser.add_argument("hosts", nargs="*", metavar="HOSTLIST", help="what Slurm gives its programs; it is not used")
    add_json(parser)
    add_asking(parser, POLL_S, "time for the daemon to answer")


def _add_set(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "set",
        help="publish when nodes are added and removed, and what an added node gets",
        description="Publish the plan: how large the cluster may be, when nodes are added and removed, and what an "
        "added node gets. What is not given stays as in the plan before. First the queue's node is asked whether it "
        "has a batch system.",
        epilog="exit codes: 0 if the plan is published; 1 if another operator has published at the same time; 2 if "
        "an option is wrong, 75 if the queue's node does not answer, 78 if it has no batch system, and then nothing "
        "is changed",
    )
    text = "the node that has the queue (default: as before, at first this node)"
    parser.add_argument("--manager", metavar="NODE", help=text)
    _add_sizes(parser)
    _add_times(parser)
    _add_parts(parser)
    text = "publish it although the queue's node has no batch system, or does not answer"
    parser.add_argument("--force", action="store_true", help=text)
    _add_publishing(parser, "time for the nodes to answer")
    add_names(parser)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    _add_number(parser, "max_nodes", "N", "most nodes of the cluster, with its master; the first plan needs it", "-m")
    _add_number(parser, "min_nodes", "N", "fewest nodes of the cluster (at first 1)", "-n")
    text = "most nodes that are added at once (at first 1)"
    _add_number(parser, "add_nodes_per_iter", "N", text, "-a", "--add_nodes_per_iteration")
    text = "when no job waits or runs and only the master is left, end it too"
    parser.add_argument("-K", "--kill-cluster", action=argparse.BooleanOptionalAction, help=text)


def _add_times(parser: argparse.ArgumentParser) -> None:
    text = "seconds between two looks at the queue, 5 to 300 (at first 60)"
    _add_number(parser, "interval", "SECONDS", text, "-i", unit="s")
    text = "add nodes when a job has waited for more than this many seconds (at first 900)"
    _add_number(parser, "job_wait_time", "SECONDS", text, "-w", unit="s")
    text = "remove an idle node from this minute of its paid hour on, 0 to 59 (at first 45)"
    _add_number(parser, "kill_after", "MINUTES", text, "-k", unit="min")
    text = "seconds after a change in which no node is added or removed, at least 300 (at first 300)"
    _add_number(parser, "stabilization_time", "SECONDS", text, "-s", unit="s")
    text = "minutes of the past whose jobs count for averages (at first 180)"
    _add_number(parser, "lookback_window", "MINUTES", text, "-l", unit="min")
    text = "remove a node once it has been idle for this many minutes, at any minute of its hour (at first off)"
    parser.add_argument("--idle", dest="idle_min", metavar="MINUTES|off", type=_number_or_off, help=text)
    text = "add no node if the queue will be empty in fewer seconds than this (at first off)"
    parser.add_argument("--lasts", dest="lasts_s", metavar="SECONDS|off", type=_number_or_off, help=text)


def _add_parts(parser: argparse.ArgumentParser) -> None:
    text = "the queue of Grid Engine or the partition of Slurm that counts (at first all.q)"
    parser.add_argument("--queue", metavar="QUEUE", help=text)
    text = (
        "who says which nodes are added and removed: subord by the options above, or slurm by its power saving; "
        "then of these options --max_nodes and --interval count (at first subord)"
    )
    parser.add_argument("--decides", choices=("subord", "slurm"), help=text)
    text = "what the names of added nodes begin with, before their number (at first node)"
    parser.add_argument("--prefix", metavar="PREFIX", help=text)
    text = "the kinds of elastic.kinds that are added, the cheapest first, or `all` (at first all)"
    parser.add_argument("--kinds", metavar="KIND,KIND", help=text)
    text = "a user that each added node gets; may be repeated, and replaces the users before; `none`: no user"
    form = "NAME:UID:GROUP:GID:HOME[:SHELL]"
    parser.add_argument("--user", dest="users", metavar=form, action="append", help=text)
    text = (
        "a directory of the queue's node that each added node mounts; may be repeated, and replaces those before; "
        "`none`: no directory"
    )
    parser.add_argument("--mount", dest="mounts", metavar="SOURCE[:TARGET][:ro]", action="append", help=text)
    text = "write the names of added nodes into the hosts file of each node (at first yes); else DNS has them"
    parser.add_argument("--hosts", action=argparse.BooleanOptionalAction, help=text)
    text = "decide, and show what would be done, but do nothing (at first no)"
    parser.add_argument("--trial", action=argparse.BooleanOptionalAction, help=text)


def _add_number(
    parser: argparse.ArgumentParser, word: str, value: str, text: str, letter: str, *more: str, unit: str = ""
) -> None:
    """An option with the name that the text gives it."""
    field = f"{word}_{unit}" if unit else word
    parser.add_argument(letter, f"--{word}", *more, dest=field, metavar=value, type=whole_number(), help=text)


def _add_statistics(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "statistics",
        help="show what the polls of the queue have seen, or write it to a CSV file and to pictures",
        description="Show the statistics of the last polls of the queue, a line each: "
        f"{', '.join(COLUMNS)}. Times are UTC, averages of jobs are seconds. Give the command at the queue's node, "
        "which keeps the last 2,000 polls. With -d the lines are appended to a file, each once; with -p pictures are "
        f"drawn of the lines of the file, without -d of the polls that the node keeps: {', '.join(PLOTS)}, a PNG "
        "file each.",
        epilog="Files go to ~/.local/share/subord/elastic/CLUSTER unless -D or -P is given, below $XDG_DATA_HOME if "
        "that is set; CLUSTER is cluster.name. This differs from StarCluster, whose files go to "
        "$HOME/.starcluster/sge. exit codes: 0 if everything is written, 74 if a file cannot be written",
    )
    parser.add_argument("-d", "--dump-stats", action="store_true", help="append the lines to a CSV file")
    text = "the file, made with its folder if it is not there; means -d too (default: elastic-stats.csv)"
    parser.add_argument("-D", "--dump-stats-file", metavar="FILE", help=text)
    text = "draw pictures; needs Matplotlib (pip install 'subord[plots]')"
    parser.add_argument("-p", "--plot-stats", action="store_true", help=text)
    text = "the folder of the pictures, made if it is not there; means -p too"
    parser.add_argument("-P", "--plot-output-dir", metavar="DIR", help=text)
    text = "continue with each poll until Ctrl-C; pictures are drawn again"
    parser.add_argument("--follow", "-f", action="store_true", help=text)
    add_json(parser)
    add_asking(parser)


def _add_publishing(parser: argparse.ArgumentParser, timeout: str) -> None:
    from subord.client.orders.signing import add_key_option

    parser.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    add_key_option(parser)
    add_json(parser)
    add_asking(parser, TIMEOUT_S, timeout)


def _add_asking_manager(actions: argparse._SubParsersAction[argparse.ArgumentParser], word: str, text: str) -> None:
    parser = actions.add_parser(word, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=ANSWERED)
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the queue's node to answer")


def _number_or_off(text: str) -> int | str:
    return text if text == OFF else whole_number()(text)


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    if arguments.action == "status":
        from subord.services.elastic.commands.status import run as show

        return show(arguments)
    if arguments.action == "why":
        from subord.services.elastic.commands.why import run as explain

        return explain(arguments)
    if arguments.action == "poll":
        from subord.services.elastic.commands.polling import run as poll

        return poll(arguments)
    if arguments.action == "nodes":
        from subord.services.elastic.commands.nodes import run as listed

        return listed(arguments)
    if arguments.action == "statistics":
        from subord.services.elastic.commands.statistics import run as written

        return written(arguments)
    from subord.services.elastic.commands import publishing

    return publishing.switch_off(arguments) if arguments.action == "off" else publishing.publish(arguments)
