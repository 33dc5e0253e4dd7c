"""`subord transfer`: jobs cross between this cluster and another one, by transfer queues."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from subord.client.options import add_asking, add_json, add_names, whole_number
from subord.services.asking import TIMEOUT_S, add_asking_nodes

CHECK: Final = "show what would be published, and whether this node would accept it; change nothing"
FOLDER: Final = "/etc/subord/transfer"
JOB_CHARS_MAX: Final = 20
SLOTS: Final = 40
"""As in the text."""

_WANTED: Final = "0 if the agent has noted it, 1 if the job is not known or the agent does not answer"
_METHODS: Final[Mapping[str, tuple[str, tuple[str, str | None, str] | None, str]]] = {
    "start": (
        "the starter method, which sends the job and ends as it has ended in the other cluster",
        ("WORD", "...", "the words of the job, as Grid Engine gives them"),
        "those of the job, 99 if it is to wait again, 100 if it is to be in error",
    ),
    "suspend": ("the suspend method, which suspends the job in the other cluster", None, _WANTED),
    "resume": ("the resume method, which resumes the job in the other cluster", None, _WANTED),
    "terminate": (
        "the terminate method, which deletes the job in the other cluster",
        ("PID", "?", "the process of the job, for whose end it waits up to 30 s"),
        _WANTED,
    ),
    "sensor": (
        "the load sensor, which tells how many jobs wait in the other cluster",
        ("NAME", None, "the complex of the load sensor"),
        "0",
    ),
}
"""What a method does, what follows its options, and its exit codes."""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "transfer",
        help="let jobs cross between this cluster and another one",
        description="Jobs in a transfer queue of this cluster run in another cluster, and its jobs run here, within "
        "the limits of a plan that an operator of each cluster publishes. The transfer host of each plan has "
        "transfer.batch in its configuration.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_key(actions)
    _add_plan(actions)
    text = "end the plan: no job crosses; jobs that are away run on, and their ends come when there is a plan again"
    off = actions.add_parser("off", help=text, description=f"{text[0].upper()}{text[1:]}.")
    off.epilog = "exit codes: 0 if the plan is ended, 1 if another operator has published at the same time"
    off.add_argument("--check", dest="dry_run", action="store_true", help=CHECK)
    _add_publishing(off, "time for the daemon to answer")
    _add_setup(actions)
    text = "show the plan, the link, how many jobs cross, and the nodes that do not follow the plan"
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)
    status.epilog = (
        "NODES limits the states of nodes that are shown below. exit codes: 0 if every node answered and follows the "
        "plan, or the plan is ended, and the transfer host reaches its batch system and the other cluster, listens "
        "if jobs are to come, its load sensor asks, its key is in use, and its unit of systemd lacks no line; 1 if "
        "not"
    )
    _add_jobs(actions)
    _add_methods(actions)


def _add_key(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "key",
        help="print the certificate of this transfer host, for the plan of the other cluster; make it at first",
        description="Print the certificate of this node for the plan of the other cluster. Without a key in "
        "transfer.key it is made. A key that is there is never replaced.",
        epilog="exit codes: 0 if the certificate is printed, 78 if the key cannot be made or read",
    )
    parser.add_argument("--file", metavar="PATH", help="the file of the key (default: transfer.key of this node)")
    add_json(parser)
    add_asking(parser)


def _add_plan(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "plan",
        help="publish which jobs may leave and come, and who the other cluster is",
        description="Publish a plan, a file in TOML or JSON: the transfer host, the other cluster with its addresses "
        "and certificates, the transfer queues, limits, and tables of users and requests. The command first asks the "
        "transfer host whether it has a batch system.",
        epilog="exit codes: 0 if the plan is published; 1 if another operator has published at the same time. With "
        "the following codes nothing is changed: 2 if the plan is wrong, 75 if the transfer host does not answer, 78 "
        "if it has no batch system",
    )
    parser.add_argument("file", metavar="FILE", help="the plan; `-`: standard input")
    text = "the transfer host (default: `host` of FILE, else that of the last plan, else this node)"
    parser.add_argument("--host", metavar="NODE", help=text)
    parser.add_argument("--check", dest="dry_run", action="store_true", help=CHECK)
    text = "publish the plan even if the transfer host cannot follow it, or does not answer"
    parser.add_argument("--force", action="store_true", help=text)
    _add_publishing(parser, "time for the nodes to answer")
    add_names(parser)


def _add_publishing(parser: argparse.ArgumentParser, timeout: str) -> None:
    from subord.client.orders.signing import add_key_option

    add_key_option(parser)
    add_json(parser)
    add_asking(parser, TIMEOUT_S, timeout)


def _add_setup(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "setup",
        help="print or apply the settings of the batch system for the transfer queues of the plan",
        description="Print what a cell of Grid Engine needs for the transfer queues of the plan: queues, complexes, "
        "the load sensor and the scripts of the methods. Give the command on the transfer host. With --apply or "
        "--remove it tells Grid Engine, as root and manager; what is as wanted stays as it is. With Slurm it prints "
        "lines of slurm.conf and files, and writes or removes the files alone, by --slots, --host and --folder.",
        epilog="exit codes: 0 if it is printed or done, 1 if Grid Engine refuses or does not answer, 78 if there is "
        "no plan with transfer queues, or no batch system, or if --apply is given numbers of --gids that groups have",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--apply", action="store_true", help="tell Grid Engine, and write the scripts")
    how.add_argument("--remove", action="store_true", help="take it away again; queues with jobs stay")
    text = f"jobs of a transfer queue at a time; a quarter of the slots of the other cluster (default: {SLOTS})"
    parser.add_argument("--slots", metavar="N", type=whole_number(1), default=SLOTS, help=text)
    text = "jobs that may wait in the other cluster while it is idle (default: idle_pending_max of the plan)"
    parser.add_argument("--idle", metavar="N", type=whole_number(), help=text)
    text = "a queue whose jobs stay at home; may be repeated (default: all.q)"
    parser.add_argument("--other", dest="others", metavar="QUEUE", action="append", help=text)
    text = "a parallel environment whose jobs may leave; may be repeated (default: none)"
    parser.add_argument("--parallel", metavar="NAME", action="append", default=[], help=text)
    text = (
        "free numbers of groups for the jobs of the transfer host, at least one for each job; may be several ranges "
        "with commas; sets its gid_range"
    )
    parser.add_argument("--gids", metavar="FIRST-LAST", type=_gids, help=text)
    text = "the transfer host as Grid Engine names it (default: the name of this host)"
    parser.add_argument("--host", metavar="HOST", help=text)
    text = f"the directory of the scripts on this host (default: {FOLDER})"
    parser.add_argument("--folder", metavar="DIR", default=FOLDER, help=text)
    add_json(parser)
    add_asking(parser)


def _gids(text: str) -> str:
    """As Grid Engine has it. Raises ArgumentTypeError."""
    from subord.services.transfer.cells.gridengine.settings import GID_MAX, GID_MIN, gids_text, ranges_in

    ranges = ranges_in(text)
    if ranges is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form FIRST-LAST, or several of it with commas")
    if ranges[0][0] < GID_MIN or ranges[-1][-1] > GID_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} must be numbers from {GID_MIN} to {GID_MAX}")
    return gids_text(ranges)


def _add_jobs(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "list the jobs that cross, in both directions, with their numbers in both clusters; tell all of one"
    parser = actions.add_parser(
        "jobs",
        help=text,
        description=f"{text[0].upper()}{text[1:]}, with what it has used. Those that need a person come first.",
        epilog="exit codes: 0 if the transfer host has answered or there is no plan in force, 1 if it has not, or "
        "does not know the job",
    )
    about_job = "this job alone, by its number in this cluster, also if it has ended lately; with .TASK one task"
    parser.add_argument("job", metavar="JOB", nargs="?", type=job_number, help=about_job)
    about_over = "also the last jobs of this cluster that have ended, or have come back, since the agent has the plan"
    parser.add_argument("--ended", action="store_true", help=about_over)
    text = "only jobs of this user of this cluster"
    parser.add_argument("-u", "--user", metavar="USER", help=text)
    parser.add_argument("--way", choices=("leaves", "comes"), help="only jobs of this direction")
    add_json(parser)
    add_names(parser)
    add_asking(parser, TIMEOUT_S, "time for the transfer host to answer")


def job_number(word: str) -> tuple[str, int | None]:
    """The number of a job, and its task. Raises ArgumentTypeError."""
    job, dot, task = word.partition(".")
    if not (word.isascii() and job.isalnum() and len(job) <= JOB_CHARS_MAX) or (dot and not task.isdecimal()):
        raise argparse.ArgumentTypeError(f"{word!r} must be the number of a job, such as 4711 or 4711.3")
    return job, int(task) if dot else None


def _add_methods(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """For their help alone: they start without this parser (services.METHODS)."""
    for method, (text, rest, codes) in _METHODS.items():
        parser = actions.add_parser(
            method,
            help=f"run by Grid Engine: {text}",
            description=f"{text[0].upper()}{text[1:]}. Grid Engine runs it, by a script of `subord transfer setup`.",
            epilog=f"exit codes: {codes}",
        )
        about_socket = "the socket of the agent (transfer.socket), as the first option"
        parser.add_argument("--socket", metavar="PATH", required=True, help=about_socket)
        if rest:
            name, nargs, meaning = rest
            parser.add_argument(name.lower(), metavar=name, nargs=nargs, help=meaning)


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    match arguments.action:
        case "status":
            from subord.services.transfer.commands.status import run as show

            return show(arguments)
        case "jobs":
            from subord.services.transfer.commands.jobs import run as listed

            return listed(arguments)
        case "setup":
            from subord.services.transfer.commands.setting_up import run as set_up

            return set_up(arguments)
        case "key":
            from subord.services.transfer.commands.key import run as printed

            return printed(arguments)
        case _:
            from subord.services.transfer.commands import publishing

            return publishing.switch_off(arguments) if arguments.action == "off" else publishing.publish(arguments)
