"""Servers with real daemons and agents, as the queue's node asks them and orders machines there."""

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

import libvirt_room
import pytest
import queue_in_files
from libvirt_room import host_file
from namespaces import Namespace, namespace
from signers import Signers

pytestmark = pytest.mark.slow

DAEMON = "from subord.cli import main; import sys; sys.exit(main())"
HELPERS = str(Path(queue_in_files.__file__).parent)
AGENT = (
    "import sys; sys.path.insert(0, {helpers!r}); import queue_in_files; queue_in_files.patch({top!r}); "
    "from subord.agent.main import main; sys.exit(main())"
)
ASKING = """
import json, sys, time, msgspec, trio
from math import inf
from subord.config.load import load
from subord.services.acting import Context
from subord.services.machines.asking import DaemonServers
from subord.services.machines.orders import Clone, Fence, Order, Stop

async def main(path, version, life, *words):
    config = load(path)
    node = config.node
    context = Context("root", "", b"", inf, node.address, "", node.control_socket,
                      machines=config.machines, network=config.cluster.network)
    servers, fence = DaemonServers(context), Fence(int(version), (1 << 50) + int(life))
    answers, missing = await servers.ask(fence)
    results = {}
    for number, word in enumerate(words, 1):
        kind, server, machine = word.split("=")
        action = Clone(machine, "alma", server) if kind == "clone" else Stop(machine, server)
        results[word] = await servers.do(server, (Order(fence, number, time.time() + 20, action),))
    print(json.dumps([msgspec.to_builtins(each) for each in (answers, missing, results)]))

trio.run(main, *sys.argv[1:])
"""
POLICY = """[[allow]]
principals = ["ann"]
services = ["machines"]
users = ["root"]

[[allow]]
principals = ["machines@queue"]
services = ["machines"]
users = ["steps"]
"""
PLAN = """
[[types]]
name = "alma"
template = "alma"
queues = ["long"]
cores = 2
memory_mb = 2048
image_mb = 10240
"""
MASTER, FIRST, SECOND = ADDRESSES = "10.9.0.1", "10.9.0.2", "10.9.0.3"
PORT = 7700
WAIT_S = 120.0


