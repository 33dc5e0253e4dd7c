"""The command line of `netns-lab/lab`: which commands and options there are, and which values they take."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable
from math import inf, isfinite
from pathlib import Path
from typing import Any

from netlab.accounting import experiment as accounting
from netlab.attack.insider import NAMES as NAMES_OF_LIES
from netlab.attack.insider import PLACES
from netlab.experiments.agent_faults import NAMES as NAMES_OF_FAULTS
from netlab.experiments.discovery import MODES
from netlab.mappings.experiment import PARTS, SITES
from netlab.peers.experiment import SYSTEMS
from netlab.processes.releases import PRESENT, PREVIOUS
from netlab.services import exec_experiment, files_experiment, metrics_experiment
from netlab.shares import experiment as shares
from netlab.topology.addresses import NETWORK, NODES_MAX
from netlab.topology.layout import JOBS_PER_HOUR_MAX, NAMES, SPREAD, SPREAD_MAX

DESCRIPTION = "A cluster of real subord daemons on this machine, each in a network namespace of its own."
MAPPINGS = ("ip", "performance", "latency")
TIMINGS = ("lan", "wan", "lab")
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

Commands = argparse._SubParsersAction
Parser = argparse.ArgumentParser


def parser() -> Parser:
    """Of `netns-lab/lab`; `do` is the name of the command, `what` that of an evaluation."""
    whole = Parser(prog="lab", description=DESCRIPTION)
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="do")
    _add_labs(commands)
    _add_measurements(commands)
    found = _command(commands, "evaluate", "the paper's tests, run again (docs/evaluation.md)")
    _add_evaluations(found.add_subparsers(required=True, metavar="TEST", dest="what"))
    return whole


class WithDefaults(argparse.RawDescriptionHelpFormatter):
    """Each option that has a default number or word shows it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """As argparse.ArgumentDefaultsHelpFormatter does, which shows those that say nothing, too."""
        text, default = action.help, action.default
        is_shown = isinstance(default, int | float | str) and not isinstance(default, bool)
        if not action.option_strings or not text or not is_shown or "default" in text or default == argparse.SUPPRESS:
            return text
        return f"{text} (default: {default:g})" if isinstance(default, float) else f"{text} (default: {default})"


def _command(commands: Commands[Parser], name: str, text: str, *shared: str, after: str | None = None) -> Parser:
    found = commands.add_parser(name, help=text, description=text, epilog=after, formatter_class=WithDefaults)
    for each in shared:
        found.add_argument(each, **SHARED[each])
    return found


