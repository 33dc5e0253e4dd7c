"""The options of each `netns-lab/lab evaluate TEST`. Words and defaults of experiments are imported from these."""

from __future__ import annotations

import argparse
from pathlib import Path

from netlab.accounting import experiment as accounting
from netlab.attack.insider import NAMES as NAMES_OF_LIES
from netlab.attack.insider import PLACES
from netlab.cli.options import (
    Commands,
    Parser,
    above_zero,
    add_seconds,
    add_several,
    command,
    from_zero,
    lengths,
    number_that,
    numbers,
    positive,
    words,
)
from netlab.experiments.agent_faults import NAMES as NAMES_OF_FAULTS
from netlab.experiments.discovery import MODES
from netlab.mappings.experiment import PARTS, SITES
from netlab.peers.experiment import SYSTEMS
from netlab.services import exec_experiment, files_experiment, metrics_experiment
from netlab.shares import experiment as shares


def add(tests: Commands[Parser]) -> None:
    """All of them."""
    test = _test(tests, "discovery", "mapping against a full scan, and starts from disk", "10,20,30,40,50")
    add_several(test, "--modes", MODES, "MODE,...")
    whole = "every change of the tree for half a minute"
    test = _test(tests, "stability", whole, "100,200,300,400,500", "--events")
    test.add_argument("--fanout", type=numbers, default=(2, 8, 64), metavar="P,P...")
    add_seconds(test, "--seconds", 30.0, "how long each run is recorded")
    test = _test(tests, "peers", "Serf and etcd, where they are installed, in the same lab", "20,50,100,200,300")
    add_several(test, "--systems", SYSTEMS, "NAME,...")
    _test(tests, "sealing", "what the seal costs: sealed, and in the clear", "40,100")
    orders = "by latency at sites far apart, and by performance, with changes"
    test = _test(tests, "mappings", orders, "200", "--timing", "--events")
    test.add_argument("--fanout", type=numbers, default=(2, 8), metavar="P,P...", help="default: 2,8 (README)")
    add_several(test, "--parts", PARTS, "PART,...")
    four = "default: netns-lab/sites/four.toml"
    test.add_argument("--sites", type=Path, default=SITES, metavar="FILE.toml", help=four)
    add_seconds(test, "--seconds", 600.0, "how long the jitter lasts")
    add_seconds(test, "--rest", 60.0, "measured at rest", from_zero, dest="rest_s")
    lowest = "an intruder without the key, which has the lowest address"
    test = _test(tests, "siege", lowest, "100", "--events", fanout=8)
    test.add_argument("--per-s", type=above_zero, default=2000.0, metavar="RATE", help="datagrams a second, in all")
    add_seconds(test, "--seconds", 20.0, "how long the attack lasts")
    lies = "a member that lies: no other node moves, and `subord errors` names it"
    test = _test(tests, "insider", lies, "100", "--events", fanout=2, repeat=1)
    add_several(test, "--place", PLACES, "PLACE,...")
    add_several(test, "--lies", NAMES_OF_LIES, "LIE,...")
    add_seconds(test, "--seconds", 300.0, "how long the siege lasts, all lies together")
    wrong = "orders with effects while some agents cannot act, or the order is wrong"
    test = _test(tests, "agents", wrong, "300", "--events", fanout=2, repeat=3)
    test.add_argument("--at-once", type=positive, default=75, metavar="N", help="agents that get an order together")
    add_several(test, "--faults", NAMES_OF_FAULTS, "FAULT,...")
    once = "each live node runs a command of `subord exec` once, whatever happens to an interior node"
    test = _test(tests, "exec-rounds", once, "45", "--events", fanout=3, repeat=1)
    test.add_argument("--rounds", type=positive, default=50, metavar="N")
    test.add_argument("--seed", type=int, default=1, help="of what the rounds draw")
    _add_services(tests)
    real = "the real one finds all nodes, and raises an alert when one dies"
    test = _test(tests, "prometheus", real, "100", fanout=8)
    times = number_that(lambda n: 1 <= n <= 100, "is not from 1 to 100")
    test.add_argument("--shorten", type=times, default=1.0, metavar="TIMES", help="divide all its durations by it")
    add_seconds(test, "--rest", 60.0, "measured at rest", from_zero, dest="rest_s")


