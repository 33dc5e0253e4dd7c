"""`netns-lab/lab run`: read the scenario files, check all of them, and then play each in a lab of its own.

Nothing is started before every file is known to be playable.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from netlab.common.results import check_writable
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.processes.launch import Progress
from netlab.scenarios import report, requirements
from netlab.scenarios.player import Player
from netlab.scenarios.report import Result
from subord.core.address.network import Network
from subord.sim.scenario import definition
from subord.sim.scenario.definition import Scenario, ScenarioError
from subord.sim.scenario.file import load

TOUCH_NODES_MIN = 100  # with fewer nodes, touching memory first makes no difference
UNSEALED_INPUT = ("terms", "version")  # of `babble`


@dataclass(frozen=True, kw_only=True)
class Playable:
    """A scenario that can be played here."""

    file: Path
    script: Scenario
    sites: Path | None = None


def read(files: Iterable[Path], *, nodes: int | None, rootless: bool, sites: Path | None = None) -> list[Playable]:
    """All scenarios, at `sites`, and with `nodes` nodes if they give a number. Raises LabError and Unplayable."""
    playable = []
    for file in files:
        try:
            script = _sized(load(file), nodes)
            requirements.check(script, rootless=rootless, sites=sites)
        except ScenarioError as reason:
            raise LabError(str(reason)) from None
        except requirements.Unplayable as reason:
            raise requirements.Unplayable(f"{file}: {reason}") from None
        playable.append(Playable(file=file, script=script, sites=sites))
    return playable


def _sized(script: Scenario, nodes: int | None) -> Scenario:
    """Raises Unplayable when the steps name nodes that are then missing."""
    if nodes is None or not script.cluster.nodes:
        return script
    cluster = msgspec.structs.replace(script.cluster, nodes=nodes)
    sized = msgspec.structs.replace(script, cluster=cluster)
    try:
        definition.check(sized)
    except ScenarioError as reason:
        raise requirements.Unplayable(f"not with --nodes {nodes}: {reason}. Nothing was started.") from None
    return sized


def play_all(
    playable: Iterable[Playable],
    *,
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
    for each in playable:
        say(f"{each.script.title} ({each.file.name})")
        done.append(_play(each, rootless=rootless, events=events, progress=progress, say=say))
        if json_path is not None:
            _write(json_path, done)
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


def _write(json_path: Path, done: list[Result]) -> None:
    try:
        report.write(json_path, done)
    except OSError as reason:
        raise LabError(f"--json {json_path}: {reason.strerror}. What was seen is above; no more is played.") from None


def _play(
    each: Playable, *, rootless: bool, events: Path | None, progress: Progress, say: Callable[[str], None]
) -> Result:
    cluster = each.script.cluster
    network = Network.parse(cluster.network)
    with Lab(
        addresses=[network.address_text_of(position) for position in definition.positions_of(cluster)],
        network=cluster.network,
        sites=each.sites,
        fanout=cluster.fanout,
        guest_slots=cluster.guest_slots or cluster.fanout,
        numbering=cluster.numbering,
        timing=cluster.timing,
        disk=cluster.disk,
        seed_nodes=definition.seeds_of(cluster),
        announce=cluster.announce,
        # This input is not sealed: a daemon with a key would drop it before it reads it.
        insecure=sends_unsealed(each.script),
        rootless=rootless,
        progress=progress,
    ) as lab:
        if len(lab.positions) >= TOUCH_NODES_MIN:
            progress("touching memory", 0, 0)
            lab.touch_memory()
        try:
            played = Player(each.script, lab, say=say).run(str(each.file))
            played.sites = None if each.sites is None else each.sites.name
            return played
        finally:
            if events is not None:
                _keep(lab.directory.events, events / f"{each.file.stem}.events")


def sends_unsealed(script: Scenario) -> bool:
    """Whether it sends input that only a daemon without a key reads."""
    return any(isinstance(step, definition.Babble) and step.what in UNSEALED_INPUT for step in script.steps)


def _keep(log: Path, copy: Path) -> None:
    try:
        shutil.copyfile(log, copy)
    except OSError as reason:
        raise LabError(f"{copy}: the event log cannot be kept: {reason.strerror}. No more is played.") from None