def _add_labs(commands: Commands[Parser]) -> None:
    """What acts on a lab that stays."""
    found = _command(commands, "up", "raise a lab and leave it running", "--name", *OF_LAB)
    found.add_argument("--nodes", type=int, help="how many; with a layout file: the first of it")
    found.add_argument("--fanout", type=int, default=2, help="fan-out p")
    found.add_argument("--start", choices=ORDERS, default="together", help="order of starting")
    found.add_argument("--foreground", action="store_true", help="stay, and end the lab on Ctrl-C")
    wheel = "a wheel of another release, or a directory with its package"
    found.add_argument("--previous", type=Path, metavar="FILE", help=wheel)
    found.add_argument("--old", type=_ranges, default=(), metavar="1,3,5-9", help="nodes that begin with it")
    classes = "classes of work: each node has an agent, and a cgroup for each class"
    found.add_argument("--classes", type=_words, default=(), metavar="NAME,NAME...", help=classes)
    quota = "processors of each node for all its classes, such as 0.25 (default: no limit)"
    found.add_argument("--quota", type=_from_zero, default=0.0, metavar="PROCESSORS", help=quota)
    _command(commands, "down", "end a lab", "--name")
    _command(commands, "status", "what the lab knows of its nodes", "--name")
    found = _command(commands, "tree", "`subord tree` on the first live node", "--name")
    found.add_argument("options", nargs=argparse.REMAINDER, help="options of `subord tree`")
    found = _command(commands, "exec", "run a command on a node: exec NODE -- COMMAND...", "--name")
    found.add_argument("node", help="position or address; `wire`: where the bridges are, which all traffic passes")
    found.add_argument("command", nargs=argparse.REMAINDER)
    found = _command(commands, "kill", "send a signal to a node's daemon", "--name", "node")
    found.add_argument("--signal", type=int, default=int(signal.SIGKILL), metavar="NUMBER")
    found = _command(commands, "start", "start a node's daemon", "--name", "node")
    releases = "of this release from now on; default: as before"
    found.add_argument("--release", choices=(PRESENT, PREVIOUS), help=releases)
    again = "give a node another performance, which it reads again (SIGHUP)"
    found = _command(commands, "perform", again, "--name", "node")
    jobs = _number(lambda n: 0 < n <= JOBS_PER_HOUR_MAX, f"is not above 0 and at most {JOBS_PER_HOUR_MAX:g}")
    found.add_argument("jobs", type=jobs, help="jobs an hour")
    busy = "give a class of a node work that never ends, in a lab with --classes"
    found = _command(commands, "load", busy, "--name", "node")
    found.add_argument("class_name", metavar="CLASS")
    found.add_argument("--stop", action="store_true", help="no work from now on")
    _command(commands, "cut-site", "cut a site off from all others", "--name", "site")
    _command(commands, "mend-site", "put it back", "--name", "site")
    found = _command(commands, "traffic", "what has crossed from site to site", "--name")
    found.add_argument("--json", action="store_true", help="for programs")
    found = _command(commands, "tremble", "delays between sites become longer and shorter, again and again", "--name")
    share = _number(lambda n: 0 <= n < 1, "is not from 0 to below 1")
    found.add_argument("share", type=share, help="by how much of their own at the most, such as 0.3; 0: no longer")
    _command(commands, "edges", "edges of the tree by the sites of their ends", "--name")


def _add_measurements(commands: Commands[Parser]) -> None:
    """What raises labs of its own."""
    found = _command(commands, "stabilise", "measure how fast a stable tree forms, and its cost", *OF_LAB)
    found.add_argument("--nodes", type=_numbers, required=True, metavar="N,N...")
    found.add_argument("--fanout", type=_numbers, default=(2,), metavar="P,P...")
    _add_several(found, "--start", ORDERS, "ORDER,...", default=("together",))
    found.add_argument("--repeat", type=_positive, default=1, help="runs of each combination")
    _add_seconds(found, "--rest", 10.0, "how long to measure at rest; 0: not", _from_zero, dest="rest_s")
    _add_seconds(found, "--timeout", 60.0, "longest wait for stability", dest="timeout_s")
    _add_seconds(found, "--quiet", 3.0, "no node may move for so long (not counted)", _from_zero, dest="quiet_s")
    found.add_argument("--arp", action="store_true", help="count ARP requests and IPv6 neighbour solicitations")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    how = "kill and restart daemons, measure how the tree heals"
    found = _command(commands, "heal", how, "--json", "--rootless")
    _add_one_size(found, 100, 2)
    _add_several(found, "--way", ("kill", "cut"), "kill,cut", "kill -9, or the cable too")
    found.add_argument("--times", type=_positive, default=5, help="interior nodes per way; root and leaf once each")
    found.add_argument("--seed", type=int, default=1, help="chooses the victims")
    found = _command(commands, "scan", "what a full scan asks by ARP, for comparison", "--json", "--rootless")
    found.add_argument("--nodes", type=_positive, default=10, metavar="N", help="hosts; the last one scans")
    found.add_argument("--network", default=NETWORK, help="as for `up`")
    found.add_argument("--per-s", type=_above_zero, default=15.0, metavar="RATE", help="datagrams a second")
    _add_seconds(found, "--seconds", 30.0, "how long")
    found = _command(commands, "run", "play scenario files with real daemons", "--rootless", after=RUN_EXIT_CODES)
    found.add_argument("files", type=Path, nargs="+", metavar="FILE.toml", help="such as netns-lab/scenarios/*.toml")
    found.add_argument("--nodes", type=_positive, metavar="N", help="in the place of the files' `cluster.nodes`")
    found.add_argument("--sites", type=Path, metavar="FILE.toml", help="play them there, as for `up`")
    found.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen there")
    found.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each scenario there")
    churn = "churn for a long time: does memory grow, or the tree?"
    found = _command(commands, "soak", churn, "--seeds", "--json", "--rootless")
    _add_one_size(found, 100, 2)
    found.add_argument("--minutes", type=_positive, default=30)
    ended = "nodes ended a minute"
    found.add_argument("--percent-per-min", type=_above_zero, default=10.0, metavar="SHARE", help=ended)
    found.add_argument("--layout", default="dense", help="as for `up`")
    found.add_argument("--seed", type=int, default=1, help="of the layout and the victims")
    _command(commands, "demo", "a cluster forms, loses a node and heals, in a minute", "--rootless")
    about = "a cluster with a real Grid Engine grows with its queue and shrinks again, in some minutes"
    found = _command(commands, "elastic", about)
    found.add_argument("--nodes", type=_positive, default=5, metavar="N", help="most of them, with the queue's node")
    found.add_argument("--at-once", type=_positive, default=2, metavar="N", help="nodes that are added at once")
    found.add_argument("--jobs", type=_positive, default=12, metavar="N", help="how many are submitted")
    _add_seconds(found, "--seconds", 20.0, "how long each job takes")
    about = "servers turn virtual machines on for a real Grid Engine, in some minutes"
    found = _command(commands, "machines", about)
    found.add_argument("--servers", type=_positive, default=3, metavar="N", help="how many, each with four cores")
    found.add_argument("--jobs", type=_positive, default=10, metavar="N", help="how many are submitted")
    _add_seconds(found, "--seconds", 15.0, "how long each job takes")


