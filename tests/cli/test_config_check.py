"""`subord config check`, and how `subord run` meets a wrong configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from subord.cli import main
from subord.config import Config


def file_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "subord.toml"
    path.write_text(text)
    return str(path)


def test_a_right_file_is_summed_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\nfanout = 2\n')
    assert main(["config", "check", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}: ok, 254 positions"
    assert lines[1:4] == [
        "  cluster.network       10.0.0.0/24",
        "  cluster.fanout        2",
        "  cluster.guest_slots   2",
    ]
    assert "  node.metrics          -" in lines


def test_a_right_file_as_an_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\n[node]\nmetrics = "[::1]:1"\n')
    assert main(["config", "check", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["positions"], found["cluster.port"]) == (file, 254, 7117)
    assert found["node.metrics"] == "[::1]:1"


@pytest.mark.parametrize("command", [["config", "check"], ["config", "check", "--json"], ["run", "--config"]])
def test_a_wrong_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\nfan_out = 2\n')
    assert main([*command, file]) == 78
    captured = capsys.readouterr()
    assert captured.err == f'subord: {file}:3: unknown key "fan_out" in [cluster]; did you mean "fanout"?\n'
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--set", "cluster"], "--set cluster: expected TABLE.KEY=VALUE"),
        (["--set", "cluster.fanout=1"], "--set cluster.fanout=1: fanout must be a whole number"),
        ([], "cluster.network is missing; say which addresses nodes may have: --config FILE, or --set"),
        (["--config", "/no/such"], "/no/such: cannot read the configuration: No such file or directory"),
    ],
)
def test_run_refuses_before_it_starts_anything(
    capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert main(["run", *words]) == 78
    captured = capsys.readouterr()
    assert captured.err.startswith(f"subord: {line}")
    assert (captured.err.count("\n"), captured.out) == (1, "")


def test_run_hands_the_configuration_to_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Config] = []
    daemon = ModuleType("subord.daemon")
    daemon.main = lambda config: configs.append(config) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "subord.daemon", daemon)
    assert main(["run", "--set", "cluster.network=10.0.0.0/24", "--set", "cluster.fanout=2"]) == 3
    assert [config.cluster.fanout for config in configs] == [2]
