"""The commands of the lab: call, print."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TextIO

from netlab import lab
from netlab.attack import intruder, recorder
from netlab.cli import sites
from netlab.cli.arguments import parser
from netlab.cli.terminal import Terminal
from netlab.common import results
from netlab.errors import LabError
from netlab.eventlog.events import Cluster, EventLog
from netlab.experiments import figures, scan, start_up
from netlab.peers import page_reader
from netlab.processes import client, enter, keeper, performance
from netlab.processes.launch import Leash
from netlab.processes.options import Options
from netlab.scenarios import bad_input
from netlab.topology import layout as layouts
from netlab.topology import sites_file

PIPE_CLOSED = 141  # 128 + SIGPIPE, as `subord` does


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0 done; 1 not, with one line why; 2 mistyped; 3 the daemons did not do what was expected;
    4 a scenario that cannot be played here; 130 Ctrl-C; 141 the reader of the output went away.
    """
    if arguments[:1] == ["keep"]:  # the lab calls itself: see processes/launch.py
        return keeper.keep(Options.from_json(arguments[1]))
    if arguments and arguments[0] in INSIDE:
        return INSIDE[arguments[0]](arguments[1])
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGHUP, _terminated)
    try:
        return _called(given)
    except BrokenPipeError:
        if not (gone := [stream for stream in (sys.stdout, sys.stderr) if _is_reader_gone(stream)]):
            raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in gone:  # what is still buffered goes nowhere
            os.dup2(nowhere, stream.fileno())
        return PIPE_CLOSED


def _is_reader_gone(stream: TextIO) -> bool:
    """Of a pipe; what is no pipe has no reader that could go."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(what & select.POLLERR for _, what in poll.poll(0))


def _called(given: argparse.Namespace) -> int:
    """What was asked for, and an exit code for what we expect to go wrong."""
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


def up(given: argparse.Namespace) -> int:
    """Raise a lab, start all nodes; stay in the background, or in the foreground until Ctrl-C."""
    terminal = Terminal()
    options = _options(given, sites_file.located(given.sites, given.layout, given.nodes, given.network, given.seed))
    leash = Leash(options, terminal.progress)
    try:
        with client.Client(leash.directory) as controller:
            positions = [layouts.position_of(address, options.network) for address in options.addresses]
            by_position = dict(zip(positions, options.addresses, strict=True))
            order = lab.start_order(positions, given.start, given.seed)
            terminal.progress("starting daemons", 0, 0)
            controller.ask("start", addresses=[by_position[position] for position in order])
        terminal.say(_how_to_use(options, leash))
        if given.foreground:
            terminal.say("Ctrl-C ends it.")
            return leash.wait()
        leash.release()
    except BaseException:
        leash.end()
        raise
    return 0


def _how_to_use(options: Options, leash: Leash) -> str:
    name = "" if options.name == "lab" else f" --name {options.name}"
    some = layouts.position_of(options.addresses[len(options.addresses) // 2], options.network)
    return (
        f"{len(options.addresses)} nodes are running. Files: {leash.directory.path}\n"
        f"  netns-lab/lab tree{name}                        the tree\n"
        f"  netns-lab/lab status{name}                      what the event log says\n"
        f"  netns-lab/lab exec{name} {some} -- subord status     a command on a node (position or address)\n"
        f"  netns-lab/lab kill{name} {some}                      kill -9; `--signal 15` says goodbye\n"
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
    cluster = Cluster()
    log = EventLog(Path(info["events"]))
    while events := log.read():
        for event in events:
            cluster.apply(event)
    options = Options.from_json(info["options"])
    print(f"{lab.facts(cluster)} Depth {cluster.depth()}; network {options.network}, fan-out {options.fanout}.")
    width = max(len(node["address"]) for node in info["nodes"])
    site_width = max(len(node["site"] or "") for node in info["nodes"])
    for node in info["nodes"]:
        seen = cluster.nodes.get(node["address"])
        if node["pid"] is None:
            state = "not started" if node["exit_code"] is None else f"ended with {node['exit_code']}"
        elif seen is None or seen.place is None:
            state = "looking for its place"
        else:
            state = seen.place if seen.leader is None else f"{seen.place} of {seen.leader}"
        site = f"{node['site']:<{site_width}}  " if site_width else ""
        release = "" if options.previous is None else f"  ({node['release']} release)"
        print(f"{node['position']:>6}  {node['address']:<{width}}  {site}{node['pid'] or '-':>8}  {state}{release}")
    return 0


def run(given: argparse.Namespace) -> int:
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


def kill(given: argparse.Namespace) -> int:
    """Send a signal to a node's daemon."""
    with client.attach(given.name) as controller:
        node = enter.find_node(controller.ask("info"), given.node)
        controller.ask("signal", address=node["address"], signal=given.signal)
    return 0


