"""Single nodes: killed, started, cut off, visited from the shell; and no packet leaves."""

import os
import signal
from pathlib import Path

import pytest

from .lab_helpers import FAKE, netlab, run_lab, traces

pytestmark = pytest.mark.lab(few=True)


@pytest.fixture(scope="module", params=["forked", "executed"])
def lab(request):
    """As it was raised, for all tests but the last of them."""
    with netlab("lab").Lab(5, daemon=FAKE, execute=request.param == "executed") as lab:
        lab.start_all()
        lab.wait_stable(timeout_s=20, quiet_s=0.1)
        yield lab


def test_each_node_has_a_namespace_of_its_own_and_no_signal_of_the_zygote(lab):
    nodes = lab.client.ask("info")["nodes"]
    namespaces = {os.readlink(f"/proc/{node['pid']}/ns/net") for node in nodes}
    assert len(namespaces) == 5
    assert os.readlink("/proc/self/ns/net") not in namespaces
    for node in nodes:
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{node['pid']}/status").read_text().splitlines()
            if ":\t" in line
        )
        term = 1 << (signal.SIGTERM - 1)
        assert int(status["SigBlk"], 16) & term == 0
        assert int(status["SigIgn"], 16) & term == 0
        targets = {os.readlink(path) for path in Path(f"/proc/{node['pid']}/fd").iterdir() if path.exists()}
        assert not any("net:[" in target or target.endswith("lab.log") for target in targets)


def test_no_packet_can_leave(lab):
    """Only lo, the bridge and the wires; no route but that to the cluster's own network."""
    controller = Path(f"/proc/{lab.handle.controller}/net")
    outer = {line.split(":")[0].strip() for line in (controller / "dev").read_text().splitlines()[2:]}
    assert outer == {"lo", "br0", *(f"n{position}" for position in lab.positions)}
    assert (controller / "route").read_text().splitlines()[1:] == []
    for node in lab.client.ask("info")["nodes"]:
        net = Path(f"/proc/{node['pid']}/net")
        assert {line.split(":")[0].strip() for line in (net / "dev").read_text().splitlines()[2:]} == {"lo", "eth0"}
        (route,) = (net / "route").read_text().splitlines()[1:]
        assert route.split()[:4] == ["eth0", "0000000A", "00000000", "0001"]  # 10.0.0.0/16, no gateway


def test_the_way_out_is_shut_for_a_command(lab):
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    result = lab.run(3, "python", "-c", code)
    assert result.returncode == 1
    assert "Network is unreachable" in result.stderr


def test_cut_is_silent_until_it_is_connected_again(lab):
    ask = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(float(sys.argv[1]));"
        "s.sendto(b'hello', ('10.0.0.1', 7117)); print(s.recv(64))"
    )
    assert lab.run(3, "python", "-c", ask, "20").stdout == "b'ok hello'\n"
    lab.cut(1)
    assert "TimeoutError" in lab.run(3, "python", "-c", ask, "0.5").stderr
    lab.cut(1, connected=True)
    assert lab.run(3, "python", "-c", ask, "20").stdout == "b'ok hello'\n"


def test_kill_and_start(lab):
    LabError = netlab("errors").LabError  # noqa: N806
    lab.kill(5)
    assert lab.look().nodes["10.0.0.5"].alive is False
    with pytest.raises(LabError, match=r"10\.0\.0\.5 is not running"):
        lab.kill(5)
    lab.start(5)
    with pytest.raises(LabError, match="running already"):
        lab.start(5)
    lab.wait(lambda cluster: cluster.nodes["10.0.0.5"].place == "home", timeout_s=20)
    lab.kill(4, signal.SIGTERM)
    lab.wait(lambda cluster: cluster.nodes["10.0.0.4"].exited, timeout_s=20)
    info = {node["position"]: node for node in lab.client.ask("info")["nodes"]}
    assert info[4]["exit_code"] == -signal.SIGTERM
    assert info[4]["pid"] is None
    with pytest.raises(LabError, match="No node of this lab has position 6"):
        lab.kill(6)


def test_from_the_shell():
    name = f"test-shell-{os.getpid()}"
    try:
        result = run_lab("up", "--nodes", 7, "--name", name, "--daemon", FAKE)
        assert result.returncode == 0, result.stderr
        assert f"netns-lab/lab down --name {name}" in result.stdout

        show = "echo $SUBORD_SOCKET; cat /proc/net/fib_trie | grep -c 10.0.0.3; exit 7"
        for node in ("3", "10.0.0.3"):
            result = run_lab("exec", "--name", name, node, "--", "sh", "-c", show)
            assert result.returncode == 7
            socket, count = result.stdout.split()
            assert socket.endswith(f"{name}/nodes/3/control.sock")
            assert int(count) > 0
        result = run_lab("exec", "--name", name, "9", "--", "true")
        assert (result.returncode, result.stderr.count("\n")) == (1, 1)
        assert run_lab("exec", "--name", name, "1", "--", "no-such-command").returncode == 127

        assert run_lab("kill", "--name", name, "7").returncode == 0
        status = run_lab("status", "--name", name).stdout
        assert "6 of 7 nodes live" in status
        assert "ended with -9" in status
        assert run_lab("start", "--name", name, "10.0.0.7").returncode == 0
    finally:
        result = run_lab("down", "--name", name)
    assert result.returncode == 0
    assert traces(name) == []


def test_visitors_leave_when_the_lab_ends():
    name = f"test-visitor-{os.getpid()}"
    with netlab("lab").Lab(2, daemon=FAKE, name=name) as lab:
        enter = netlab("processes.enter")
        import subprocess

        command = enter.command_in(name, "1", ["sh", "-c", "echo here; sleep 1000"])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE) as visitor:
            assert visitor.stdout.readline() == "here\n"
            lab.handle.end()
            assert "The lab ended" in visitor.stderr.read()
            assert visitor.wait(timeout=20) == 128 + signal.SIGKILL
            assert visitor.stdout.read() == ""  # closed: `sleep` is gone too
    assert traces(name) == []