def _add_evaluations(tests: Commands[Parser]) -> None:
    test = _test(tests, "discovery", "mapping against a full scan, and starts from disk", "10,20,30,40,50")
    _add_several(test, "--modes", MODES, "MODE,...")
    whole = "every change of the tree for half a minute"
    test = _test(tests, "stability", whole, "100,200,300,400,500", "--events")
    test.add_argument("--fanout", type=_numbers, default=(2, 8, 64), metavar="P,P...")
    _add_seconds(test, "--seconds", 30.0, "how long each run is recorded")
    test = _test(tests, "peers", "Serf and etcd, where they are installed, in the same lab", "20,50,100,200,300")
    _add_several(test, "--systems", SYSTEMS, "NAME,...")
    _test(tests, "sealing", "what the seal costs: sealed, and in the clear", "40,100")
    orders = "by latency at sites far apart, and by performance, with changes"
    test = _test(tests, "mappings", orders, "200", "--timing", "--events")
    test.add_argument("--fanout", type=_numbers, default=(2, 8), metavar="P,P...", help="default: 2,8 (README)")
    _add_several(test, "--parts", PARTS, "PART,...")
    four = "default: netns-lab/sites/four.toml"
    test.add_argument("--sites", type=Path, default=SITES, metavar="FILE.toml", help=four)
    _add_seconds(test, "--seconds", 600.0, "how long the jitter lasts")
    _add_seconds(test, "--rest", 60.0, "measured at rest", _from_zero, dest="rest_s")
    lowest = "an intruder without the key, which has the lowest address"
    test = _test(tests, "siege", lowest, "100", "--events", fanout=8)
    test.add_argument("--per-s", type=_above_zero, default=2000.0, metavar="RATE", help="datagrams a second, in all")
    _add_seconds(test, "--seconds", 20.0, "how long the attack lasts")
    lies = "a member that lies: no other node moves, and `subord errors` names it"
    test = _test(tests, "insider", lies, "100", "--events", fanout=2, repeat=1)
    _add_several(test, "--place", PLACES, "PLACE,...")
    _add_several(test, "--lies", NAMES_OF_LIES, "LIE,...")
    _add_seconds(test, "--seconds", 300.0, "how long the siege lasts, all lies together")
    wrong = "orders with effects while some agents cannot act, or the order is wrong"
    test = _test(tests, "agents", wrong, "300", "--events", fanout=2, repeat=3)
    test.add_argument("--at-once", type=_positive, default=75, metavar="N", help="agents that get an order together")
    _add_several(test, "--faults", NAMES_OF_FAULTS, "FAULT,...")
    once = "each live node runs a command of `subord exec` once, whatever happens to an interior node"
    test = _test(tests, "exec-rounds", once, "45", "--events", fanout=3, repeat=1)
    test.add_argument("--rounds", type=_positive, default=50, metavar="N")
    test.add_argument("--seed", type=int, default=1, help="of what the rounds draw")
    _add_services(tests)
    real = "the real one finds all nodes, and raises an alert when one dies"
    test = _test(tests, "prometheus", real, "100", fanout=8)
    times = _number(lambda n: 1 <= n <= 100, "is not from 1 to 100")
    test.add_argument("--shorten", type=times, default=1.0, metavar="TIMES", help="divide all its durations by it")
    _add_seconds(test, "--rest", 60.0, "measured at rest", _from_zero, dest="rest_s")


