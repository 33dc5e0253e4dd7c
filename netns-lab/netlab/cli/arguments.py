"""The command line of `netns-lab/lab`: which commands there are, and their options.

Those of evaluations have a module of their own, which imports experiments: it is read for `evaluate` only.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netlab.cli.options import (
    OF_LAB,
    Commands,
    Parser,
    above_zero,
    add_one_size,
    add_seconds,
    add_several,
    command,
    from_zero,
    number_that,
    numbers,
    positive,
    ranges,
    words,
)
from netlab.processes.releases import PRESENT, PREVIOUS
from netlab.topology.addresses import NETWORK
from netlab.topology.layout import JOBS_PER_HOUR_MAX

DESCRIPTION = "A cluster of real subord daemons on this machine, each in a network namespace of its own."
ORDERS = ("together", "random", "reverse")
RUN_EXIT_CODES = """\
exit codes (those of `subord simulate` differ, see docs/scenarios.md):
    0  everything held
    1  a file or the lab is at fault
    2  the command line is wrong
    3  an expectation did not hold
    4  cannot be played here; nothing was started
  130  interrupted (Ctrl-C)
"""


def parser(arguments: Sequence[str]) -> Parser:
    """For these arguments; `do` is the name of the command, `what` that of an evaluation."""
    whole = Parser(prog="lab", description=DESCRIPTION)
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="do")
    _add_labs(commands)
    _add_measurements(commands)
    found = command(commands, "evaluate", "the paper's tests, run again (docs/evaluation.md)")
    if "evaluate" in arguments:
        from netlab.cli import evaluations

        evaluations.add(found.add_subparsers(required=True, metavar="TEST", dest="what"))
    return whole


def _add_labs(commands: Commands[Parser]) -> None:
    """What acts on a lab that stays."""
    found = command(commands, "up", "raise a lab and leave it running", "--name", *OF_LAB)
    found.add_argument("--nodes", type=int, help="how many; with a layout file: the first of it")
    found.add_argument("--fanout", type=int, default=2, help="fan-out p")
    found.add_argument("--start", choices=ORDERS, default="together", help="order of starting")
    found.add_argument("--foreground", action="store_true", help="stay, and end the lab on Ctrl-C")
    wheel = "a wheel of another release, or a directory with its package"
    found.add_argument("--previous", type=Path, metavar="FILE", help=wheel)
    found.add_argument("--old", type=ranges, default=(), metavar="1,3,5-9", help="nodes that begin with it")
    classes = "classes of work: each node has an agent, and a cgroup for each class"
    found.add_argument("--classes", type=words, default=(), metavar="NAME,NAME...", help=classes)
    quota = "processors of each node for all its classes, such as 0.25 (default: no limit)"
    found.add_argument("--quota", type=from_zero, default=0.0, metavar="PROCESSORS", help=quota)
    command(commands, "down", "end a lab", "--name")
    command(commands, "status", "what the lab knows of its nodes", "--name")
    found = command(commands, "tree", "`subord tree` on the first live node", "--name")
    found.add_argument("options", nargs=argparse.REMAINDER, help="options of `subord tree`")
    found = command(commands, "exec", "run a command on a node: exec NODE -- COMMAND...", "--name")
    found.add_argument("node", help="position or address; `wire`: where the bridges are, which all traffic passes")
    found.add_argument("command", nargs=argparse.REMAINDER)
    found = command(commands, "kill", "send a signal to a node's daemon", "--name", "node")
    found.add_argument("--signal", type=int, default=int(signal.SIGKILL), metavar="NUMBER")
    found = command(commands, "start", "start a node's daemon", "--name", "node")
    releases = "of this release from now on; default: as before"
    found.add_argument("--release", choices=(PRESENT, PREVIOUS), help=releases)
    again = "give a node another performance, which it reads again (SIGHUP)"
    found = command(commands, "perform", again, "--name", "node")
    jobs = number_that(lambda n: 0 < n <= JOBS_PER_HOUR_MAX, f"is not above 0 and at most {JOBS_PER_HOUR_MAX:g}")
    found.add_argument("jobs", type=jobs, help="jobs an hour")
    busy = "give a class of a node work that never ends, in a lab with --classes"
    found = command(commands, "load", busy, "--name", "node")
    found.add_argument("class_name", metavar="CLASS")
    found.add_argument("--stop", action="store_true", help="no work from now on")
    command(commands, "cut-site", "cut a site off from all others", "--name", "site")
    command(commands, "mend-site", "put it back", "--name", "site")
    found = command(commands, "traffic", "what has crossed from site to site", "--name")
    found.add_argument("--json", action="store_true", help="for programs")
    found = command(commands, "tremble", "delays between sites become longer and shorter, again and again", "--name")
    share = number_that(lambda n: 0 <= n < 1, "is not from 0 to below 1")
    found.add_argument("share", type=share, help="by how much of their own at the most, such as 0.3; 0: no longer")
    command(commands, "edges", "edges of the tree by the sites of their ends", "--name")


def _add_measurements(commands: Commands[Parser]) -> None:
    """What raises labs of its own."""
    found = command(commands, "stabilise", "measure how fast a stable tree forms, and its cost", *OF_LAB)
    found.add_argument("--nodes", type=numbers, required=True, metavar="N,N...")
    found.add_argument("--fanout", type=numbers, default=(2,), metavar="P,P...")
    add_several(found, "--start", ORDERS, "ORDER,...", default=("together",))
    found.add_argument("--repeat", type=positive, default=1, help="runs of each combination")
    add_seconds(found, "--rest", 10.0, "how long to measure at rest; 0: not", from_zero, dest="rest_s")
    add_seconds(found, "--timeout", 60.0, "longest wait for stability", dest="timeout_s")
    add_seconds(found, "--quiet", 3.0, "no node may move for so long (not counted)", from_zero, dest="quiet_s")
    found.add_argument("--arp", action="store_true", help="count ARP requests and IPv6 neighbour solicitations")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    how = "kill and restart daemons, measure how the tree heals"
    found = command(commands, "heal", how, "--json", "--rootless")
    add_one_size(found, 100, 2)
    add_several(found, "--way", ("kill", "cut"), "kill,cut", "kill -9, or the cable too")
    found.add_argument("--times", type=positive, default=5, help="interior nodes per way; root and leaf once each")
    found.add_argument("--seed", type=int, default=1, help="chooses the victims")
    found = command(commands, "scan", "what a full scan asks by ARP, for comparison", "--json", "--rootless")
    found.add_argument("--nodes", type=positive, default=10, metavar="N", help="hosts; the last one scans")
    found.add_argument("--network", default=NETWORK, help="as for `up`")
    found.add_argument("--per-s", type=above_zero, default=15.0, metavar="RATE", help="datagrams a second")
    add_seconds(found, "--seconds", 30.0, "how long")
    found = command(commands, "run", "play scenario files with real daemons", "--rootless", after=RUN_EXIT_CODES)
    found.add_argument("files", type=Path, nargs="+", metavar="FILE.toml", help="such as netns-lab/scenarios/*.toml")
    found.add_argument("--nodes", type=positive, metavar="N", help="in the place of the files' `cluster.nodes`")
    found.add_argument("--sites", type=Path, metavar="FILE.toml", help="play them there, as for `up`")
    found.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen there")
    found.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each scenario there")
    churn = "churn for a long time: does memory grow, or the tree?"
    found = command(commands, "soak", churn, "--seeds", "--json", "--rootless")
    add_one_size(found, 100, 2)
    found.add_argument("--minutes", type=positive, default=30)
    ended = "nodes ended a minute"
    found.add_argument("--percent-per-min", type=above_zero, default=10.0, metavar="SHARE", help=ended)
    found.add_argument("--layout", default="dense", help="as for `up`")
    found.add_argument("--seed", type=int, default=1, help="of the layout and the victims")
    command(commands, "demo", "a cluster forms, loses a node and heals, in a minute", "--rootless")
    about = "a cluster with a real Grid Engine grows with its queue and shrinks again, in some minutes"
    found = command(commands, "elastic", about)
    found.add_argument("--nodes", type=positive, default=5, metavar="N", help="most of them, with the queue's node")
    found.add_argument("--at-once", type=positive, default=2, metavar="N", help="nodes that are added at once")
    found.add_argument("--jobs", type=positive, default=12, metavar="N", help="how many are submitted")
    add_seconds(found, "--seconds", 20.0, "how long each job takes")
    about = "servers turn virtual machines on for a real Grid Engine, in some minutes"
    found = command(commands, "machines", about)
    found.add_argument("--servers", type=positive, default=3, metavar="N", help="how many, each with four cores")
    found.add_argument("--jobs", type=positive, default=10, metavar="N", help="how many are submitted")
    add_seconds(found, "--seconds", 15.0, "how long each job takes")


def of_lab(given: argparse.Namespace) -> dict[str, Any]:
    """What Lab is given of the command line, by the names of its parameters."""
    names = (how.get("dest", name[2:].replace("-", "_")) for name, how in OF_LAB.items())
    return {name: getattr(given, name) for name in names}
