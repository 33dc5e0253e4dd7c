"""`netns-lab/lab run`: scenario files are read, all of them are checked, and then each is played in a lab of its own.

Intuition: the printed programme of the evening. Nobody comes on stage before it is certain that every piece on it can
be played.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from netlab import playable, report
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.launch import Progress
from netlab.play import Play
from netlab.report import Performance
from netlab.stabilise import check_writable
from subord.core.network import Network
from subord.sim import scenario
from subord.sim.scenario import Scenario, ScenarioError

WARM_NODES_MIN = 100  # with fewer, memory that is touched first does not show


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A scenario that can be played here."""

    file: Path
    script: Scenario


def read(files: Iterable[Path], *, nodes: int | None, rootless: bool) -> list[Piece]:
    """All scenarios; with `nodes` in that size, if they give one. Raises LabError and Unplayable."""
    pieces = []
    for file in files:
        try:
            script = _sized(scenario.read(file.read_text()), nodes)
            playable.check(script, rootless=rootless)
        except OSError as reason:
            raise LabError(f"{file}: {reason.strerror}. Nothing was started.") from None
        except UnicodeDecodeError:
            raise LabError(f"{file}: this is no text. Nothing was started.") from None
        except ScenarioError as reason:
            raise LabError(f"{file}: {reason}. Nothing was started.") from None
        except playable.Unplayable as reason:
            raise playable.Unplayable(f"{file}: {reason}") from None
        pieces.append(Piece(file=file, script=script))
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
        raise playable.Unplayable(f"not with --nodes {nodes}: {reason}. Nothing was started.") from None
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
    if events is not None:
        events.mkdir(parents=True, exist_ok=True)
    for piece in pieces:
        say(f"{piece.script.title} ({piece.file.name})")
        done.append(_play(piece, rootless=rootless, events=events, progress=progress, say=say))
        if json_path is not None:
            report.write(json_path, done)
    return done


def _play(
    piece: Piece, *, rootless: bool, events: Path | None, progress: Progress, say: Callable[[str], None]
) -> Performance:
    cluster = piece.script.cluster
    network = Network.parse(cluster.network)
    with Lab(
        addresses=[network.address_text_of(position) for position in scenario.positions_of(cluster)],
        network=cluster.network,
        fanout=cluster.fanout,
        guest_slots=cluster.guest_slots or cluster.fanout,
        numbering=cluster.numbering,
        timing=cluster.timing,
        disk=cluster.disk,
        rootless=rootless,
        progress=progress,
    ) as lab:
        if len(lab.positions) >= WARM_NODES_MIN:
            progress("touching memory", 0, 0)
            lab.touch_memory()
        try:
            return Play(piece.script, lab, say=say).run(str(piece.file))
        finally:
            if events is not None:
                shutil.copyfile(lab.directory.events, events / f"{piece.file.stem}.events")