def _add_services(tests: Commands[Parser]) -> None:
    """Beside peers over ssh, where they are installed."""
    commands = "`subord exec` beside clush, pdsh and Serf, and under faults"
    test = _add_service(tests, "exec", commands, exec_experiment.PARTS)
    octets = "of all nodes together"
    test.add_argument(
        "--output-bytes", type=_positive, default=exec_experiment.OUTPUT_BYTES, metavar="N", help=octets
    )
    _add_seconds(test, "--rest", 30.0, "each measurement at rest", dest="rest_s")
    pushes = "`subord files push` beside clush and rsync, and while a node is killed"
    test = _add_service(tests, "files", pushes, files_experiment.PARTS)
    test.add_argument("--file-bytes", type=_positive, default=files_experiment.FILE_BYTES, metavar="N")
    once = "is each record of a job in a sink once, although nodes, roots and sinks are killed, and how late?"
    test = _test(tests, "accounting", once, "100", "--events", fanout=8, repeat=1)
    test.add_argument("--records", type=_positive, default=accounting.RECORDS, metavar="N", help="of all nodes")
    paced = "records a second, of all nodes"
    test.add_argument("--per-s", type=_above_zero, default=accounting.PER_S, metavar="RATE", help=paced)
    ended = "nodes killed a minute"
    test.add_argument("--percent-per-min", type=_from_zero, default=10.0, metavar="SHARE", help=ended)
    roots = "deaths of the root"
    test.add_argument("--root-kills", type=_positive, default=accounting.ROOT_KILLS, metavar="N", help=roots)
    test.add_argument("--seed", type=int, default=1, help="draws which nodes die, and when")
    divided = "shares of classes: with real cgroups and loads, their cost on many nodes, and faults"
    test = _test(tests, "shares", divided, "100", "--events", fanout=10, repeat=1)
    _add_several(test, "--only", shares.PARTS, "PART,...")
    rounds = "lengths of rounds (default: 0.3,1)"
    test.add_argument(
        "--round", dest="round_s", type=_lengths, default=shares.ROUNDS_S, metavar="S,S...", help=rounds
    )
    _add_seconds(test, "--seconds", 60.0, "of each measurement")
    test.add_argument("--times", type=_positive, default=2, help="pauses of a class; leaders killed, and cut off")
    grows = "a real Grid Engine with an execd on each node grows from its master to so many nodes, and shrinks"
    test = _test(tests, "elastic", grows, "100", fanout=8, repeat=1)
    test.add_argument("--at-once", type=_positive, default=10, metavar="N", help="nodes that a poll adds at most")
    queue = "virtual machines for a batch queue, on libvirt's test driver, with a real Grid Engine and without"
    test = _test(tests, "machines", queue, "25,50,100", fanout=8, repeat=3)
    test.add_argument(
        "--times", type=_positive, default=10, help="jobs of each row of the table of waits, in each run"
    )
    parts = "waits, order, window, sizes, deaths, head"
    test.add_argument("--only", type=_words, default=argparse.SUPPRESS, metavar="PART,...", help=parts)
    exchanged = "two clusters that exchange jobs while daemons die, beside the same apart, and one merged cell"
    test = _test(tests, "transfer", exchanged, "50", fanout=8, repeat=1)
    _add_several(test, "--cases", ("apart", "joined", "merged"), "CASE,...")
    _add_seconds(test, "--seconds", 1800.0, "how long jobs come")
    _add_seconds(test, "--job", 60.0, "how long a job runs", dest="job_s")
    _add_seconds(test, "--phase", 240.0, "after which the other cluster is the busy one", dest="phase_s")
    _add_seconds(test, "--every", 10.0, "between deaths in a tree, on the average", dest="every_s")
    beside = "metrics of the cluster: cost, age, values and deaths, with and without them, and beside Ganglia"
    test = _test(tests, "metrics", beside, "100,200,300,500", "--events", fanout=8, repeat=3)
    test.add_argument("--times", type=_positive, default=3, help="changes of all values, and deaths, in each run")
    _add_several(test, "--systems", metrics_experiment.SYSTEMS, "NAME,...")
    _add_seconds(test, "--rest", 60.0, "measured at rest", dest="rest_s")
    _add_seconds(test, "--ages", 60.0, "how long ages are looked at", dest="ages_s")


