"""What may be typed behind `netns-lab/lab`, and what each word means.

Intuition: the order form. Which kitchen cooks what (cli/commands.py) does not stand on it.
"""

from __future__ import annotations

import argparse
import signal
from math import inf, isfinite
from pathlib import Path

from netlab.experiments.discovery import MODES
from netlab.mappings.experiment import PARTS
from netlab.peers.experiment import SYSTEMS
from netlab.processes.performance import JOBS_PER_HOUR_MAX, SPREAD, SPREAD_MAX
from netlab.processes.releases import PRESENT, PREVIOUS
from netlab.topology.layout import NAMES, NETWORK, NODES_MAX

DESCRIPTION = "A cluster of real subord daemons on this machine, each in a network namespace of its own."
MAPPINGS = ("ip", "performance", "latency")
RELEASES = (PRESENT, PREVIOUS)
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


def parser() -> argparse.ArgumentParser:
    """Of `netns-lab/lab`; `do` is the name of the command."""
    whole = argparse.ArgumentParser(prog="lab", description=DESCRIPTION)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    found = _command(commands, "up", "raise a lab and leave it running")
    found.add_argument("--nodes", type=int, help="how many; with a layout file: the first of it")
    found.add_argument("--fanout", type=int, default=2, help="fan-out p")
    found.add_argument("--start", choices=ORDERS, default="together", help="order of starting")
    found.add_argument("--foreground", action="store_true", help="stay, and end the lab on Ctrl-C")
    found.add_argument(
        "--previous", type=Path, metavar="FILE", help="a wheel of another release, or a directory with its package"
    )
    found.add_argument("--old", type=_ranges, default=(), metavar="1,3,5-9", help="nodes that begin with it")
    _common(found)

    found = _command(commands, "stabilise", "measure how fast a stable tree forms, and its cost", named=False)
    found.add_argument("--nodes", type=_numbers, required=True, metavar="N,N...")
    found.add_argument("--fanout", type=_numbers, default=(2,), metavar="P,P...")
    found.add_argument("--start", type=_orders, default=("together",), metavar="ORDER,...", help=", ".join(ORDERS))
    found.add_argument("--repeat", type=_positive, default=1, help="runs of each combination")
    found.add_argument(
        "--rest", type=_from_zero, default=10.0, metavar="SECONDS", help="how long to measure at rest; 0: not"
    )
    found.add_argument(
        "--timeout", type=_above_zero, default=60.0, metavar="SECONDS", help="longest wait for stability"
    )
    found.add_argument(
        "--quiet", type=_from_zero, default=3.0, metavar="SECONDS", help="nobody may move for so long (not counted)"
    )
    found.add_argument("--arp", action="store_true", help="count ARP requests and IPv6 neighbour solicitations")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    _common(found)

    found = _command(commands, "heal", "kill and restart daemons, measure how the tree heals", named=False)
    found.add_argument("--nodes", type=_positive, default=100, metavar="N")
    found.add_argument("--fanout", type=_positive, default=2, metavar="P")
    found.add_argument(
        "--way", type=_ways, default=("kill", "cut"), metavar="kill,cut", help="kill -9, or the cable too"
    )
    found.add_argument("--times", type=_positive, default=5, help="interior nodes per way; root and leaf once each")
    found.add_argument("--seed", type=int, default=1, help="chooses the victims")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")

    _add_evaluate(commands)
    _add_scan(commands)
    _add_run(commands)
    _add_soak(commands)
    found = _command(commands, "demo", "a cluster forms, loses a node and heals, in a minute", named=False)
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")
    _command(commands, "down", "end a lab")
    _command(commands, "status", "what the lab knows of its nodes")
    found = _command(commands, "tree", "`subord tree` on the first live node")
    found.add_argument("options", nargs=argparse.REMAINDER, help="options of `subord tree`")
    _add_nodes(commands)
    _add_sites(commands)
    return whole


def _add_nodes(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "exec", "run a command on a node: exec NODE -- COMMAND...")
    found.add_argument("node", help="position or address; `wire`: where the bridges are, and all traffic comes by")
    found.add_argument("command", nargs=argparse.REMAINDER)
    found = _command(commands, "kill", "send a signal to a node's daemon")
    found.add_argument("node", help="position or address")
    found.add_argument("--signal", type=int, default=int(signal.SIGKILL), metavar="NUMBER")
    found = _command(commands, "start", "start a node's daemon")
    found.add_argument("node", help="position or address")
    found.add_argument("--release", choices=RELEASES, help="of this release from now on; default: as before")
    found = _command(commands, "perform", "give a node another performance, which it reads again (SIGHUP)")
    found.add_argument("node", help="position or address")
    found.add_argument("jobs", type=_jobs, help="jobs an hour")


