"""`netns-lab/lab run`: scenario files are read, all of them are checked, and then each is played in a lab of its own.

Intuition: the printed programme of the evening. Nobody comes on stage before it is certain that every piece on it can
be played.
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
from netlab.scenarios.player import Play
from netlab.scenarios.report import Performance
from subord.core.network import Network
from subord.sim import scenario
from subord.sim.scenario import Scenario, ScenarioError
from subord.sim.script_file import load

WARM_NODES_MIN = 100  # with fewer, memory that is touched first does not show
WORDS_IN_THE_CLEAR = ("terms", "version")  # of `babble`


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A scenario that can be played here."""

    file: Path
    script: Scenario
    sites: Path | None = None


def read(files: Iterable[Path], *, nodes: int | None, rootless: bool, sites: Path | None = None) -> list[Piece]:
    """All scenarios, with `nodes` in that size, if they give one, at `sites`. Raises LabError and Unplayable."""
    pieces = []
    for file in files:
        try:
            script = _sized(load(file), nodes)
            requirements.check(script, rootless=rootless, sites=sites)
        except ScenarioError as reason:
            raise LabError(str(reason)) from None
        except requirements.Unplayable as reason:
            raise requirements.Unplayable(f"{file}: {reason}") from None
        pieces.append(Piece(file=file, script=script, sites=sites))
    return pieces


def _sized(script: Scenario, nodes: int | None) -> Scenario:
    """Raises Unplayable when the steps name nodes that are then missing."""
    if nodes is None or not script.cluster.nodes:
        return script
    cluster = msgspec.structs.replace(script.cluster, nodes=nodes)
    sized = msgspec.structs.replace(script, cluster=cluster)
    try:
        scenario.check(sized)
    except ScenarioError as reason:
        raise requirements.Unplayable(f"not with --nodes {nodes}: {reason}. Nothing was started.") from None
    return sized


def play_all(
    pieces: Iterable[Piece],
    *,
    rootless: bool,
    json_path: Path | None,
    events: Path | None,
    progress: Progress,
    say: Callable[[str], None],
) -> list[Performance]:
    """Play them; what is done is written after every scenario, so that Ctrl-C loses only the present one.

    `events`: a directory that gets every event log. Raises LabError.
    """
    done: list[Performance] = []
    if json_path is not None:
        check_writable(json_path)
        if json_path.is_dir():
            raise LabError(f"--json {json_path}: this is a directory, name a file. Nothing was started.")
    if events is not None:
        _make_directory(events)
    for piece in pieces:
        say(f"{piece.script.title} ({piece.file.name})")
        done.append(_play(piece, rootless=rootless, events=events, progress=progress, say=say))
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


def _write(json_path: Path, done: list[Performance]) -> None:
    try:
        report.write(json_path, done)
    except OSError as reason:
        raise LabError(f"--json {json_path}: {reason.strerror}. What was seen is above; no more is played.") from None


def _play(
    piece: Piece, *, rootless: bool, events: Path | None, progress: Progress, say: Callable[[str], None]
) -> Performance:
    cluster = piece.script.cluster
    network = Network.parse(cluster.network)
    with Lab(
        addresses=[network.address_text_of(position) for position in scenario.positions_of(cluster)],
        network=cluster.network,
        sites=piece.sites,
        fanout=cluster.fanout,
        guest_slots=cluster.guest_slots or cluster.fanout,
        numbering=cluster.numbering,
        timing=cluster.timing,
        disk=cluster.disk,
        seed_nodes=scenario.seeds_of(cluster),
        announce=cluster.announce,
        # These words are not sealed: a daemon with a key would throw them away before it could disagree with them.
        insecure=speaks_in_the_clear(piece.script),
        rootless=rootless,
        progress=progress,
    ) as lab:
        if len(lab.positions) >= WARM_NODES_MIN:
            progress("touching memory", 0, 0)
            lab.touch_memory()
        try:
            performance = Play(piece.script, lab, say=say).run(str(piece.file))
            performance.sites = None if piece.sites is None else piece.sites.name
            return performance
        finally:
            if events is not None:
                _keep(lab.directory.events, events / f"{piece.file.stem}.events")


def speaks_in_the_clear(script: Scenario) -> bool:
    """Whether somebody babbles what only a daemon without a key understands."""
    return any(isinstance(step, scenario.Babble) and step.what in WORDS_IN_THE_CLEAR for step in script.steps)


def _keep(log: Path, copy: Path) -> None:
    try:
        shutil.copyfile(log, copy)
    except OSError as reason:
        raise LabError(f"{copy}: the event log cannot be kept: {reason.strerror}. No more is played.") from None