def perform(given: argparse.Namespace) -> int:
    """Give a node another performance."""
    with client.attach(given.name) as controller:
        node = enter.find_node(controller.ask("info"), given.node)
        controller.ask("perform", address=node["address"], jobs_per_hour=given.jobs)
    return 0


def start(given: argparse.Namespace) -> int:
    """Start a node's daemon."""
    with client.attach(given.name) as controller:
        node = enter.find_node(controller.ask("info"), given.node)
        controller.ask("start", addresses=[node["address"]], release=given.release)
    return 0


def measured(given: argparse.Namespace) -> int:
    """Run the campaign and print the table."""
    terminal = Terminal()
    campaign = start_up.Campaign(
        nodes=given.nodes,
        fanout=given.fanout,
        layout=given.layout,
        sites=given.sites,
        start=given.start,
        repeat=given.repeat,
        seed=given.seed,
        execute=given.execute,
        rest_s=given.rest,
        timeout_s=given.timeout,
        quiet_s=given.quiet,
        network=given.network,
        seeds=given.seeds,
        seed_nodes=given.seed_nodes,
        announce=given.announce,
        arp=given.arp,
        disk=given.disk,
        insecure=given.insecure,
        guest_slots=given.guest_slots,
        mapping=given.mapping,
        spread=given.spread,
        timing=given.timing,
        rootless=given.rootless,
        daemon=given.daemon,
    )
    for nodes in campaign.nodes:  # what cannot work shall be said before the first run
        where = sites_file.located(campaign.sites, campaign.layout, nodes, campaign.network, campaign.seed)
        layouts.seeds(where, campaign.seeds, campaign.seed_nodes)
    runs = start_up.measure_all(campaign, given.json, terminal.progress, terminal.say)
    terminal.say(figures.table(runs))
    return 0 if all(found["stable"] for found in runs) else 3


def evaluated(given: argparse.Namespace) -> int:
    """Repeat an experiment, print its table."""
    from netlab.experiments import evaluate

    terminal, experiment = Terminal(), import_module(f"netlab.{EXPERIMENTS[given.what]}")
    options = {field.name: getattr(given, field.name) for field in fields(experiment.Plan) if field.name in given}
    plan: evaluate.Plan = experiment.Plan(**options)
    for sentence in plan.missing():
        terminal.say(sentence)
    records = evaluate.run_all(plan.runs(terminal.progress), given.json, terminal.say)
    terminal.say(experiment.table(records))
    return 0 if all(map(experiment.is_whole, records)) else 3


def healed(given: argparse.Namespace) -> int:
    """Kill and restart daemons, print how the tree healed."""
    from netlab.experiments import healing

    terminal = Terminal()
    if given.json is not None:
        results.check_writable(given.json)
    with lab.Lab(
        nodes=given.nodes, fanout=given.fanout, rootless=given.rootless, progress=terminal.progress
    ) as cluster:
        rows = healing.measure(cluster, ways=given.way, times=given.times, seed=given.seed, say=terminal.say)
    if given.json is not None:
        healing.write(given.json, rows, nodes=given.nodes, fanout=given.fanout)
    terminal.say(healing.table(rows))
    return 0