def _add_services(tests: Commands[Parser]) -> None:
    """Beside peers over ssh, where they are installed."""
    commands = "`subord exec` beside clush, pdsh and Serf, and under faults"
    test = _add_service(tests, "exec", commands, exec_experiment.PARTS)
    octets = "of all nodes together"
    test.add_argument("--output-bytes", type=positive, default=exec_experiment.OUTPUT_BYTES, metavar="N", help=octets)
    add_seconds(test, "--rest", 30.0, "each measurement at rest", dest="rest_s")
    pushes = "`subord files push` beside clush and rsync, and while a node is killed"
    test = _add_service(tests, "files", pushes, files_experiment.PARTS)
    test.add_argument("--file-bytes", type=positive, default=files_experiment.FILE_BYTES, metavar="N")
    once = "is each record of a job in a sink once, although nodes, roots and sinks are killed, and how late?"
    test = _test(tests, "accounting", once, "100", "--events", fanout=8, repeat=1)
    test.add_argument("--records", type=positive, default=accounting.RECORDS, metavar="N", help="of all nodes")
    paced = "records a second, of all nodes"
    test.add_argument("--per-s", type=above_zero, default=accounting.PER_S, metavar="RATE", help=paced)
    ended = "nodes killed a minute"
    test.add_argument("--percent-per-min", type=from_zero, default=10.0, metavar="SHARE", help=ended)
    roots = "deaths of the root"
    test.add_argument("--root-kills", type=positive, default=accounting.ROOT_KILLS, metavar="N", help=roots)
    test.add_argument("--seed", type=int, default=1, help="draws which nodes die, and when")
    divided = "shares of classes: with real cgroups and loads, their cost on many nodes, and faults"
    test = _test(tests, "shares", divided, "100", "--events", fanout=10, repeat=1)
    add_several(test, "--only", shares.PARTS, "PART,...")
    rounds = "lengths of rounds (default: 0.3,1)"
    test.add_argument("--round", dest="round_s", type=lengths, default=shares.ROUNDS_S, metavar="S,S...", help=rounds)
    add_seconds(test, "--seconds", 60.0, "of each measurement")
    test.add_argument("--times", type=positive, default=2, help="pauses of a class; leaders killed, and cut off")
    grows = "a real Grid Engine with an execd on each node grows from its master to so many nodes, and shrinks"
    test = _test(tests, "elastic", grows, "100", fanout=8, repeat=1)
    test.add_argument("--at-once", type=positive, default=10, metavar="N", help="nodes that a poll adds at most")
    queue = "virtual machines for a batch queue, on libvirt's test driver, with a real Grid Engine and without"
    test = _test(tests, "machines", queue, "25,50,100", fanout=8, repeat=3)
    test.add_argument(
        "--times", type=positive, default=10, help="jobs of each row of the table of waits, in each run"
    )
    parts = "waits, order, window, sizes, deaths, head"
    test.add_argument("--only", type=words, default=argparse.SUPPRESS, metavar="PART,...", help=parts)
    exchanged = "two clusters that exchange jobs while daemons die, beside the same apart, and one merged cell"
    test = _test(tests, "transfer", exchanged, "50", fanout=8, repeat=1)
    add_several(test, "--cases", ("apart", "joined", "merged"), "CASE,...")
    add_seconds(test, "--seconds", 1800.0, "how long jobs come")
    add_seconds(test, "--job", 60.0, "how long a job runs", dest="job_s")
    add_seconds(test, "--phase", 240.0, "after which the other cluster is the busy one", dest="phase_s")
    add_seconds(test, "--every", 10.0, "between deaths in a tree, on the average", dest="every_s")
    beside = "metrics of the cluster: cost, age, values and deaths, with and without them, and beside Ganglia"
    test = _test(tests, "metrics", beside, "100,200,300,500", "--events", fanout=8, repeat=3)
    test.add_argument("--times", type=positive, default=3, help="changes of all values, and deaths, in each run")
    add_several(test, "--systems", metrics_experiment.SYSTEMS, "NAME,...")
    add_seconds(test, "--rest", 60.0, "measured at rest", dest="rest_s")
    add_seconds(test, "--ages", 60.0, "how long ages are looked at", dest="ages_s")


def _add_service(tests: Commands[Parser], name: str, text: str, parts: tuple[str, ...]) -> Parser:
    test = _test(tests, name, text, "100,200,500", "--events", fanout=8, repeat=3)
    others = "nodes of all parts but `speed` (default: 300)"
    test.add_argument("--fault-nodes", type=numbers, default=(300,), metavar="N,N...", help=others)
    test.add_argument("--times", type=positive, default=5, help="commands, or nodes that are killed, in each run")
    add_several(test, "--only", parts, "PART,...")
    peers = argparse.BooleanOptionalAction
    test.add_argument("--peers", action=peers, default=True, help="also measure peers that are installed")
    return test


def _test(
    tests: Commands[Parser], name: str, text: str, nodes: str, *shared: str, fanout: int = 0, repeat: int = 5
) -> Parser:
    """`fanout` 0: it has no such option, or one of its own."""
    found = command(tests, name, text, "--rootless", *shared)
    found.add_argument("--nodes", type=numbers, default=numbers(nodes), metavar="N,N...", help=f"default: {nodes}")
    found.add_argument("--repeat", type=positive, default=repeat, help="runs of each combination")
    found.add_argument("--json", type=Path, metavar="FILE.json", help="write the figures there, and FILE.csv")
    if fanout:
        found.add_argument("--fanout", type=positive, default=fanout, metavar="P")
    return found