class Cluster:
    """Processes of three nodes; the first has the queue, and the others are servers. `batch`: of the first."""

    def __init__(self, top: Path, network: Namespace, batch: str) -> None:
        self.top = top
        self._network = network
        self.signers = Signers(top)
        self.signers.write("ann {ann}", 'machines@queue namespaces="subord.machines" {queue}')
        (top / "policy.toml").write_text(POLICY)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.batch = top / "batch"
        self.batch.mkdir()
        for address in ADDRESSES:
            self._configure(address, batch)

    def _configure(self, address: str, batch: str) -> None:
        here = self.top / address
        for each in ("agent", "daemon"):
            (here / each).mkdir(parents=True, mode=0o700)
        part = f'key = "{self.signers.key("queue")}"\nbatch = "{batch}"'
        if address != MASTER:
            part = f'uri = "{host_file(here / "host.xml")}"\nreserve_mb = 0'
        (here / "subord.toml").write_text(
            f'[cluster]\nnetwork = "10.9.0.0/29"\ninsecure = true\nport = {PORT}\ntiming = "lab"\n'
            f'[node]\naddress = "{address}"\nseeds = ["{MASTER}"]\noperators = "{self.signers.file}"\n'
            f'control_socket = "{here}/c"\nstate_directory = "{here}/daemon"\n'
            f'[agent]\nsocket = "{here}/a"\npolicy = "{self.top}/policy.toml"\nstate_directory = "{here}/agent"\n'
            f"[machines]\n{part}\n"
        )

    def start(self, address: str, *, is_agent: bool) -> None:
        path = f"{self.top}/{address}/subord.toml"
        words = ["--config", path, "--socket"] if is_agent else ["run", "--config", path]
        with (self.top / address / ("agent.log" if is_agent else "daemon.log")).open("ab") as file:
            code = AGENT.format(helpers=HELPERS, top=str(self.batch)) if is_agent else DAEMON
            command = [*self._network.enter, sys.executable, "-c", code, *words]
            found = subprocess.Popen(command, stderr=file, cwd=self.top)
        (self.agents if is_agent else self.daemons)[address] = found

    def end(self) -> None:
        processes = [*self.agents.values(), *self.daemons.values()]
        for each in processes:
            each.send_signal(signal.SIGTERM)
        for each in processes:
            each.wait(30)

    def command(self, *words: str, address: str = MASTER) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SUBORD_OPERATOR_KEY": str(self.signers.key("ann"))}
        command = [sys.executable, "-c", DAEMON, *words, "--socket", f"{self.top}/{address}/c"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def publish(self, plan: str) -> None:
        (self.top / "plan.toml").write_text(plan)
        done = self.command("machines", "plan", str(self.top / "plan.toml"), "--force")
        assert done.returncode == 0, done.stderr + done.stdout

    def jobs(self, number: int) -> None:
        """So many wait or run, in the queue `long`."""
        fresh = self.batch / "jobs.new"
        fresh.write_text(json.dumps({str(each): "long" for each in range(1, number + 1)}))
        fresh.replace(self.batch / "jobs.json")

    def runs(self) -> dict[str, str]:
        """Jobs that run, with their hosts."""
        path = self.batch / "runs.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def state(self) -> Any:
        """What the queue's node tells of its rounds; {}: nothing."""
        done = self.command("machines", "status", "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)["round"] or {}

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def asked(self, *words: str, life: int = 7) -> Any:
        """Answers, what is missing, and results, as a process has them that came after that of the agent."""
        command = [sys.executable, "-c", ASKING, f"{self.top}/{MASTER}/subord.toml", "1", str(life), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def machines(self, address: str) -> dict[str, str]:
        """As its daemon shows them."""
        done = self.command("machines", "list", "--json", "--addresses", address)
        assert done.stdout, done.stderr
        servers = json.loads(done.stdout)["servers"]
        return {each["name"]: each["state"] for found in servers for each in found["machines"]}

    def until(self, condition: Callable[[], object], what: str) -> None:
        until = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < until, f"never: {what}\n{self.logs()}"
            time.sleep(0.3)

    def logs(self) -> str:
        paths = [self.top / address / log for address in ADDRESSES for log in ("agent.log", "daemon.log")]
        return "\n".join(f"{path}: {path.read_text()[-1500:]}" for path in paths if path.exists())


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    libvirt_room.need_binding()
    with namespace(*ADDRESSES) as network:
        found = Cluster(tmp_path, network, getattr(request, "param", ""))
        try:
            for address in ADDRESSES:
                found.start(address, is_agent=False)
                found.start(address, is_agent=True)
            assert found.command("wait", "--nodes", "3", "--timeout", "60").returncode == 0, found.logs()
            yield found
        finally:
            found.end()


def test_servers_are_asked_and_obey_and_their_daemons_know(cluster: Cluster) -> None:
    cluster.publish(f'manager = "{MASTER}"\nstore_mb = 1000000\n{PLAN}')

    def answered() -> bool:
        return set(cluster.asked()[0]) == {FIRST, SECOND}

    cluster.until(answered, "both servers have the plan and answer")
    words = [f"clone={FIRST}=alma-1", f"clone={SECOND}=alma-2", f"clone={MASTER}=alma-3"]
    answers, missing, results = cluster.asked(*words, life=8)
    assert (set(answers), missing) == ({FIRST, SECOND}, {})
    assert [results[each][0][0] for each in words[:2]] == ["", ""], results
    assert results[words[2]] == "machines.uri of this node is empty, so it is no server; nothing was done"
    on = {"alma-1": "on", "alma": "off"}
    cluster.until(lambda: cluster.machines(FIRST) == on, "the daemon knows of the machine")

    # An older process is not obeyed.
    _, _, results = cluster.asked(f"stop={FIRST}=alma-1", life=7)
    (((fault, *_),),) = results.values()
    assert f"this server obeys life {(1 << 50) + 8} of plan 1" in fault

    # The daemon of a server dies, and its next one is told again. Machines run on.
    cluster.daemons[FIRST].kill()
    cluster.daemons[FIRST].wait()
    (cluster.top / FIRST / "c").unlink(missing_ok=True)
    cluster.start(FIRST, is_agent=False)
    assert cluster.command("wait", "--nodes", "3", "--timeout", "60").returncode == 0
    cluster.until(lambda: cluster.machines(FIRST) == on, "the next daemon knows it, too")

    # A drained server says so to all.
    assert cluster.command("machines", "drain", SECOND).returncode == 0
    _, _, results = cluster.asked(f"clone={SECOND}=alma-4", life=9)
    (((fault, *_),),) = results.values()
    assert fault == f"the server {SECOND} is drained; nothing was started"

    # An agent that is away is missing with its cause.
    cluster.agents[SECOND].terminate()
    cluster.agents[SECOND].wait(30)
    answers, missing, _ = cluster.asked(life=9)
    assert set(answers) == {FIRST}
    assert missing[SECOND].startswith("no agent: ")
    cluster.start(SECOND, is_agent=True)
    cluster.until(lambda: set(cluster.asked(life=9)[0]) == {FIRST, SECOND}, "it is back")


DECIDED = f"""manager = "{MASTER}"
period_s = 2
store_mb = 1000000

[waits]
order_s = 8
answer_s = 10
start_s = 60
clone_s = 60

[[types]]
name = "long"
template = "alma"
queues = ["long"]
cores = 2
memory_mb = 2048
image_mb = 10240
"""


@pytest.mark.parametrize("cluster", ["slurm"], indirect=True)
def test_jobs_get_machines_though_processes_die(cluster: Cluster) -> None:
    cluster.jobs(3)
    cluster.publish(DECIDED)
    cluster.until(lambda: len(cluster.runs()) == 3, "three jobs run on machines that were cloned")
    names = set(cluster.runs().values())
    assert names == {"long-001", "long-002", "long-003"}
    on = {**cluster.machines(FIRST), **cluster.machines(SECOND)}
    assert {name for name, state in on.items() if state == "on"} == names
    told = cluster.state()
    assert (told["totals"]["cloned"], told["servers_all"], told["unreachable"]) == (3, 2, 0), told

    # The agent of the queue's node dies. The next one knows all machines, and starts nothing again.
    life = told["life"]
    cluster.kill(cluster.agents[MASTER])
    cluster.start(MASTER, is_agent=True)
    cluster.until(lambda: cluster.state().get("life", 0) > life, "the next process decides")
    cluster.jobs(4)
    cluster.until(lambda: len(cluster.runs()) == 4, "a fourth job runs")
    assert set(cluster.runs().values()) == {*names, "long-004"}
    assert cluster.state()["totals"]["cloned"] == 1, "the others are those of before"

    # The agent of a server is away: it is told, and jobs get machines elsewhere.
    cluster.kill(cluster.agents[SECOND])
    cluster.jobs(5)
    cluster.until(lambda: len(cluster.runs()) == 5, "a fifth job runs")
    cluster.until(lambda: cluster.state()["unreachable"] == 1, "the server is told to be away")
    cluster.until(lambda: cluster.machines(FIRST).get("long-005") == "on", "it runs on the other server")

    # Its daemon dies and comes back: the process that decides goes on.
    life = cluster.state()["life"]
    cluster.kill(cluster.daemons[MASTER])
    (cluster.top / MASTER / "c").unlink(missing_ok=True)
    cluster.start(MASTER, is_agent=False)
    assert cluster.command("wait", "--nodes", "3", "--timeout", "60").returncode == 0
    cluster.until(lambda: cluster.state().get("life") == life, "it is told to the next daemon")

    # After their jobs, machines stay on and closed.
    cluster.jobs(0)
    hosts = cluster.batch / "hosts.json"
    cluster.until(lambda: not any(json.loads(hosts.read_text()).values()), "all are closed")
    assert cluster.machines(FIRST)["long-005"] == "on"
