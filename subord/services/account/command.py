"""`subord account`: writes records of jobs, sums them up on a sink, and shows what waits."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from subord.client.options import add_asking, add_json
from subord.services.account.words import BY, CONFIG, KINDS
from subord.services.asking import add_asking_nodes

JOB = {
    "ID": {"id": "the id of the job in the batch system"},
    "TEXT": {
        "user": "the user whose job it is",
        "group": "the group of the user",
        "account": "the account or project that pays",
        "queue": "the queue or partition",
        "cluster": "the batch system, if a database has jobs of several",
        "host": "the host that it ran on (default: this node)",
    },
    "TIME": {
        "submitted": "when it was submitted",
        "started": "when it began",
        "ended": "when it ended (default: now)",
    },
    "NUMBER": {
        "status": "its exit status, 0 to 255",
        "signal": "the signal that ended it; 0: none",
        "slots": "the slots or CPUs that it had (default: 1)",
        "cpu-user-s": "CPU seconds in user mode",
        "cpu-system-s": "CPU seconds in the kernel",
        "rss-bytes": "the most memory that it had at once; with K, M or G in units of 1024",
    },
}
"""The options of a record, by what they take."""
PERIOD = {
    "TIME": {
        "since": "jobs that ended then or later (default: all)",
        "until": "jobs that ended earlier (default: all)",
    }
}


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "account",
        help="keep and sum up records of jobs",
        description="Write records of jobs on any node. The ledger carries each of them to a database of the "
        "cluster, once. Sum them up there, and show which records wait on the way (docs/accounting.md).",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_add(actions)
    _add_report(actions)
    text = "show which records wait on which nodes, and which nodes are sinks"
    status = actions.add_parser("status", help=text, description=f"{text[0].upper()}{text[1:]}.")
    add_asking_nodes(status)


def _add_add(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "add",
        help="write records of jobs",
        description="Write a record of a job to the daemon of this node, or many from standard input. When it says "
        "that a record is accepted, the record is on the disk of this node. Times are seconds since 1970, UTC. An "
        "option without text counts as absent. Only root and the user of the daemon may write.",
        epilog="exit codes: 0 if all records are accepted; 2 if one is wrong, and none is kept; 69 if there is no "
        "daemon, or it breaks off; 75 if the spool is full or fails, or the daemon does not answer in time",
    )
    found = parser.add_argument_group("the job")
    _add_options(found, JOB)
    text = "a label, such as gpu=a100; may be repeated, up to 16 times"
    found.add_argument("--label", metavar="NAME=VALUE", action="append", default=[], help=text)
    many = parser.add_argument_group("many jobs")
    text = "read records from standard input, one JSON object per line"
    many.add_argument("--stdin", action="store_true", help=text)
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing on success")
    add_asking(parser)


def _add_options(place: argparse._ActionsContainer, options: Mapping[str, Mapping[str, str]]) -> None:
    """Those of a table such as JOB."""
    for metavar, texts in options.items():
        for name, text in texts.items():
            place.add_argument(f"--{name}", metavar=metavar, help=text)


def _add_report(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = actions.add_parser(
        "report",
        help="sum up the records of a sink",
        description="Sum up the records of jobs that ended in a period, from the database of a sink, which is not "
        "changed. A record that several databases have counts once.",
        epilog="A TIME is a date such as 2026-11-01, a date with a time such as 2026-11-01T12:30 (UTC, unless it "
        "ends in a zone such as +01:00), or how long ago, such as 7d or 12h.",
    )
    text = "one row for each (default: user); a day is that of the end, in UTC"
    parser.add_argument("--by", choices=BY, default="user", help=text)
    _add_options(parser, PERIOD)
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="the kind of the records (default: job)")
    text = "the file or URL of a database of records; may be repeated (default: ledger.sink of the configuration)"
    parser.add_argument("--database", metavar="PLACE", action="append", default=[], help=text)
    text = f"the configuration that names ledger.sink (default: {CONFIG})"
    parser.add_argument("--config", metavar="FILE", help=text)
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--csv", action="store_true", help="print rows of CSV; what they cover goes to standard error")


def run(arguments: argparse.Namespace) -> int:
    """Does the requested action. Raises CommandError."""
    if arguments.action == "add":
        from subord.services.account.adding import run as add_records

        return add_records(arguments)
    if arguments.action == "report":
        from subord.services.account.reporting import run as report

        return report(arguments)
    from subord.services.account.status import run as show

    return show(arguments)
