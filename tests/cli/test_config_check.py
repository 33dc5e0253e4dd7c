"""`subord config check`, and `subord run` with an invalid configuration."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
from ports import free_port
from signers import Signers

from subord.cli import config_check, main
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
    assert lines[1:6] == [
        "  cluster.network               10.0.0.0/24",
        "  cluster.network_file          -",
        "  cluster.expect                -",
        "  cluster.name                  -",
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


# -- --here ---------------------------------------------------------------------------------------------------------

PORT = free_port(socket.SOCK_STREAM, "127.0.0.1")
KEY = "primary AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with which a daemon can start on this machine."""
    monkeypatch.setattr(config_check, "DAEMON_USER", "no-such-user")
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text(KEY)
    return file_of(
        tmp_path,
        f'[cluster]\nnetwork = "127.0.0.1"\nport = {PORT}\nkey_file = "key"\n'
        f'[node]\ncontrol_socket = "{tmp_path}/control"\nmetrics = "127.0.0.1:{PORT + 1}"\n',
    )


def test_a_machine_that_has_all_is_summarized(capsys: pytest.CaptureFixture[str], here: str) -> None:
    assert main(["config", "check", "--here", here]) == 0
    lines = capsys.readouterr().out.partition("on this machine:\n")[2].splitlines()
    found = dict(line.split(maxsplit=1) for line in lines if line.split()[0] not in {"UDP", "TCP"})
    assert found["address"] == "127.0.0.1 on lo"
    assert found["key"].startswith("revision 0, ")
    assert found["metrics"] == "free"
    assert [line.split() for line in lines if line.split()[0] in {"UDP", "TCP"}] == [
        ["UDP", str(PORT), "free"],
        ["TCP", str(PORT), "free"],
    ]
    assert main(["config", "check", "--here", "--json", here]) == 0
    assert json.loads(capsys.readouterr().out)["here"][f"UDP {PORT}"] == "free"


def test_the_operators_are_counted_and_none_is_no_fault(
    capsys: pytest.CaptureFixture[str], here: str, tmp_path: Path
) -> None:
    signers = Signers(tmp_path)
    file = signers.write("ann {ann}", "nonsense")
    for spoil, line in (
        (lambda: None, f"1 in {file}, 1 line with faults: see `subord operator check {file}`"),
        (lambda: file.chmod(0o666), f"none: this node's operators file {file} does not count: "),
        (file.unlink, f"none: this node has no operators file {file}, so it takes no orders; see node.operators ("),
    ):
        spoil()
        words = ["config", "check", "--here", "--json", here, "--set", f"node.operators={file}"]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["here"]["operators"].startswith(line)


def missing_key(folder: Path) -> None:
    (folder / "key").unlink()


def open_key(folder: Path) -> None:
    (folder / "key").chmod(0o644)


def foreign_key(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(folder / "key", 1, 1)


def other_text(folder: Path) -> None:
    (folder / "key").write_text("primary secret\n")


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (missing_key, "there is no such file; copy it from another node"),
        (open_key, "mode 0644 opens it to others; `chmod 600"),
        (foreign_key, "belongs to user 1, which could read it; `chown` it"),
        (other_text, "key: line 1: a key is 32 bytes"),
    ],
)
@pytest.mark.parametrize("has_address", [True, False])
def test_a_key_file_that_the_daemon_would_refuse(
    spoil: Callable[[Path], None], line: str, has_address: bool, capsys: pytest.CaptureFixture[str], here: str
) -> None:
    spoil(Path(here).parent)
    address = [] if has_address else ["--set", "cluster.network=198.51.100.0/24"]
    assert main(["config", "check", here, *address]) == 0
    capsys.readouterr()
    assert main(["config", "check", "--here", here, *address]) == 78
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"subord: {here}: a daemon cannot start with it on this machine: ")
    assert line in captured.err
    assert captured.err.endswith(". Nothing was changed\n")


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        (
            "cluster.network=198.51.100.0/24",
            "this machine has no address inside the network 198.51.100.0/24: correct cluster",
        ),
        ("node.interface=no-such0", "this machine has no interface no-such0: set node.interface to one of"),
        ("node.metrics=198.51.100.1:9717", "TCP 198.51.100.1:9717: this host has no address 198.51.100.1"),
    ],
)
def test_an_address_that_this_machine_lacks(
    assignment: str, line: str, capsys: pytest.CaptureFixture[str], here: str
) -> None:
    assert main(["config", "check", "--here", here, "--set", assignment]) == 75
    assert line in capsys.readouterr().err


@pytest.fixture
def held() -> Iterator[None]:
    """Another program has all ports."""
    with ExitStack() as stack:
        stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind(("127.0.0.1", PORT))
        for port in (PORT, PORT + 1):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("has_daemon", [False, True])
def test_every_port_of_another_program_is_named(
    has_daemon: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    """Also if a daemon runs, on another port."""
    status = {"address": "127.0.0.1", "port": PORT + 5, "incarnation": 1, "version": "0"}
    monkeypatch.setattr(config_check, "_running", lambda _: status if has_daemon else {})
    monkeypatch.setattr(config_check, "ANSWER_S", 0.1)
    assert main(["config", "check", "--here", here]) == 75
    error = capsys.readouterr().err
    assert f"UDP 127.0.0.1 port {PORT} is taken: is another subord running? Stop it, or set cluster.port" in error
    assert f"TCP 127.0.0.1:{PORT} is taken" in error
    assert f"TCP 127.0.0.1:{PORT + 1} is taken" in error


def test_a_daemon_that_hangs_is_not_taken_for_another_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    path = Path(here).parent / "control"
    monkeypatch.setattr(config_check, "ANSWER_S", 0.1)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        assert main(["config", "check", "--here", here]) == 75
    error = f"subord: the daemon at {path} does not answer within 0.1 s: nothing was changed\n"
    assert capsys.readouterr().err == error


def test_root_checks_as_the_user_of_the_daemon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    """In a process of its own, which gives up its rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(config_check, "DAEMON_USER", "nobody")
        code = main(["config", "check", "--here", here])
        os._exit(code if "(read as user nobody)" in capsys.readouterr().err else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 78


def test_run_hands_the_configuration_to_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[Config] = []
    daemon = ModuleType("subord.daemon")
    daemon.main = lambda config: configs.append(config) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "subord.daemon", daemon)
    assert main(["run", "--set", "cluster.network=10.0.0.0/24", "--set", "cluster.fanout=2"]) == 3
    assert [config.cluster.fanout for config in configs] == [2]
