"""The commands of the lab. Each takes the parsed arguments and returns the exit code.

Exit codes: 0 done; 1 not, with one line why; 2 wrong arguments; 3 the daemons did not do what was expected; 4 a
scenario that cannot be played here; 130 Ctrl-C; 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TextIO

from netlab.cli import sites
from netlab.cli.arguments import OF_LAB, parser
from netlab.cli.terminal import Terminal
from netlab.common import results
from netlab.errors import LabError
from netlab.eventlog.events import Cluster, EventLog
from netlab.experiments import evaluate, healing, scan, soak
from netlab.lab import Lab, facts, start_order
from netlab.processes import client, enter, keeper
from netlab.processes.launch import LabHandle
from netlab.processes.node_command import carry_out
from netlab.processes.options import Options
from netlab.scenarios import report, requirements, runner

PIPE_CLOSED = 141  # 128 + SIGPIPE, as `subord` does

EXPERIMENTS = {
    "stabilise": "experiments.start_up",
    "discovery": "experiments.discovery",
    "stability": "experiments.stability",
    "sealing": "experiments.sealing",
    "mappings": "mappings.experiment",
    "peers": "peers.experiment",
    "prometheus": "peers.prometheus",
    "siege": "attack.experiment",
}
"""Module of `stabilise` and of each word of `evaluate`, with `Plan`, `table` and `is_whole`."""

INSIDE = {
    "babble": "scenarios.bad_input:send",
    "scan-from": "experiments.scan:send",
    "record": "attack.recorder:record",
    "intrude": "attack.intruder:intrude",
    "fetch": "peers.page_reader:fetch",
}
"""Words by which the lab calls itself inside a node's namespace, or in that of the bridges (node_command.py)."""


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    if arguments[:1] == ["keep"]:  # the lab calls itself: see launch.py
        return keeper.keep(Options.from_json(arguments[1]))
    if arguments and arguments[0] in INSIDE:
        module, _, function = INSIDE[arguments[0]].partition(":")
        return carry_out(getattr(import_module(f"netlab.{module}"), function), arguments[1])
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        return _called(given)
    except BrokenPipeError:
        if not (gone := [stream for stream in (sys.stdout, sys.stderr) if _is_reader_gone(stream)]):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:  # drop what is still buffered
            os.dup2(nowhere, stream.fileno())
        return PIPE_CLOSED


def _is_reader_gone(stream: TextIO) -> bool:
    """Of a pipe; anything else has no reader that could go."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(what & select.POLLERR for _, what in poll.poll(0))


def _called(given: argparse.Namespace) -> int:
    """Run the command; an exit code for what is expected to go wrong."""
    try:
        code: int = CALLS[given.do](given)
        sys.stdout.flush()
    except LabError as reason:
        print(f"\n{reason}" if sys.stderr.isatty() else str(reason), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; everything the lab had made is gone.", file=sys.stderr)
        return 130
    return code


def _terminated(number: int, _frame: object) -> NoReturn:
    """End as Ctrl-C does: by way of every `with` and `finally`."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


# -- a lab that stays --------------------------------------------------------------------------------------


def _of_lab(given: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(given, name) for name in OF_LAB}


def up(given: argparse.Namespace) -> int:
    """Raise a lab, start all nodes; stay in the background, or in the foreground until Ctrl-C."""
    terminal = Terminal()
    about = {name: getattr(given, name) for name in ("name", "seed", "previous", "old")}
    lab = Lab(given.nodes, given.fanout, **_of_lab(given), **about)
    handle = LabHandle(lab.options, terminal.progress)
    try:
        with client.Client(handle.directory) as controller:
            terminal.progress("starting daemons", 0, 0)
            order = start_order(lab.positions, given.start, given.seed)
            controller.ask("start", addresses=list(map(lab.address, order)))
        terminal.say(_how_to_use(lab, handle))
        if given.foreground:
            terminal.say("Ctrl-C ends it.")
            return handle.wait()
        handle.release()
    except BaseException:
        handle.end()
        raise
    return 0