def _add_sites(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for name, text in (("cut-site", "cut a site off from all others"), ("mend-site", "put it back")):
        _command(commands, name, text).add_argument("site", help="its name in the file of --sites")
    found = _command(commands, "traffic", "what has crossed from site to site")
    found.add_argument("--json", action="store_true", help="for programs")
    found = _command(commands, "tremble", "round trips between sites become longer and shorter, again and again")
    found.add_argument("share", type=_share, help="by how much of their own at the most, such as 0.3; 0: no longer")
    _command(commands, "edges", "edges of the tree by the sites of their ends")


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "run", "play scenario files with real daemons", named=False, after=RUN_EXIT_CODES)
    found.add_argument("files", type=Path, nargs="+", metavar="FILE.toml", help="such as netns-lab/scenarios/*.toml")
    found.add_argument("--nodes", type=_positive, metavar="N", help="in the place of the files' `cluster.nodes`")
    found.add_argument("--sites", type=Path, metavar="FILE.toml", help="play them there, as for `up`")
    found.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen there")
    found.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each scenario there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")


def _add_evaluate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "evaluate", "the paper's tests, run again (docs/evaluation.md)", named=False)
    tests = found.add_subparsers(required=True, metavar="TEST", dest="what")
    test = _test(tests, "discovery", "mapping against a scan of everybody, and starts from disk", "10,20,30,40,50")
    test.add_argument("--modes", type=_modes, default=MODES, metavar="MODE,...", help=", ".join(MODES))
    test = _test(tests, "stability", "every change of the tree for half a minute", "100,200,300,400,500")
    test.add_argument("--fanout", type=_numbers, default=(2, 8, 64), metavar="P,P...")
    test.add_argument("--seconds", type=_above_zero, default=30.0, help="how long each run is filmed")
    test.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each run there")
    test = _test(tests, "peers", "Serf and etcd, where they are installed, in the same lab", "20,50,100,200,300")
    test.add_argument("--systems", type=_systems, default=SYSTEMS, metavar="NAME,...", help=", ".join(SYSTEMS))
    _test(tests, "sealing", "what the seal costs: sealed, and in the clear", "40,100")
    test = _test(tests, "mappings", "by latency at sites far apart, and by performance, with changes", "200")
    test.add_argument("--fanout", type=_numbers, default=(2, 8), metavar="P,P...", help="default: 2,8 (README)")
    test.add_argument("--parts", type=_parts, default=PARTS, metavar="PART,...", help=", ".join(PARTS))
    test.add_argument("--sites", type=Path, metavar="FILE.toml", help="default: netns-lab/sites/four.toml")
    test.add_argument("--seconds", type=_above_zero, default=600.0, help="how long everything trembles")
    test.add_argument(
        "--rest", type=_from_zero, default=60.0, dest="rest_s", metavar="SECONDS", help="measured at rest"
    )
    test.add_argument("--timing", choices=TIMINGS, default="lan", help="timing preset of the daemons")
    test.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each run there")
    test = _test(tests, "siege", "an intruder without the key, who has the lowest address", "100")
    test.add_argument("--fanout", type=_positive, default=8, metavar="P")
    test.add_argument("--per-s", type=_above_zero, default=2000.0, metavar="RATE", help="datagrams a second, in all")
    test.add_argument("--seconds", type=_above_zero, default=20.0, help="how long it is attacked")
    test.add_argument("--events", type=Path, metavar="DIRECTORY", help="keep the event log of each run there")
    test = _test(tests, "prometheus", "the real one finds everybody, and alarms when a node dies", "100")
    test.add_argument("--fanout", type=_positive, default=8, metavar="P")
    test.add_argument("--shorten", type=_times, default=1.0, metavar="TIMES", help="divide all its durations by it")
    test.add_argument(
        "--rest", type=_from_zero, default=60.0, dest="rest_s", metavar="SECONDS", help="measured at rest"
    )


def _test(
    tests: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, nodes: str
) -> argparse.ArgumentParser:
    found = tests.add_parser(name, help=text, description=text)
    found.add_argument("--nodes", type=_numbers, default=_numbers(nodes), metavar="N,N...", help=f"default: {nodes}")
    found.add_argument("--repeat", type=_positive, default=5, help="runs of each combination")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")
    return found