def _add_service(tests: Commands[Parser], name: str, text: str, parts: tuple[str, ...]) -> Parser:
    test = _test(tests, name, text, "100,200,500", "--events", fanout=8, repeat=3)
    others = "nodes of all parts but `speed` (default: 300)"
    test.add_argument("--fault-nodes", type=_numbers, default=(300,), metavar="N,N...", help=others)
    test.add_argument("--times", type=_positive, default=5, help="commands, or nodes that are killed, in each run")
    _add_several(test, "--only", parts, "PART,...")
    peers = argparse.BooleanOptionalAction
    test.add_argument("--peers", action=peers, default=True, help="also measure peers that are installed")
    return test


def _test(
    tests: Commands[Parser], name: str, text: str, nodes: str, *shared: str, fanout: int = 0, repeat: int = 5
) -> Parser:
    """`fanout` 0: it has no such option, or one of its own."""
    found = _command(tests, name, text, "--rootless", *shared)
    found.add_argument("--nodes", type=_numbers, default=_numbers(nodes), metavar="N,N...", help=f"default: {nodes}")
    found.add_argument("--repeat", type=_positive, default=repeat, help="runs of each combination")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    if fanout:
        found.add_argument("--fanout", type=_positive, default=fanout, metavar="P")
    return found


def _add_one_size(found: Parser, nodes: int, fanout: int) -> None:
    found.add_argument("--nodes", type=_positive, default=nodes, metavar="N")
    found.add_argument("--fanout", type=_positive, default=fanout, metavar="P")


def _add_seconds(
    found: Parser, name: str, default: float, text: str, kind: Callable[[str], float] | None = None, **more: Any
) -> None:
    found.add_argument(name, type=kind or _above_zero, default=default, metavar="SECONDS", help=text, **more)


def _add_several(
    found: Parser, name: str, known: tuple[str, ...], metavar: str, text: str | None = None, **more: Any
) -> None:
    """Some of these words, with commas between; by default all of them."""

    def convert(text: str) -> tuple[str, ...]:
        for part in text.split(","):
            if part not in known:
                raise argparse.ArgumentTypeError(f"`{part}`: choose from {', '.join(known)}")
        return tuple(text.split(","))

    how = {"default": known, "help": text or ", ".join(known), **more}
    found.add_argument(name, type=convert, metavar=metavar, **how)


