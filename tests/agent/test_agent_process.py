"""The program `subord-agent` behind a real daemon: the socket of systemd, its end without work, its checks."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import toy_services
from ports import free_port
from signers import Signers

from subord.agent import check_elastic, check_machines
from subord.agent.main import main
from subord.api.http.sockets import bind_unix
from subord.services.shares.actuators import overview

pytestmark = pytest.mark.slow

HELPERS = str(Path(toy_services.__file__).parent)
WITH_TOY = f"import sys; sys.path.insert(0, {HELPERS!r}); import toy_services; toy_services.register(); "
DAEMON = WITH_TOY + "from subord.cli import main; sys.exit(main())"
AGENT = WITH_TOY + "from subord.agent.main import main; sys.exit(main())"
POLICY = '[[allow]]\nprincipals = ["ann"]\nservices = ["touch"]\nusers = ["root"]\n'
WAIT_S = 20


class Node:
    """A node in a directory, with an operator."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.signers = Signers(top)
        self.signers.write("ann {ann}")
        (top / "policy.toml").write_text(POLICY)
        (top / "agent").mkdir(mode=0o700)
        self.config = top / "subord.toml"
        port = free_port(socket.SOCK_STREAM, "127.0.0.1")
        self.config.write_text(
            f'[cluster]\nnetwork = "127.0.0.1/32"\ninsecure = true\nport = {port}\n'
            f'[node]\noperators = "{self.signers.file}"\ncontrol_socket = "{top}/c"\n'
            f'[agent]\nsocket = "{top}/a"\npolicy = "policy.toml"\nstate_directory = "{top}/agent"\nidle_s = 1\n'
        )
        self.listener = bind_unix(top / "a")

    def agent(self, before: str = "") -> subprocess.Popen[str]:
        """As systemd starts it for a connection. `before`: what its Python does first."""
        descriptor = self.listener.fileno()
        passed = (
            f"import os; os.dup2({descriptor}, 3); os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); "
        )
        words = [sys.executable, "-c", passed + before + AGENT, "--config", str(self.config)]
        return subprocess.Popen(
            words, cwd=self.top, pass_fds=[self.listener.fileno()], stderr=subprocess.PIPE, text=True
        )

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SUBORD_OPERATOR_KEY": str(self.signers.key("ann"))}
        command = [sys.executable, "-c", DAEMON, *words, "--socket", str(self.top / "c")]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False, cwd=self.top
        )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.listener.close()


@pytest.fixture
def daemon(node: Node) -> Iterator[None]:
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, "run", "--config", str(node.config)], stderr=subprocess.DEVNULL
    )
    try:
        assert node.command("wait", "--state", "placed").returncode == 0
        yield
    finally:
        daemon.terminate()
        daemon.wait(WAIT_S)


@pytest.mark.usefixtures("daemon")
def test_systemds_socket_starts_it_and_it_ends_without_work(node: Node) -> None:
    touched = "touched: 1\n1 of 1 answered in "
    with node.agent() as agent:
        done = node.command("touch", "file")
        assert done.stdout.startswith(touched), done.stderr
        done = node.command("touch", "file", "--user", "nobody")
        assert done.stdout.endswith("; missing: localhost denied\n") or "denied" in done.stdout
        assert agent.wait(WAIT_S) == 0
        assert agent.stderr is not None
        log = agent.stderr.read()
    assert "order touch of ann as root accepted" in log
    assert "order touch of ann as nobody refused, denied" in log
    assert (node.top / "file").read_text() == "ann as root\n"
    with node.agent() as agent:
        assert node.command("touch", "file").stdout.startswith(touched)
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(WAIT_S) == 0


@pytest.mark.usefixtures("daemon")
def test_what_cannot_be_recovered_does_not_take_the_agent_away(node: Node) -> None:
    (node.top / "agent" / "files" / "sets" / "web.set").mkdir(parents=True)
    with node.agent() as agent:
        assert node.command("touch", "file").stdout.startswith("touched: 1\n1 of 1 answered in ")
        assert agent.wait(WAIT_S) == 0
        assert agent.stderr is not None
        assert "the record of the set web cannot be read" in agent.stderr.read()


def test_without_a_connection_it_ends_too(node: Node) -> None:
    began = time.monotonic()
    with node.agent() as agent:
        assert agent.wait(WAIT_S) == 0
    assert time.monotonic() - began > 1


def test_python_before_3_11_4_is_told_to_fork(node: Node) -> None:
    """With vfork(2) it would hold up all threads until a program has been read."""
    tell = "trio.run = lambda *_: print('vfork:', subprocess._USE_VFORK, file=sys.stderr)"
    before = f"import subprocess, sys, trio; {tell}; sys.version_info = (3, 11, 3, 'final', 0); "
    with node.agent(before) as agent:
        assert agent.wait(WAIT_S) == 0
        assert agent.stderr is not None
        assert agent.stderr.read().endswith("vfork: False\n")


def test_the_check_names_what_is_wrong(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", str(node.config), "--check"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        "node: 127.0.0.1 on lo, position 1",
        f"operators: {node.signers.file}: 1 lines name operators",
        f"policy: {node.top}/policy.toml: 1 rules",
        f"journal: {node.top}/agent: ok",
    ]
    (node.top / "agent").chmod(0o777)
    node.signers.file.chmod(0o666)
    (node.top / "policy.toml").write_text("[[allow]")
    assert main(words) == 78
    out = capsys.readouterr().out
    assert "mode 0777; chmod 700" in out
    assert "its mode is 0666; chmod 644" in out
    assert f"policy: {node.top}/policy.toml: " in out


