"""`subord transfer setup` on a node with Slurm: what is printed and written, and what slurmctld is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import over

from subord.client import exit_codes
from tests.api.served_node import fake_daemon
from tests.cli.test_json import fitting
from tests.cli.transfer_stage import Said, TransferStage

PARTITION = "PartitionName=transfer AllowGroups=ALL Nodes=transfer MaxNodes=1 State=UP"
OTHER = "PartitionName=transfer AllowGroups=ALL Nodes=transferable MaxNodes=1 State=UP"
ADD = "in service: add the lines of slurm.conf that `subord transfer setup` prints, and restart slurmctld"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[TransferStage]:
    stage = TransferStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        stage.hold(1)
        stage.configure(
            7, batch="slurm", socket="/run/methods", batch_environment=(f"PATH={tmp_path}:/usr/bin:/bin",)
        )
        yield stage


def scontrol(folder: Path, partition: str, state: str) -> None:
    """A program that says of the partition, and of the node, what slurmctld would."""
    program = folder / "scontrol"
    node = f"NodeName=transfer State={state} CPUs=12"
    program.write_text(f'#!/bin/sh\ncase $3 in\npartition) echo "{partition}" ;;\nnode) echo "{node}" ;;\nesac\n')
    program.chmod(0o755)


def test_it_prints_and_changes_nothing(stage: TransferStage, capsys: Said, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    code, lines, _ = stage.type(capsys, "setup", "--slots", "12", "--host", "head", "--folder", str(folder))
    assert code == exit_codes.OK
    text = "\n".join(lines)
    for each in (
        "NodeName=transfer NodeHostname=head Port=6830 CPUs=12 State=UNKNOWN",
        "PartitionName=transfer Nodes=transfer MaxNodes=1 PriorityTier=0 State=UP",
        f"TaskProlog={folder}/prolog",
        "-I -m subord transfer start --socket /run/methods",
        f"ExecStart=/usr/sbin/slurmd -D -N transfer -f {folder}/slurm.conf",
    ):
        assert each in text
    assert not folder.exists()


def test_files_are_written_once_and_taken_away(stage: TransferStage, capsys: Said, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    scontrol(tmp_path, PARTITION, "IDLE")
    expected = ["transfer: set up", "slurmctld has the partition transfer with the node transfer"]
    assert stage.type(capsys, "setup", "--apply", "--folder", str(folder))[:2] == (exit_codes.OK, expected)
    assert {each.name: oct(each.stat().st_mode & 0o777) for each in folder.iterdir()} == {
        "start": "0o755",
        "prolog": "0o755",
        "slurm.conf": "0o644",
    }
    _, lines, _ = stage.type(capsys, "setup", "--apply", "--folder", str(folder))
    assert lines[0] == "transfer: nothing was to be done"
    (folder / "start").chmod(0o644)
    _, lines, _ = stage.type(capsys, "setup", "--apply", "--folder", str(folder), "--json")
    found = fitting("transfer-setup", lines[0])
    assert (found["applied"], found["changed"], found["queues"]) == (True, True, ["transfer"])
    assert stage.type(capsys, "setup", "--remove", "--folder", str(folder))[1] == ["transfer: taken away"]
    assert list(folder.iterdir()) == []
    assert stage.type(capsys, "setup", "--remove", "--folder", str(folder))[1] == ["transfer: nothing was to be done"]


@over(
    ("partition", "state", "words"),
    [
        ("", "IDLE", ADD),
        (OTHER, "IDLE", ADD),
        (PARTITION, "DOWN", "in service: its state is DOWN: start slurmd on head: slurmd -N transfer -f "),
        (PARTITION, "IDLE*", "in service: its state is IDLE*: start slurmd on head"),
        (PARTITION, "MIXED", "slurmctld has the partition transfer with the node transfer"),
    ],
)
def test_what_slurmctld_lacks_is_said(partition: str, state: str, words: str, capsys: Said, tmp_path: Path) -> None:
    stage = TransferStage(tmp_path)
    with fake_daemon(stage.node) as stage.path:
        stage.hold(1)
        stage.configure(7, batch="slurm", batch_environment=(f"PATH={tmp_path}:/usr/bin:/bin",))
        scontrol(tmp_path, partition, state)
        words_of = ("setup", "--apply", "--host", "head", "--folder", str(tmp_path / "files"))
        assert words in stage.type(capsys, *words_of)[1][1]


def test_a_folder_that_cannot_be_made(stage: TransferStage, capsys: Said, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = stage.type(capsys, "setup", "--apply", "--folder", str(tmp_path / "file"))
    assert code == exit_codes.NOT_REACHED
    assert "cannot be written to" in err