def soaked(given: argparse.Namespace) -> int:
    """Churn for a long time, print whether memory grows."""
    from netlab.experiments import soak

    terminal = Terminal()
    if given.json is not None:
        results.check_writable(given.json)
    with lab.Lab(
        nodes=given.nodes,
        fanout=given.fanout,
        layout=given.layout,
        seed=given.seed,
        seeds=given.seeds,
        rootless=given.rootless,
        progress=terminal.progress,
    ) as cluster:
        script = soak.script_of(cluster, given.minutes, given.percent_per_min, given.seed)

        def write(samples: list[soak.Sample], failure: str | None = None) -> None:
            if given.json is not None:
                soak.write_json(given.json, cluster, script, samples, layout=given.layout, failure=failure)

        performance, samples = soak.soak(cluster, script, say=terminal.say, write=write)
        write(samples, performance.failure)
    for name, value in (("median", lambda s: s.resident_mib_median), ("root", lambda s: s.root_mib)):
        terminal.say(
            f"resident memory, {name}: {soak.growth_kib_per_min(samples, value):+.1f} KiB a minute, second half"
        )
    if performance.failure is not None:
        terminal.say(performance.failure)
        return 3
    return 0


def played(given: argparse.Namespace) -> int:
    """Play scenario files, print what was seen."""
    from netlab.scenarios import report, requirements, runner

    terminal = Terminal()
    try:
        pieces = runner.read(given.files, nodes=given.nodes, rootless=given.rootless, sites=given.sites)
    except requirements.Unplayable as reason:
        print(reason, file=sys.stderr)
        return 4
    performances = runner.play_all(
        pieces,
        rootless=given.rootless,
        json_path=given.json,
        events=given.events,
        progress=terminal.progress,
        say=terminal.say,
    )
    terminal.say(report.table(performances))
    return 3 if any(each.failure is not None for each in performances) else 0


def demo(given: argparse.Namespace) -> int:
    """The story of `./dev demo`."""
    from netlab.cli import demo as story

    return story.run(rootless=given.rootless)


def scanned(given: argparse.Namespace) -> int:
    """Print what a full scan of the network asks by ARP."""
    terminal = Terminal()
    if given.json is not None:
        results.check_writable(given.json)
    found = scan.measure(
        given.nodes,
        given.network,
        per_s=given.per_s,
        seconds=given.seconds,
        rootless=given.rootless,
        progress=terminal.progress,
    )
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    terminal.say(scan.sentence(found))
    return 0


def _options(given: argparse.Namespace, where: layouts.Layout) -> Options:
    return Options(
        name=given.name,
        addresses=where.addresses,
        network=where.network,
        subnets=where.subnets,
        sites=where.sites,
        seeds=layouts.seeds(where, given.seeds, given.seed_nodes),
        announce=given.announce,
        disk=given.disk,
        insecure=given.insecure,
        fanout=given.fanout,
        guest_slots=given.guest_slots,
        mapping=given.mapping,
        performances=performance.dealt(given.mapping, where.addresses, given.spread, given.seed),
        timing=given.timing,
        execute=given.execute,
        rootless=given.rootless,
        daemon=None if given.daemon is None else str(Path(given.daemon).resolve()),
        previous=None if given.previous is None else str(given.previous.resolve()),
        old=tuple(_address_at(position, where) for position in given.old),
    )


def _address_at(position: int, where: layouts.Layout) -> str:
    for address in where.addresses:
        if layouts.position_of(address, where.network) == position:
            return address
    raise LabError(f"No node of this lab has position {position}. Nothing was started.")


EXPERIMENTS = {
    "discovery": "experiments.discovery",
    "stability": "experiments.stability",
    "sealing": "experiments.sealing",
    "mappings": "mappings.experiment",
    "peers": "peers.experiment",
    "prometheus": "peers.prometheus",
    "siege": "attack.experiment",
}
"""Module of each word of `evaluate`, with `Plan`, `table` and `is_whole`."""

INSIDE: dict[str, Callable[[str], int]] = {
    "babble": bad_input.babble,
    "scan-from": scan.send,
    "record": recorder.record,
    "intrude": intruder.intrude,
    "fetch": page_reader.fetch,
}
"""The lab calls itself once more, inside a node's namespace or on the wire: see node_command.py."""

CALLS: dict[str, Callable[[argparse.Namespace], int]] = {
    "up": up,
    "stabilise": measured,
    "evaluate": evaluated,
    "scan": scanned,
    "heal": healed,
    "run": played,
    "soak": soaked,
    "demo": demo,
    "down": down,
    "status": status,
    "tree": tree,
    "exec": run,
    "kill": kill,
    "start": start,
    "cut-site": sites.cut_site,
    "mend-site": sites.cut_site,
    "tremble": sites.tremble,
    "perform": perform,
    "traffic": sites.traffic,
    "edges": sites.edges,
}
