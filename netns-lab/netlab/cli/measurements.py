"""The commands that raise labs of their own and measure. Each takes the parsed arguments and returns the exit code.

Exit codes: those of ending.py; 2 wrong arguments; 3 the daemons did not do what was expected; 4 a scenario that
cannot be played here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from netlab.cli import demo
from netlab.cli.arguments import of_lab
from netlab.cli.terminal import Terminal
from netlab.common import results
from netlab.experiments import evaluate, healing, scan, soak
from netlab.lab import Lab
from netlab.scenarios import report, runner

EXPERIMENTS = {
    "stabilise": "experiments.start_up",
    "discovery": "experiments.discovery",
    "stability": "experiments.stability",
    "sealing": "experiments.sealing",
    "mappings": "mappings.experiment",
    "peers": "peers.experiment",
    "prometheus": "peers.prometheus",
    "siege": "attack.experiment",
    "insider": "attack.insider",
    "agents": "experiments.agent_faults",
    "exec-rounds": "experiments.exec_rounds",
    "exec": "services.exec_experiment",
    "files": "services.files_experiment",
    "accounting": "accounting.experiment",
    "metrics": "services.metrics_experiment",
    "shares": "shares.experiment",
    "elastic": "elastic.experiment",
    "machines": "machines.experiment",
    "transfer": "transfer.experiment",
}
"""Module of `stabilise` and of each word of `evaluate`, with `Plan`, `table` and `is_whole`."""


def elastic(given: argparse.Namespace) -> int:
    """Only this command needs the adapters of batch systems."""
    show: Callable[[int, int, int, float], int] = import_module("netlab.elastic.demo").run
    return show(given.nodes, given.at_once, given.jobs, given.seconds)


def machines(given: argparse.Namespace) -> int:
    """As `elastic`."""
    show: Callable[[int, int, float], int] = import_module("netlab.machines.demo").run
    return show(given.servers, given.jobs, given.seconds)


def evaluated(given: argparse.Namespace) -> int:
    what = given.what if given.do == "evaluate" else given.do
    terminal, experiment = Terminal(), import_module(f"netlab.{EXPERIMENTS[what]}")
    if what == "stabilise":
        given.options = {"arp": given.arp, **of_lab(given)}
        del given.options["seed"], given.options["rootless"]  # the plan has them
    options = {field.name: getattr(given, field.name) for field in fields(experiment.Plan) if field.name in given}
    plan: evaluate.Evaluation = experiment.Plan(**options, progress=terminal.progress)
    for sentence in plan.missing():
        terminal.say(sentence)
    records = evaluate.run_all(plan.runs(), given.json, terminal.say)
    terminal.say(experiment.table(records))
    return 0 if all(map(experiment.is_whole, records)) else 3


def _checked_json(given: argparse.Namespace) -> Path | None:
    """Where the results go. Raises LabError when they cannot be written there."""
    path: Path | None = given.json
    if path is not None:
        results.check_writable(path)
    return path


def heal(given: argparse.Namespace) -> int:
    terminal, path = Terminal(), _checked_json(given)
    with Lab(given.nodes, given.fanout, rootless=given.rootless, progress=terminal.progress) as lab:
        rows = healing.measure(lab, ways=given.way, times=given.times, seed=given.seed, say=terminal.say)
    if path is not None:
        healing.write(path, rows, nodes=given.nodes, fanout=given.fanout)
    terminal.say(healing.table(rows))
    return 0


def soaked(given: argparse.Namespace) -> int:
    terminal, path = Terminal(), _checked_json(given)
    about = {name: getattr(given, name) for name in ("layout", "seed", "seeds", "rootless")}
    churn = {name: getattr(given, name) for name in ("minutes", "percent_per_min", "seed", "layout")}
    with Lab(given.nodes, given.fanout, progress=terminal.progress, **about) as lab:
        failure = soak.measure(lab, path=path, say=terminal.say, **churn)
    if failure is not None:
        terminal.say(failure)
    return 0 if failure is None else 3


def run(given: argparse.Namespace) -> int:
    terminal = Terminal()
    try:
        scripts = runner.read(given.files, nodes=given.nodes, rootless=given.rootless, sites=given.sites)
    except runner.Unplayable as reason:
        print(reason, file=sys.stderr)
        return 4
    played = runner.play_all(
        scripts,
        sites=given.sites,
        rootless=given.rootless,
        json_path=given.json,
        events=given.events,
        progress=terminal.progress,
        say=terminal.say,
    )
    terminal.say(report.table(played))
    return 3 if any(each.failure is not None for each in played) else 0


def scanned(given: argparse.Namespace) -> int:
    terminal, path = Terminal(), _checked_json(given)
    about = {name: getattr(given, name) for name in ("per_s", "seconds", "rootless")}
    found = scan.measure(given.nodes, given.network, progress=terminal.progress, **about)
    if path is not None:
        results.write_json(path, found)
    terminal.say(scan.sentence(found))
    return 0


CALLS: dict[str, Callable[[argparse.Namespace], int]] = {
    "stabilise": evaluated,
    "evaluate": evaluated,
    "scan": scanned,
    "heal": heal,
    "run": run,
    "soak": soaked,
    "demo": lambda given: demo.run(rootless=given.rootless),
    "elastic": elastic,
    "machines": machines,
}