def _add_scan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "scan", "what a plain full scan asks by ARP, for comparison", named=False)
    found.add_argument("--nodes", type=_positive, default=10, metavar="N", help="hosts; the last one scans")
    found.add_argument("--network", default=NETWORK, help="as for `up`")
    found.add_argument("--per-s", type=_above_zero, default=15.0, metavar="RATE", help="datagrams a second")
    found.add_argument("--seconds", type=_above_zero, default=30.0, help="how long")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")


def _add_soak(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    found = _command(commands, "soak", "churn for a long time: does memory grow, or the tree?", named=False)
    found.add_argument("--nodes", type=_positive, default=100, metavar="N")
    found.add_argument("--fanout", type=_positive, default=2, metavar="P")
    found.add_argument("--minutes", type=_positive, default=30)
    found.add_argument(
        "--percent-per-min", type=_above_zero, default=10.0, metavar="SHARE", help="nodes ended a minute"
    )
    found.add_argument("--layout", default="dense", help="as for `up`")
    found.add_argument("--seeds", type=_positive, default=0, metavar="N", help="tell daemons of N nodes")
    found.add_argument("--seed", type=int, default=1, help="of the layout and the victims")
    found.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    found.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    *,
    named: bool = True,
    after: str | None = None,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=text, description=text, epilog=after, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(do=name)
    if named:
        parser.add_argument("--name", default="lab", help="which lab, when there are several")
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layout", default="dense", help=f"{', '.join(NAMES)}, or a file with one address a line")
    parser.add_argument("--sites", type=Path, metavar="FILE.toml", help="sites, and the distance between them")
    parser.add_argument(
        "--network", help="block, or ranges and addresses between commas (default: the layout's, mostly 10.0.0.0/16)"
    )
    parser.add_argument("--seeds", type=_positive, default=0, metavar="N", help="tell daemons of N nodes")
    parser.add_argument("--seed-nodes", type=_numbers, default=(), metavar="POSITION,...", help="or of these nodes")
    parser.add_argument("--announce", action="store_true", help="daemons announce themselves by multicast")
    parser.add_argument("--no-disk", dest="disk", action="store_false", help="daemons keep nothing over a restart")
    parser.add_argument("--insecure", action="store_true", help="nothing is sealed")
    parser.add_argument("--mapping", choices=MAPPINGS, default="ip", help="who may lead whom; default: ip")
    parser.add_argument(
        "--spread",
        type=_spread,
        default=SPREAD,
        metavar="TIMES",
        help=f"with --mapping performance: how many times as fast the fastest node is (default {SPREAD:g});"
        " 0: nodes measure what they do",
    )
    parser.add_argument("--guest-slots", type=int, help="default: the daemon's")
    parser.add_argument("--timing", choices=TIMINGS, default="lan", help="timing preset of the daemons")
    parser.add_argument("--seed", type=int, default=1, help="of the layout and the random start order")
    parser.add_argument(
        "--exec", dest="execute", action="store_true", help="execute `subord run` per node, do not fork"
    )
    parser.add_argument("--rootless", action="store_true", help="use a user namespace though we are root")
    parser.add_argument("--daemon", metavar="FILE", help="a Python file whose main(argv) takes the place of subord")


def _positive(text: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return number


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = inf
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is not a number")
    return number


def _above_zero(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return number


def _from_zero(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is not 0 or more")
    return number


def _spread(text: str) -> float:
    times = _number(text)
    if times != 0 and not 1 <= times <= SPREAD_MAX:
        raise argparse.ArgumentTypeError(f"{text} is neither 0 nor from 1 to {SPREAD_MAX:g}")
    return times


def _times(text: str) -> float:
    times = _number(text)
    if not 1 <= times <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 100")
    return times


def _share(text: str) -> float:
    share = _number(text)
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to below 1")
    return share


def _jobs(text: str) -> float:
    jobs = _number(text)
    if not 0 < jobs <= JOBS_PER_HOUR_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most {JOBS_PER_HOUR_MAX:g}")
    return jobs


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


def _ways(text: str) -> tuple[str, ...]:
    return _chosen(text, ("kill", "cut"))


def _orders(text: str) -> tuple[str, ...]:
    return _chosen(text, ORDERS)


def _modes(text: str) -> tuple[str, ...]:
    return _chosen(text, MODES)


def _parts(text: str) -> tuple[str, ...]:
    return _chosen(text, PARTS)


def _systems(text: str) -> tuple[str, ...]:
    return _chosen(text, SYSTEMS)


def _chosen(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    for part in text.split(","):
        if part not in known:
            raise argparse.ArgumentTypeError(f"`{part}`: choose from {', '.join(known)}")
    return tuple(text.split(","))
