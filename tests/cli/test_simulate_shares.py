"""`subord simulate shares`: its options, its table, and its JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from loops import over

from subord.cli import main
from subord.client import exit_codes
from subord.services.shares.policy import UnsolvedError
from subord.services.shares.simulation import measures

FIGURE_3 = ["simulate", "shares", "--figure", "3", "--seeds", "1"]


@over(
    ("words", "complaint"),
    [
        ("shares", "--figure is missing: give a figure of the paper, 3 to 8"),
        ("shares --figure 2", "--figure 2: give a figure of the paper, 3 to 8"),
        ("shares --figure 9", "--figure 9: give a figure"),
        ("shares --figure 5 --seeds 0", "--seeds 0: 1 to 1000 seeds of shares"),
        ("shares --figure 5 --seeds 1001", "--seeds 1001: 1 to 1000 seeds"),
        ("shares --figure 5 --first 999999999999999999", "the last seed would be above"),
        ("shares --figure 3 --policy bank", "--policy: in figure 3 no leader decides"),
        ("shares --figure 3 --skewed", "--skewed: in figure 3 no leader decides"),
        ("shares --figure 5 --seed 3", "--seed has no meaning for `subord simulate shares`: leave it out"),
        ("shares --figure 5 --guest-slots 0", "--guest-slots has no meaning"),
        ("shares --figure 5 --trace", "--trace has no meaning"),
        ("shares --figure 5 --jobs 2", "--jobs has no meaning"),
        ("some.toml --figure 5", "--figure belongs to `subord simulate shares`: leave it out"),
        ("--seeds 5 --policy bank", "--policy belongs to `subord simulate shares`"),
        ("--seed 5 --skewed", "--skewed belongs to `subord simulate shares`"),
        ("--seeds 5 --json", "--json of a campaign needs a file: --json FILE"),
        ("", "give a scenario file, --seed N or --seeds COUNT, and only one of them"),
        ("some.toml --seed 5", "and only one of them"),
        ("--seed 5 --seeds 5", "and only one of them"),
    ],
)
def test_wrong_options(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", *words.split()]) == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert output.err.endswith(". Nothing was started.\n")
    assert output.out == ""


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "shares", "--figure", "4", "--seeds", "1"]) == 0
    output = capsys.readouterr().out
    head, _, _, *rows = output.splitlines()
    assert head == (
        "figure 4: 4 nodes under 2 leaders, class 3 on 1, bank; 1 seed from 0 on, 400 rounds of 0.3 s each"
    )
    assert rows[2].split()[0] == "class3"
    assert rows[2].endswith("10.5, std 2.8")
    assert "ms by one leader of all nodes" in output


def test_json_is_printed_or_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIGURE_3, "--first", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["figure"], printed["seeds"], printed["first"]) == (3, 1, 2)
    assert set(printed["class3"]) == set(printed["static"]["class1"]) == {"mean", "std"}
    assert main([*FIGURE_3, "--first", "2", "--json", str(tmp_path / "shares.json")]) == 0
    assert json.loads((tmp_path / "shares.json").read_text()) == printed
    assert capsys.readouterr().out == ""
    assert main([*FIGURE_3, "--json", str(tmp_path)]) == 74
    assert capsys.readouterr().err.endswith("Is a directory; nothing was written\n")


@over(("file", "complaint"), [("", "Is a directory"), ("none/shares.json", "No such file or directory")])
def test_a_file_that_cannot_be_written_is_said_before_the_simulation(
    file: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("the simulation has begun")

    monkeypatch.setattr(measures, "measured", fail)
    assert main([*FIGURE_3, "--json", str(tmp_path / file)]) == 74
    assert capsys.readouterr().err.endswith(f"{complaint}; nothing was written\n")


def test_a_file_of_that_name_is_still_a_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shares").write_text('title = "Three nodes start"\ncluster = { nodes = 3 }\nsteps = [{ do = "start" }]\n')
    assert main(["simulate", "./shares"]) == 0
    assert "Three nodes start" in capsys.readouterr().out


def test_cluster_reserves_without_scipy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert main(["simulate", "shares", "--figure", "4", "--policy", "reserves"]) == 78
    complaint = capsys.readouterr().err
    assert complaint.endswith("`pip install 'subord[shares]'`, on Debian python3-scipy. Nothing was started.\n")


def test_a_program_without_solution_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UnsolvedError("the first program of cluster reserves has no solution: it is infeasible")

    monkeypatch.setattr(measures, "measured", fail)
    assert main(["simulate", "shares", "--figure", "4", "--policy", "reserves"]) == exit_codes.NOT_REACHED
    assert "it is infeasible. Give another seed, or --policy bank." in capsys.readouterr().err