def _number(holds: Callable[[float], bool], complaint: str) -> Callable[[str], float]:
    """The type of a finite number that meets a condition."""

    def convert(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = inf
        if not isfinite(number):
            raise argparse.ArgumentTypeError(f"{text} is not a number")
        if not holds(number):
            raise argparse.ArgumentTypeError(f"{text} {complaint}")
        return number

    return convert


_above_zero = _number(lambda n: n > 0, "is not above 0")
_from_zero = _number(lambda n: n >= 0, "is not 0 or more")


_round = _number(lambda n: 0.3 <= n <= 600, "is not from 0.3 to 600 s")


def _positive(text: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _lengths(text: str) -> tuple[float, ...]:
    return tuple(_round(part) for part in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _ranges(text: str) -> tuple[int, ...]:
    """Positions such as 1,3,5-9."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = _positive(first), _positive(last or first)
        if not 0 <= ends[1] - ends[0] < NODES_MAX:
            raise argparse.ArgumentTypeError(f"{part} is no range of nodes")
        found += range(ends[0], ends[1] + 1)
    return tuple(dict.fromkeys(found))


OF_LAB: dict[str, dict[str, Any]] = {
    "--layout": {"default": "dense", "help": f"{', '.join(NAMES)}, or a file with one address a line"},
    "--sites": {"type": Path, "metavar": "FILE.toml", "help": "sites, and the links between them"},
    "--network": {
        "help": "block, or ranges and addresses between commas (default: the layout's, mostly 10.0.0.0/16)"
    },
    "--seeds": {"type": _positive, "default": 0, "metavar": "N", "help": "tell daemons of N nodes"},
    "--seed-nodes": {"type": _numbers, "default": (), "metavar": "POSITION,...", "help": "or of these nodes"},
    "--announce": {"action": "store_true", "help": "daemons announce themselves by multicast"},
    "--no-disk": {"dest": "disk", "action": "store_false", "help": "daemons keep nothing over a restart"},
    "--insecure": {"action": "store_true", "help": "nothing is sealed"},
    "--mapping": {"choices": MAPPINGS, "default": "ip", "help": "which node may lead which; default: ip"},
    "--spread": {
        "type": _number(lambda n: n == 0 or 1 <= n <= SPREAD_MAX, f"is neither 0 nor from 1 to {SPREAD_MAX:g}"),
        "default": SPREAD,
        "metavar": "TIMES",
        "help": f"with --mapping performance: how many times as fast the fastest node is (default {SPREAD:g});"
        " 0: nodes measure what they do",
    },
    "--guest-slots": {"type": int, "help": "default: the daemon's"},
    "--timing": {"choices": TIMINGS, "default": "lan", "help": "timing preset of the daemons"},
    "--seed": {"type": int, "default": 1, "help": "of the layout and the random start order"},
    "--exec": {"dest": "execute", "action": "store_true", "help": "execute `subord run` per node, do not fork"},
    "--daemon": {"metavar": "FILE", "help": "a Python file whose main(argv) takes the place of subord"},
    "--rootless": {"action": "store_true", "help": "use a user namespace though we are root"},
}
"""Options that are given to Lab as they are."""
SHARED = OF_LAB | {
    "--name": {"default": "lab", "help": "which lab, when there are several"},
    "--json": {"type": Path, "metavar": "FILE", "help": "write the figures there"},
    "--events": {"type": Path, "metavar": "DIRECTORY", "help": "keep the event log of each run there"},
    "node": {"help": "position or address"},
    "site": {"help": "its name in the file of --sites"},
}
"""Options and arguments of several commands."""


def of_lab(given: argparse.Namespace) -> dict[str, Any]:
    """What Lab is given of the command line, by the names of its parameters."""
    names = (how.get("dest", name[2:].replace("-", "_")) for name, how in OF_LAB.items())
    return {name: getattr(given, name) for name in names}
