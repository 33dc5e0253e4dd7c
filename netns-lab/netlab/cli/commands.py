"""The commands that raise a lab which stays, or act on one. Each takes parsed arguments and returns the exit code.

Exit codes: those of ending.py; 2 wrong arguments. All other commands are in measurements.py, which imports
experiments.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from netlab.cli.arguments import of_lab, parser
from netlab.cli.ending import exit_code
from netlab.cli.terminal import Terminal
from netlab.common.tables import aligned
from netlab.errors import LabError
from netlab.eventlog import tree as trees
from netlab.eventlog.events import Cluster, EventLog
from netlab.lab import Lab, facts, start_order
from netlab.processes import enter
from netlab.processes.client import Client, attach
from netlab.processes.launch import LabHandle
from netlab.processes.options import Options
from netlab.topology.wan import LATE_S

WAY_COLUMNS = ("frames", "bytes", "lost", "queue_full", "cut", "no_room")


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = parser(arguments).parse_args(arguments)
    return exit_code(lambda: _called(given))


def _called(given: argparse.Namespace) -> int:
    if given.do == "up":
        return up(given)
    if given.do not in ON_LAB:
        code: int = import_module("netlab.cli.measurements").CALLS[given.do](given)
        return code
    with attach(given.name) as controller:
        return ON_LAB[given.do](controller, given)


def up(given: argparse.Namespace) -> int:
    """Raise a lab, start all nodes; stay in the background, or in the foreground until Ctrl-C."""
    terminal = Terminal()
    about = {name: getattr(given, name) for name in ("name", "previous", "old", "classes", "quota")}
    about["agents"] = bool(given.classes)
    lab = Lab(given.nodes, given.fanout, **of_lab(given), **about)
    handle = LabHandle(lab.options, terminal.progress)
    try:
        with Client(handle.directory) as controller:
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


def down(lab: Client, given: argparse.Namespace) -> int:
    lab.end()
    print(f"The lab {given.name} is gone.")
    return 0


def status(lab: Client, _given: argparse.Namespace) -> int:
    """What the event log and the controller know, without asking a daemon."""
    info, options, cluster = _seen(lab)
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


def _seen(lab: Client) -> tuple[dict[str, Any], Options, Cluster]:
    """What the controller says; in it the options; what the event log says."""
    info = lab.ask("info")
    return info, Options.from_json(info["options"]), Cluster.of(EventLog(Path(info["events"])).new())


def execute(lab: Client, given: argparse.Namespace) -> int:
    command = _without_dashes(given.command)
    if not command:
        raise LabError("Which command? For example: netns-lab/lab exec 7 -- subord status")
    return enter.run_in(lab, given.node, command)


def tree(lab: Client, given: argparse.Namespace) -> int:
    live = [node for node in lab.ask("info")["nodes"] if node["pid"] is not None]
    if not live:
        raise LabError("No node is running: `netns-lab/lab start NODE` starts one.")
    return enter.run_in(lab, live[0]["address"], ["subord", "tree", *_without_dashes(given.options)])


def _without_dashes(words: list[str]) -> list[str]:
    return words[1:] if words[:1] == ["--"] else words


def traffic(lab: Client, given: argparse.Namespace) -> int:
    """What has crossed from site to site so far: a line a direction; then what is late, under way, cut or dropped."""
    found = lab.ask("relay", request={"do": "traffic"})
    if given.json:
        print(json.dumps(found, indent=1))
        return 0
    rows = [["from", "to", *WAY_COLUMNS]]
    rows += [[way["from"], way["to"], *(str(way[column]) for column in WAY_COLUMNS)] for way in found["ways"]]
    print(aligned(rows))
    print(
        f"Late by {1e3 * found['late_s_mean']:.2f} ms on average, {1e3 * found['late_s_max']:.1f} ms at the most,"
        f" {found['late']} frames by more than {1e3 * LATE_S:g} ms.\n{found['under_way']} frames are under way."
    )
    if found["cut_sites"]:
        print(f"Cut off: {', '.join(found['cut_sites'])}.")
    if left_out := sum(found["overrun"].values()) + found["refused"]:
        print(f"{left_out} frames were too many for the relay or the kernel.")
    return 0


def edges(lab: Client, _given: argparse.Namespace) -> int:
    """Edges of the present tree: a row for the site of the subordinate, a column for that of its leader; the sum."""
    _, options, cluster = _seen(lab)
    if (sites := options.sites) is None:
        raise LabError("This lab has no sites: raise it with `--sites FILE`. Nothing was changed.")
    found = trees.edges_between(cluster.leaders(), sites.name_of)
    rows = [["below \\ above", *sites.names]]
    rows += [[below, *(str(found[below, above]) for above in sites.names)] for below in sites.names]
    wide = trees.wide_edges(cluster.leaders(), sites.name_of)
    print(f"{aligned(rows)}\n{wide} of {found.total()} edges lead from one site to another.")
    return 0


def _request(lab: Client, do: str, **request: Any) -> int:
    lab.ask(do, **request)
    return 0


def _on_node(lab: Client, given: argparse.Namespace, do: str, **request: Any) -> int:
    address = enter.find_node(lab.ask("info"), given.node)["address"]
    return _request(lab, do, **({"addresses": [address]} if do == "start" else {"address": address}), **request)


ON_LAB: dict[str, Callable[[Client, argparse.Namespace], int]] = {
    "down": down,
    "status": status,
    "tree": tree,
    "exec": execute,
    "kill": lambda lab, given: _on_node(lab, given, "signal", number=given.signal),
    "start": lambda lab, given: _on_node(lab, given, "start", release=given.release),
    "perform": lambda lab, given: _on_node(lab, given, "perform", jobs_per_hour=given.jobs),
    "load": lambda lab, given: _on_node(
        lab, given, "groups", what="load", name=given.class_name, busy=not given.stop
    ),
    "cut-site": lambda lab, given: _request(lab, "cut_site", site=given.site, connected=False),
    "mend-site": lambda lab, given: _request(lab, "cut_site", site=given.site, connected=True),
    "tremble": lambda lab, given: _request(lab, "relay", request={"do": "jitter", "share": given.share}),
    "traffic": traffic,
    "edges": edges,
}
"""What acts on a lab that runs."""
