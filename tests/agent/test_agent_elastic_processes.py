"""A cluster of three real daemons with their agents that grows and shrinks, with a batch system made of files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import batch_in_files
import pytest
from namespaces import Namespace, namespace
from signers import Signers

pytestmark = pytest.mark.slow

HELPERS = str(Path(batch_in_files.__file__).parent)
DAEMON = "from subord.cli import main; import sys; sys.exit(main())"
AGENT = (
    "import sys; sys.path.insert(0, {helpers!r}); import batch_in_files; "
    "batch_in_files.patch({top!r}, {rate}, {origin}); from subord.agent.main import main; sys.exit(main())"
)
POLICY = """[[allow]]
principals = ["ann"]
services = ["elastic", "hosts"]
users = ["root"]

[[allow]]
principals = ["elastic@queue"]
services = ["hosts"]
users = ["root"]

[[allow]]
principals = ["elastic@queue"]
services = ["elastic"]
users = ["steps"]
"""
RATE = 60.0
"""The 300 s in which a change is looked at are five."""
MASTER, FIRST, SECOND = ADDRESSES = "10.9.0.1", "10.9.0.2", "10.9.0.3"
PORT = 7700
WAIT_S = 120.0


class Cluster:
    """Processes of three nodes; the first has the queue."""

    def __init__(self, top: Path, network: Namespace) -> None:
        self.top = top
        self._network = network
        self.origin = time.time()
        self.signers = Signers(top)
        self.signers.write("ann {ann}", 'elastic@queue namespaces="subord.elastic,subord.hosts" {queue}')
        (top / "policy.toml").write_text(POLICY)
        self.batch = top / "batch"
        self.batch.mkdir()
        batch_in_files.prepare(self.batch, FIRST, SECOND)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        for address in ADDRESSES:
            self._configure(address)

    def _configure(self, address: str) -> None:
        here, batch = self.top / address, self.batch
        for each in ("agent", "daemon"):
            (here / each).mkdir(parents=True, mode=0o700)
        (here / "hosts").touch()
        if address == MASTER:
            part = f'batch = "gridengine"\nkey = "{self.signers.key("queue")}"\nkinds = ["usual=4"]\n'
            part += "".join(f'{each} = ["{batch}/{each}"]\n' for each in ("start", "stop", "list"))
        else:
            part = f'batch_daemon = ["{batch}/daemon-{address}"]\nbatch_daemon_stop = ["{batch}/end-{address}"]\n'
        (here / "subord.toml").write_text(
            f'[cluster]\nnetwork = "10.9.0.0/29"\ninsecure = true\nport = {PORT}\ntiming = "lab"\n'
            f'[node]\naddress = "{address}"\nseeds = ["{MASTER}"]\noperators = "{self.signers.file}"\n'
            f'control_socket = "{here}/c"\nstate_directory = "{here}/daemon"\n'
            f'[agent]\nsocket = "{here}/a"\npolicy = "{self.top}/policy.toml"\nstate_directory = "{here}/agent"\n'
            f'[elastic]\n{part}hosts_file = "{here}/hosts"\nexports_file = ""\n'
        )

    def start_daemon(self, address: str) -> None:
        words = ["run", "--config", f"{self.top}/{address}/subord.toml"]
        self.daemons[address] = self._process(address, DAEMON, *words, log="daemon.log")

    def start_agent(self, address: str) -> None:
        code = AGENT.format(helpers=HELPERS, top=str(self.batch), rate=RATE, origin=self.origin)
        words = ["--config", f"{self.top}/{address}/subord.toml", "--socket"]
        self.agents[address] = self._process(address, code, *words, log="agent.log")

    def _process(self, address: str, code: str, *words: str, log: str) -> subprocess.Popen[bytes]:
        with (self.top / address / log).open("ab") as file:
            command = [*self._network.enter, sys.executable, "-c", code, *words]
            return subprocess.Popen(command, stderr=file, cwd=self.top)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def end(self) -> None:
        processes = [*self.agents.values(), *self.daemons.values()]
        for each in processes:
            each.send_signal(signal.SIGTERM)
        for each in processes:
            each.wait(30)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SUBORD_OPERATOR_KEY": str(self.signers.key("ann"))}
        command = [sys.executable, "-c", DAEMON, *words, "--socket", f"{self.top}/{MASTER}/c"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def growth(self) -> dict[str, Any]:
        """What the queue's node tells; {}: nothing."""
        done = self.command("elastic", "status", "--json", "--addresses")
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["growth"] or {}
        return found

    def stages(self) -> dict[str, str]:
        """Of the nodes that were added."""
        return {each["name"]: each["stage"] for each in self.growth().get("nodes", ()) if each["stage"]}

    def jobs(self, *jobs: tuple[int, str]) -> None:
        """Slots, and hosts where they run."""
        said = [
            {"id": str(number), "slots": slots, "host": host, "since": time.time()}
            for number, (slots, host) in enumerate(jobs, 1)
        ]
        fresh = self.batch / "jobs.new"
        fresh.write_text(json.dumps(said))
        fresh.replace(self.batch / "jobs.json")

    def until(self, condition: Callable[[], object], what: str) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < until, f"never: {what}\n{self.growth()}\n{self.logs()}"
            time.sleep(0.3)

    def logs(self) -> str:
        paths = [self.top / address / log for address in ADDRESSES for log in ("agent.log", "daemon.log")]
        return "\n".join(f"{path}: {path.read_text()[-1000:]}" for path in paths if path.exists())

    def hosts_of(self, address: str) -> str:
        return (self.top / address / "hosts").read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with namespace(*ADDRESSES) as network:
        found = Cluster(tmp_path, network)
        try:
            for address in ADDRESSES:
                found.start_daemon(address)
                found.start_agent(address)
            assert found.command("wait", "--nodes", "3", "--timeout", "60").returncode == 0, found.logs()
            yield found
        finally:
            found.end()


