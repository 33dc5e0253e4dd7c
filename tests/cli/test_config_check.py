"""`subord config check`, and `subord run` with an invalid configuration."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

from subord.cli import main
from subord.config.load import NO_KEY
from subord.config.schema import Config


def file_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "subord.toml"
    path.write_text(text)
    return str(path)


def test_a_valid_file_is_summarized(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = file_of(
        tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\nfanout = 2\ninsecure = true\n[node]\nseeds = ["a", "b"]\n'
    )
    assert main(["config", "check", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{file}: ok, 254 positions"
    assert lines[1:4] == [
        "  cluster.network               10.0.0.0/24",
        "  cluster.network_file          -",
        "  cluster.fanout                2",
    ]
    assert "  node.metrics                  -" in lines
    assert "  node.seeds                    a, b" in lines
    assert "  node.announce                 false" in lines


def test_a_host_list_is_read_and_its_errors_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork_file = "nodes.list"\ninsecure = true\n')
    (tmp_path / "nodes.list").write_text("10.0.0.[5-9]\n10.0.0.1\n")
    assert main(["config", "check", file]) == 0
    assert capsys.readouterr().out.startswith(f"{file}: ok, 6 positions\n")
    assert main(["position", "10.0.0.1", "--config", file]) == 0
    assert "  position  6\n" in capsys.readouterr().out
    (tmp_path / "nodes.list").write_text("10.0.0.[5-9]\n10.0.0.300\n")
    assert main(["config", "check", file]) == 78
    assert f"subord: {tmp_path / 'nodes.list'}:2: '10.0.0.300' is no IP address" in capsys.readouterr().err


def test_an_unavailable_resolver_is_worth_another_try(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(*_: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    file = file_of(tmp_path, '[cluster]\nnetwork_file = "nodes.list"\n')
    (tmp_path / "nodes.list").write_text("node1\n")
    assert main(["run", "--config", file]) == 75
    assert ":1: node1 has no address: temporary failure in name resolution; " in capsys.readouterr().err


def test_a_valid_file_as_an_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\nkey_file = "k"\n[node]\nmetrics = "[::1]:1"\n')
    assert main(["config", "check", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["positions"], found["cluster.port"]) == (file, 254, 7117)
    assert found["node.metrics"] == "[::1]:1"


@pytest.mark.parametrize("command", [["config", "check"], ["config", "check", "--json"], ["run", "--config"]])
def test_an_invalid_file(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]) -> None:
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\nfan_out = 2\n')
    assert main([*command, file]) == 78
    captured = capsys.readouterr()
    assert captured.err == f'subord: {file}:3: unknown key "fan_out" in [cluster]; did you mean "fanout"?\n'
    assert captured.out == ""


@pytest.mark.parametrize(
    ("cluster", "node"),
    [
        ('network = "10.0.0.0/24"', ""),
        ('network = ["10.0.0.1-9", "128.0.0.1", "126.255.255.255"]', ""),
        ('network = "fd00::/64"', ""),
        ('network_file = "nodes.list"', ""),
        ('network = ["127.0.0.1", "10.0.0.1"]', 'address = "10.0.0.1"'),
    ],
)
def test_a_file_without_a_key_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, cluster: str, node: str
) -> None:
    (tmp_path / "nodes.list").write_text("10.0.0.[5-9]\n")
    file = file_of(tmp_path, f"[cluster]\n{cluster}\n[node]\n{node}\n")
    assert main(["config", "check", file]) == 78
    assert capsys.readouterr() == ("", f"subord: {file}: {NO_KEY}\n")
    for way in ("insecure = true", 'key_file = "cluster.key"'):
        file_of(tmp_path, f"[cluster]\n{cluster}\n{way}\n[node]\n{node}\n")
        assert main(["config", "check", file]) == 0


def test_what_is_set_on_the_command_line_is_checked_with_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A unit may run `subord run --config FILE --set KEY=VALUE`: the daemon then reads more than the file."""
    file = file_of(tmp_path, '[cluster]\nnetwork = "10.0.0.0/24"\n')
    assert main(["config", "check", file, "--set", "cluster.insecure=true", "--set", "cluster.fanout=3"]) == 0
    assert re.search(r"^ +cluster\.fanout +3$", capsys.readouterr().out, re.MULTILINE)
    assert main(["config", "check", file, "--set", "cluster.insecure=true", "--set", "cluster.fanout=1"]) == 78
    assert "cluster.fanout" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("network", "node"),
    [
        ("127.0.0.0/8", ""),
        ("127.7.0.[1-9]", ""),
        ("::1", ""),
        ("10.0.0.1,127.255.255.254", ""),
        ("0.0.0.0/0", ""),
        ("10.0.0.1,127.0.0.1", 'address = "127.0.0.1"'),
    ],
)
def test_a_network_with_a_loopback_address_may_need_no_key(tmp_path: Path, network: str, node: str) -> None:
    assert main(["config", "check", file_of(tmp_path, f'[cluster]\nnetwork = "{network}"\n[node]\n{node}\n')]) == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--set", "cluster"], "--set cluster: expected TABLE.KEY=VALUE"),
        (["--set", "cluster.fanout=1"], "--set cluster.fanout=1: fanout must be a whole number"),
        ([], "cluster.network is missing; set the addresses that nodes may have: --config FILE, or --set"),
        (["--config", "/no/such"], "/no/such: cannot read the configuration: No such file or directory"),
    ],
)
def test_run_refuses_before_the_start(capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
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
