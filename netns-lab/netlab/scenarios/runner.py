"""`netns-lab/lab run`: read the scenario files, check all of them, and then play each in a lab of its own.

Nothing is started before every file is known to be playable on this machine.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from netlab.common.results import check_writable
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.launch import Progress
from netlab.scenarios.player import Player
from netlab.scenarios.report import Result, write
from netlab.topology import filters
from netlab.topology.addresses import NODES_MAX
from netlab.topology.sites import read_sites
from subord.config.source import cut
from subord.core.address.network import Network
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, ScenarioError, Step
from subord.sim.scenario.file import load
from subord.sim.scenario.lasting import Lasting

TOUCH_NODES_MIN = 100  # with fewer nodes, touching memory first makes no difference
Script = tuple[Path, Scenario]
UNSEALED_INPUT = ("terms", "version")  # of `babble`


class Unplayable(Exception):  # noqa: N818  # no mistake: the simulator can play it
    """One sentence: what the scenario asks for and this lab cannot do."""


def read(files: Iterable[Path], *, nodes: int | None, rootless: bool, sites: Path | None = None) -> list[Script]:
    """All scenarios, with `nodes` nodes if they give a number; at `sites`. Raises LabError and Unplayable."""
    found = []
    for file in files:
        try:
            script = _sized(load(file), nodes)
            check(script, rootless=rootless, sites=sites)
            found.append((file, script))
        except ScenarioError as reason:
            raise LabError(str(reason)) from None
        except Unplayable as reason:
            raise Unplayable(f"{file}: {reason} Nothing was started.") from None
    return found


def _sized(script: Scenario, nodes: int | None) -> Scenario:
    """Raises Unplayable when the steps name nodes that are then missing."""
    if nodes is None or not script.cluster.nodes:
        return script
    cluster = msgspec.structs.replace(script.cluster, nodes=nodes)
    sized = msgspec.structs.replace(script, cluster=cluster)
    try:
        definition.check(sized)
    except ScenarioError as reason:
        raise Unplayable(f"not with --nodes {nodes}: {reason}.") from None
    return sized


def play_all(
    scripts: Iterable[Script],
    *,
    sites: Path | None,
    rootless: bool,
    json_path: Path | None,
    events: Path | None,
    progress: Progress,
    say: Callable[[str], None],
) -> list[Result]:
    """Play them; the results are written after every scenario, so that Ctrl-C loses only the present one.

    `events`: a directory that gets every event log. Raises LabError.
    """
    done: list[Result] = []
    if json_path is not None:
        check_writable(json_path)
        if json_path.is_dir():
            raise LabError(f"--json {json_path}: this is a directory, name a file. Nothing was started.")
    if events is not None:
        _make_directory(events)
    for file, script in scripts:
        say(f"{script.title} ({file.name})")
        with lab_of(script, sites=sites, rootless=rootless, progress=progress) as lab:
            if len(lab.positions) >= TOUCH_NODES_MIN:
                lab.progress("touching memory")
                lab.touch_memory()
            try:
                done.append(Player(script, lab, say=say).run(str(file)))
                done[-1].sites = None if sites is None else sites.name
            finally:
                if events is not None:
                    copy = events / f"{file.stem}.events"
                    with _telling(f"--events {copy}"):
                        shutil.copyfile(lab.directory.events, copy)
        if json_path is not None:
            with _telling(f"--json {json_path}"):
                write(json_path, done)
    return done


def _make_directory(events: Path) -> None:
    try:
        events.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LabError(f"--events {events}: this is no directory, name one. Nothing was started.") from None
    except OSError as reason:
        raise LabError(f"--events {events}: {reason.strerror}; name another. Nothing was started.") from None
    if not os.access(events, os.W_OK | os.X_OK):
        raise LabError(f"--events {events}: we may not write there; name another. Nothing was started.")


@contextmanager
def _telling(what: str) -> Iterator[None]:
    """Raises LabError where a file cannot be written after all."""
    try:
        yield
    except OSError as reason:
        raise LabError(f"{what}: {reason.strerror}. What was seen is above; no more is played.") from None


def lab_of(script: Scenario, *, sites: Path | None, rootless: bool, progress: Progress) -> Lab:
    cluster = script.cluster
    network = Network.parse(cluster.network)
    return Lab(
        addresses=[network.address_text_of(position) for position in definition.positions_of(cluster)],
        network=cluster.network,
        sites=sites,
        fanout=cluster.fanout,
        guest_slots=cluster.guest_slots or cluster.fanout,
        numbering=cluster.numbering,
        timing=cluster.timing,
        disk=cluster.disk,
        seed_nodes=definition.seeds_of(cluster),
        announce=cluster.announce,
        # This input is not sealed: a daemon with a key would drop it before it reads it.
        insecure=sends_unsealed(script),
        rootless=rootless,
        progress=progress,
    )


def sends_unsealed(script: Scenario) -> bool:
    """Whether it sends input that only a daemon without a key reads."""
    return any(isinstance(step, definition.Babble) and step.what in UNSEALED_INPUT for step in script.steps)


def check(script: Scenario, *, rootless: bool, sites: Path | None = None) -> None:
    """`sites`: the file of sites to play it at. Raises Unplayable, and LabError for that file."""
    if wants := [f"{number} ({what})" for number, step in enumerate(script.steps, 1) for what in _beyond(step)]:
        many = len(wants) > 1
        steps = f"step{'s' if many else ''} {', '.join(wants)} ask{'' if many else 's'} for"
        raise Unplayable(f"the lab cannot do what {steps}: `subord simulate` can.")
    nodes = definition.positions_of(script.cluster)
    if len(nodes) > NODES_MAX:
        raise Unplayable(f"{len(nodes)} nodes: a lab has at most {NODES_MAX}; `subord simulate` takes more.")
    _check_network(script.cluster.network, nodes[-1])
    if sites is not None:
        _check_sites(script, sites)
    elif any(map(_is_filtered, script.steps)) and (reason := filters.obstacle(rootless=rootless)) is not None:
        raise Unplayable(f"its faults of the network are made with nftables, and {reason}")


def _beyond(step: Step) -> list[str]:
    """The parts of a step that only the simulator can do."""
    if isinstance(step, definition.Jump | definition.Hangup | definition.Perform | definition.Dwell | Lasting):
        return [str(step.__struct_config__.tag)]
    if isinstance(step, definition.Weather):
        return [f"weather: {name}" for name in ("delay_s", "jitter_s", "doubled") if getattr(step, name) > 0]
    return []


def _is_filtered(step: Step) -> bool:
    return isinstance(step, definition.Block | definition.Partition) or (
        isinstance(step, definition.Weather) and step.loss > 0
    )


def _check_sites(script: Scenario, file: Path) -> None:
    network = Network.parse(script.cluster.network)
    positions = definition.positions_of(script.cluster)
    sites = read_sites(file).place(list(map(network.address_text_of, positions)))
    for number, step in enumerate(script.steps, 1):
        tag = step.__struct_config__.tag
        if isinstance(step, definition.Partition):
            for group in step.groups:
                named = definition.select(group, script.cluster, among=positions)
                if "root" in group or sites.all_of(list(map(network.address_text_of, named))) is None:
                    raise Unplayable(
                        f"with --sites only whole sites can be cut off, and group `{cut(group)}` of step {number}"
                        f" ({tag}) is none: `netns-lab/lab status` shows the site of each node."
                    )
        elif _is_filtered(step) or isinstance(step, definition.Reuse):
            raise Unplayable(f"with --sites the lab cannot do step {number} ({tag}).")


def _check_network(text: str, highest: int) -> None:
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError:
        raise Unplayable(f"cluster.network {text}: the lab needs one IPv4 block.") from None
    if highest > block.num_addresses - 2:
        raise Unplayable(f"cluster.network {text} has no position {highest}.")
