"""`subord metrics`: figures of the cluster, with the number of nodes that each covers."""

from __future__ import annotations

import argparse

from subord.client import exit_codes
from subord.client.errors import CommandError
from subord.client.options import duration, whole_number
from subord.services.asking import add_asking_root

HISTORY_S_MIN, HISTORY_S_MAX = 30, 1800
FIGURES = ("mean", "least", "median", "greatest")
"""As in services/metrics/questions/words.py."""
OF_PLAN = ("plan", "set_plan", "plan_file", "reset_plan")


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the arguments."""
    parser = subparsers.add_parser(
        "metrics",
        help="show what the nodes of the cluster do",
        description="Print for each metric on how many nodes it is known, the sum, the least value, the median, the "
        "95 % quantile, and the greatest value with its node. Every node publishes its metrics once in ten seconds.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="only metrics of this name; * stands for any text")
    most = "the N nodes with the greatest values, at most 16"
    parser.add_argument("--top", type=whole_number(1, 16), metavar="N", help=most)
    text = "one row for the branch of each subordinate of the root; needs NAME, or --history"
    parser.add_argument("--by", choices=("branch",), help=text)
    _add_history(parser)
    _add_plan(parser)
    add_asking_root(parser)


def _add_history(parser: argparse.ArgumentParser) -> None:
    text = "how it has changed in this time, such as 10min; at most 30min. The root knows it since it is root"
    parser.add_argument("--history", type=_period, metavar="TIME", help=text)
    text = "the figure that --history shows, over the nodes (default: mean)"
    parser.add_argument("--of", choices=FIGURES, help=text)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    from subord.client.orders.signing import add_key_option

    found = parser.add_argument_group("which metrics the cluster carries, instead of NAME")
    found.add_argument("--plan", action="store_true", help="show it")
    text = "have all nodes carry the metrics that fit these names; * stands for any text, @usual for the usual ones"
    found.add_argument("--set-plan", metavar="PATTERN", nargs="*", action="extend", help=text)
    text = "the same with the patterns of a file, one a line; - is standard input"
    found.add_argument("--plan-file", metavar="FILE", help=text)
    found.add_argument("--reset-plan", action="store_true", help="have all nodes carry the usual metrics again")
    text = "say what would be published, and whether this node would take it; nothing is changed"
    found.add_argument("--dry-run", action="store_true", help=text)
    add_key_option(parser)


def _period(text: str) -> float:
    seconds = duration(text)
    if HISTORY_S_MIN <= seconds <= HISTORY_S_MAX:
        return seconds
    raise argparse.ArgumentTypeError(f"must be a time from 30s to 30min, not {text!r}: nodes keep no more")


def run(arguments: argparse.Namespace) -> int:
    """Prints what is asked for, and the coverage; returns OK if it is whole. Raises CommandError."""
    _check(arguments)
    if any(getattr(arguments, each) not in (None, False) for each in OF_PLAN):
        from subord.services.metrics.plan.publishing import run as run_plan

        return run_plan(arguments)
    if arguments.history is not None:
        from subord.services.metrics.past.showing import run as show_past

        arguments.of = arguments.of or FIGURES[0]
        return show_past(arguments)
    if arguments.by:
        from subord.services.metrics.branches.showing import run as show_branches

        return show_branches(arguments)
    from subord.services.metrics.table.showing import run as show

    return show(arguments)


def _check(arguments: argparse.Namespace) -> None:
    """Raises CommandError when words do not go together."""
    plans = [f"--{each.replace('_', '-')}" for each in OF_PLAN if getattr(arguments, each) not in (None, False)]
    asking = [f"--{each}" for each in ("top", "by", "history", "of") if getattr(arguments, each) is not None]
    if arguments.name is not None and not arguments.name:
        raise _error("NAME is empty; leave it out for all metrics")
    if plans and (arguments.name is not None or asking):
        raise _error(f"{plans[0]} takes neither NAME nor {asking[0] if asking else 'other options of figures'}")
    if len(plans) > 1 and set(plans) != {"--set-plan", "--plan-file"}:
        raise _error(f"{plans[0]} and {plans[1]} do not go together")
    changes = [each for each in plans if each != "--plan"]
    if (arguments.dry_run or arguments.operator_key) and not changes:
        raise _error("--dry-run and --key are for --set-plan, --plan-file and --reset-plan")
    if arguments.of is not None and arguments.history is None:
        raise _error("--of says which figure --history shows")
    if arguments.top is not None and len(asking) > 1:
        raise _error(f"--top and {asking[1]} do not go together")
    if arguments.by and arguments.history is None and arguments.name is None:
        raise _error("--by branch needs NAME, such as node_load1")


def _error(text: str) -> CommandError:
    return CommandError(f"{text}; nothing was asked, and nothing was changed", exit_codes.USAGE)