def test_the_check_names_the_groups_of_classes(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with node.config.open("a") as file:
        file.write('[shares]\nclasses = ["web=/apps/web"]\n')
    for is_sound, code in ((True, 0), (False, 78)):
        monkeypatch.setattr(overview, "overview", lambda config, found=is_sound: (" ".join(config.classes), found))
        assert main(["--config", str(node.config), "--check"]) == code
        assert capsys.readouterr().out.splitlines()[-1] == "shares: web=/apps/web"


def test_the_check_tells_of_elastic_growth(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--config", str(node.config), "--check"]
    assert main(words) == 0
    assert "elastic" not in capsys.readouterr().out, "a node that has no part in it"
    with node.config.open("a") as file:
        file.write('[elastic]\nbatch = "slurm"\n')
    for found, code in (((), 0), (("elastic.key is empty", "elastic.stop is empty"), 78)):
        monkeypatch.setattr(check_elastic, "faults", lambda config, found=found: found)  # noqa: ARG005
        assert main(words) == code
        lines = [each for each in capsys.readouterr().out.splitlines() if each.startswith("elastic: ")]
        assert lines[0] == "elastic: this node may manage a cluster of slurm; it adds nodes of one kind"
        assert lines[1:] == [f"elastic: {each}" for each in found]


def test_the_check_looks_the_key_of_the_queue_s_node_up(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager would see each fault only at its first order, on another node."""
    monkeypatch.setattr(check_elastic, "faults", lambda _: ())
    key, path = node.signers.key("queue"), f"{node.top}/policy.toml"
    with node.config.open("a") as file:
        file.write(f'[elastic]\nbatch = "slurm"\nkey = "{key}"\n')

    def found() -> list[str]:
        main(["--config", str(node.config), "--check"])
        lines = capsys.readouterr().out.splitlines()
        return [each.removeprefix("elastic: ") for each in lines if each.startswith("elastic: ")][1:]

    (unknown,) = found()
    assert unknown.startswith(f"no line of {node.signers.file} has elastic.key (SHA256:")
    assert unknown.endswith('with namespaces="subord.elastic,subord.hosts"')
    node.signers.write("ann {ann}", "elastic@queue {queue}")
    assert found()[0].startswith(f"line 2 of {node.signers.file} lets elastic.key sign plans, as operators do: ")
    node.signers.write("ann {ann}", 'elastic@queue namespaces="subord.elastic" {queue}')
    line, first, second = found()
    assert line == f"line 2 of {node.signers.file} does not give elastic.key subord.hosts: add it on each node"
    begin = f"{path} does not allow elastic@queue, the operator of elastic.key, "
    assert first == f'{begin}services = ["elastic"] with users = ["steps"]: add it on each node'
    assert second == f'{begin}services = ["hosts"] with users = ["root"]: add it on each node'
    node.signers.write("ann {ann}", 'elastic@queue namespaces="subord.elastic,subord.hosts" {queue}')
    rule = '[[allow]]\nprincipals = ["elastic@queue"]\nservices = ["{}"]\nusers = ["{}"]\n'
    Path(path).write_text(rule.format("elastic", "steps") + rule.format("hosts", "root"))
    assert found() == []
    Path(path).write_text(rule.format("*", "*"))
    (too_much,) = found()
    assert too_much.startswith(f"{path} allows elastic@queue, the operator of elastic.key, ")
    assert too_much.endswith('so the key could sign plans: leave users = ["steps"] there on each node')


def test_the_check_tells_of_machines(
    node: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--config", str(node.config), "--check"]
    assert main(words) == 0
    assert "machines" not in capsys.readouterr().out, "a node that has no part in it"
    key = node.signers.key("queue")
    with node.config.open("a") as file:
        file.write(f'[machines]\nuri = "test:///default"\nbatch = "slurm"\nkey = "{key}"\n')
    for found, code in (((), 78), (("libvirt is away",), 78)):
        monkeypatch.setattr(check_machines, "faults", lambda config, found=found: found)  # noqa: ARG005
        assert main(words) == code
        lines = [each for each in capsys.readouterr().out.splitlines() if each.startswith("machines: ")]
        assert lines[0] == (
            "machines: this node is a server, by test:///default and this node may decide for the queues of slurm"
        )
        assert lines[1 : 1 + len(found)] == [f"machines: {each}" for each in found]
        assert lines[-1].startswith(f"machines: no line of {node.signers.file} has machines.key (SHA256:")
        assert lines[-1].endswith('with namespaces="subord.machines"')
    node.signers.write("ann {ann}", 'machines@queue namespaces="subord.machines" {queue}')
    rule = '[[allow]]\nprincipals = ["machines@queue"]\nservices = ["machines"]\nusers = ["steps"]\n'
    (node.top / "policy.toml").write_text(rule)
    monkeypatch.setattr(check_machines, "faults", lambda _: ())
    assert main(words) == 0


def test_a_configuration_that_others_can_write_to_is_not_read(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    node.config.chmod(0o666)
    assert main(["--config", str(node.config), "--socket"]) == 78
    assert "its mode is 0666" in capfd.readouterr().err


def test_without_systemd_it_says_what_to_do(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", str(node.config)]) == 78
    assert "start subord-agent.socket, or give --socket" in capfd.readouterr().err