def _how_to_use(lab: Lab, handle: LabHandle) -> str:
    name = "" if lab.options.name == "lab" else f" --name {lab.options.name}"
    some = lab.positions[len(lab.positions) // 2]
    return (
        f"{len(lab.positions)} nodes are running. Files: {handle.directory.path}\n"
        f"  netns-lab/lab tree{name}                        the tree\n"
        f"  netns-lab/lab status{name}                      what the event log says\n"
        f"  netns-lab/lab exec{name} {some} -- subord status     a command on a node (position or address)\n"
        f"  netns-lab/lab kill{name} {some}                      kill -9; `--signal 15` ends it gracefully\n"
        f"  netns-lab/lab start{name} {some}                     start it again\n"
        f"  netns-lab/lab down{name}                        end everything"
    )


def down(given: argparse.Namespace) -> int:
    """End a lab and wait until it has cleaned up."""
    with client.attach(given.name) as controller:
        controller.end()
    print(f"The lab {given.name} is gone.")
    return 0


def status(given: argparse.Namespace) -> int:
    """What the event log and the controller know, without asking a daemon."""
    with client.attach(given.name) as controller:
        info = controller.ask("info")
    cluster = Cluster.of(EventLog(Path(info["events"])).new())
    options = Options.from_json(info["options"])
    print(f"{facts(cluster)} Depth {cluster.depth()}; network {options.network}, fan-out {options.fanout}.")
    width = max(len(node["address"]) for node in info["nodes"])
    site_width = max(len(node["site"] or "") for node in info["nodes"])
    for node in info["nodes"]:
        seen = cluster.nodes.get(node["address"])
        if node["pid"] is None:
            state = "not started" if node["exit_code"] is None else f"ended with {node['exit_code']}"
        elif seen is None or seen.place is None:
            state = "has no place yet"
        else:
            state = seen.place if seen.leader is None else f"{seen.place} of {seen.leader}"
        site = f"{node['site']:<{site_width}}  " if site_width else ""
        release = "" if options.previous is None else f"  ({node['release']} release)"
        print(f"{node['position']:>6}  {node['address']:<{width}}  {site}{node['pid'] or '-':>8}  {state}{release}")
    return 0


def execute(given: argparse.Namespace) -> int:
    """Run a command on a node."""
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command:
        raise LabError("Which command? For example: netns-lab/lab exec 7 -- subord status")
    with client.attach(given.name) as controller:
        return enter.run_in(controller, given.node, command)


def tree(given: argparse.Namespace) -> int:
    """`subord tree`, on the first live node."""
    with client.attach(given.name) as controller:
        live = [node for node in controller.ask("info")["nodes"] if node["pid"] is not None]
        if not live:
            raise LabError("No node is running: `netns-lab/lab start NODE` starts one.")
        rest = given.options[1:] if given.options[:1] == ["--"] else given.options
        return enter.run_in(controller, live[0]["address"], ["subord", "tree", *rest])


def _on_node(given: argparse.Namespace, do: str, **request: Any) -> int:
    """One request to the controller about one node."""
    with client.attach(given.name) as controller:
        address = enter.find_node(controller.ask("info"), given.node)["address"]
        controller.ask(do, **({"addresses": [address]} if do == "start" else {"address": address}), **request)
    return 0


# -- measuring ---------------------------------------------------------------------------------------------


def evaluated(given: argparse.Namespace) -> int:
    """Repeat an experiment, print its table."""
    terminal, experiment = Terminal(), import_module(f"netlab.{EXPERIMENTS[given.what]}")
    if given.do == "stabilise":
        given.lab = {**_of_lab(given), "arp": given.arp}
    options = {field.name: getattr(given, field.name) for field in fields(experiment.Plan) if field.name in given}
    plan: evaluate.Plan = experiment.Plan(**options)
    for sentence in plan.missing():
        terminal.say(sentence)
    records = evaluate.run_all(plan.runs(terminal.progress), given.json, terminal.say)
    terminal.say(experiment.table(records))
    return 0 if all(map(experiment.is_whole, records)) else 3


def _checked_json(given: argparse.Namespace) -> Path | None:
    """Where the results go. Raises LabError when they cannot be written there."""
    path: Path | None = given.json
    if path is not None:
        results.check_writable(path)
    return path


def heal(given: argparse.Namespace) -> int:
    """Kill and restart daemons, print how the tree healed."""
    terminal, path = Terminal(), _checked_json(given)
    with Lab(given.nodes, given.fanout, rootless=given.rootless, progress=terminal.progress) as lab:
        rows = healing.measure(lab, ways=given.way, times=given.times, seed=given.seed, say=terminal.say)
    if path is not None:
        healing.write(path, rows, nodes=given.nodes, fanout=given.fanout)
    terminal.say(healing.table(rows))
    return 0


def soaked(given: argparse.Namespace) -> int:
    """Churn for a long time, print whether memory grows."""
    terminal, path = Terminal(), _checked_json(given)
    about = {name: getattr(given, name) for name in ("layout", "seed", "seeds", "rootless")}
    with Lab(given.nodes, given.fanout, progress=terminal.progress, **about) as lab:
        script = soak.script_of(lab, given.minutes, given.percent_per_min, given.seed)

        def write(samples: list[soak.Sample], failure: str | None = None) -> None:
            if path is not None:
                soak.write_json(path, lab, script, samples, layout=given.layout, failure=failure)

        result, samples = soak.soak(lab, script, say=terminal.say, write=write)
        write(samples, result.failure)
    for name, value in (("median", lambda s: s.resident_mib_median), ("root", lambda s: s.root_mib)):
        terminal.say(
            f"resident memory, {name}: {soak.growth_kib_per_min(samples, value):+.1f} KiB a minute, second half"
        )
    if result.failure is not None:
        terminal.say(result.failure)
        return 3
    return 0


def run(given: argparse.Namespace) -> int:
    """Play scenario files, print what was seen."""
    terminal = Terminal()
    try:
        playable = runner.read(given.files, nodes=given.nodes, rootless=given.rootless, sites=given.sites)
    except requirements.Unplayable as reason:
        print(reason, file=sys.stderr)
        return 4
    played = runner.play_all(
        playable,
        rootless=given.rootless,
        json_path=given.json,
        events=given.events,
        progress=terminal.progress,
        say=terminal.say,
    )
    terminal.say(report.table(played))
    return 3 if any(each.failure is not None for each in played) else 0


def demo(given: argparse.Namespace) -> int:
    """What `./dev demo` shows."""
    from netlab.cli import demo as story

    return story.run(rootless=given.rootless)


def scanned(given: argparse.Namespace) -> int:
    """Print what a full scan of the network asks by ARP."""
    terminal, path = Terminal(), _checked_json(given)
    about = {name: getattr(given, name) for name in ("per_s", "seconds", "rootless")}
    found = scan.measure(given.nodes, given.network, progress=terminal.progress, **about)
    if path is not None:
        results.write_json(path, found)
    terminal.say(scan.sentence(found))
    return 0


CALLS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": up,
    "stabilise": evaluated,
    "evaluate": evaluated,
    "scan": scanned,
    "heal": heal,
    "run": run,
    "soak": soaked,
    "demo": demo,
    "down": down,
    "status": status,
    "tree": tree,
    "exec": execute,
    "kill": lambda given: _on_node(given, "signal", signal=given.signal),
    "start": lambda given: _on_node(given, "start", release=given.release),
    "perform": lambda given: _on_node(given, "perform", jobs_per_hour=given.jobs),
    "cut-site": sites.cut_site,
    "mend-site": sites.cut_site,
    "tremble": sites.jitter,
    "traffic": sites.traffic,
    "edges": sites.edges,
}