def test_it_grows_and_shrinks_though_its_processes_die(cluster: Cluster) -> None:
    cluster.jobs((4, ""), (4, ""))
    options = ["-m", "3", "-a", "2", "-i", "5", "-w", "0", "-k", "0"]
    done = cluster.command("elastic", "set", "--manager", MASTER, *options)
    assert done.returncode == 0, done.stderr
    both = {"node001": "serving", "node002": "serving"}
    cluster.until(lambda: cluster.stages() == both, "two nodes serve")
    cluster.jobs((4, "node001"), (4, "node002"))
    names = set(both)
    assert {each["name"] for each in cluster.growth()["nodes"] if each["paid_since"]} >= names
    for address in ADDRESSES:
        assert all(name in cluster.hosts_of(address) for name in names)

    # The agent of the queue's node dies, and the next one goes on with the records.
    cluster.kill(cluster.agents[MASTER])
    cluster.until(lambda: cluster.growth()["state"] == "no agent", "the daemon says that the agent is away")
    cluster.start_agent(MASTER)
    cluster.until(lambda: cluster.growth()["state"] == "manages", "the next agent manages")
    cluster.until(lambda: cluster.stages() == both, "both nodes serve still")

    # Its daemon dies, and comes back within the grace of the agent.
    cluster.kill(cluster.daemons[MASTER])
    (cluster.top / MASTER / "c").unlink(missing_ok=True)
    cluster.start_daemon(MASTER)
    assert cluster.command("wait", "--nodes", "3", "--timeout", "60").returncode == 0
    cluster.until(lambda: cluster.growth().get("state") == "manages", "it is told to the next daemon")
    assert cluster.stages() == both

    # Nothing was started a second time, and nothing ends while jobs run.
    assert not (cluster.batch / "stopped").exists()
    cluster.jobs()
    cluster.until(lambda: not cluster.stages(), "both nodes are removed")
    found = cluster.growth()
    assert (found["added"], found["removed"], found["undone"]) == (2, 2, 0)
    assert sorted((cluster.batch / "stopped").read_text().split()) == sorted(names)
    assert not list((cluster.batch / "machines").iterdir())
    assert not [each for each in cluster.batch.iterdir() if each.name.startswith("up-")], "their daemons were stopped"
    for address in ADDRESSES:
        assert not any(name in cluster.hosts_of(address) for name in names)


def test_off_leaves_nodes_as_they_are_and_the_next_plan_goes_on(cluster: Cluster) -> None:
    """The batch daemon of the node takes longer than an answer of a daemon has time, and is started once."""
    runs = cluster.batch / "runs"
    (cluster.batch / f"daemon-{FIRST}").write_text(
        f"#!/bin/sh\necho run >> {runs}\nsleep 9\ntouch {cluster.batch}/up-{FIRST}\n"
    )
    cluster.jobs((4, ""))
    done = cluster.command("elastic", "set", "--manager", MASTER, "-m", "2", "-i", "5", "-w", "0", "-k", "0")
    assert done.returncode == 0, done.stderr
    cluster.until(lambda: cluster.stages() == {"node001": "serving"}, "a node serves")
    assert runs.read_text() == "run\n"
    assert cluster.command("elastic", "off").returncode == 0
    cluster.jobs()

    def state() -> Any:
        return json.loads(cluster.command("elastic", "status", "--json", MASTER).stdout)["states"][0]

    cluster.until(lambda: state()["state"] == "off", "it is off")
    assert "1 node that this node has added stays" in state()["detail"]
    time.sleep(6)
    assert (cluster.batch / "machines" / "node001").exists()
    assert cluster.command("elastic", "set", "-m", "2").returncode == 0
    cluster.until(lambda: not list((cluster.batch / "machines").iterdir()), "the node is removed")
