"""The daemons and agents of the queue's node and of two servers, in the room of server_room.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from batch_room import until
from room_hosts import NETWORK
from server_room import PARTITION, SERVERS, TEMPLATE, Servers
from signers import Signers
from slurm_guest import MEMORY_MIB

from subord.services.batch.slurm.adapter import ENVIRONMENT

DAEMON: Final = "from subord.cli import main; import sys; sys.exit(main())"
AGENT: Final = "from subord.agent.main import main; import sys; sys.exit(main())"
HEAD: Final = "head"
ADDRESSES: Final = {HEAD: f"{NETWORK}.1", **{name: f"{NETWORK}.{2 + at}" for at, name in enumerate(SERVERS)}}
"""In the order in which the room gives them to hosts."""
CLUSTER: Final = "physics"
POLICY: Final = """[[allow]]
principals = ["ann"]
services = ["machines"]
users = ["root"]

[[allow]]
principals = ["machines@head"]
services = ["machines"]
users = ["steps"]
"""
PLAN: Final = f"""manager = "{ADDRESSES[HEAD]}"
store_mb = 1000
period_s = 2
waits.order_s = 10
waits.answer_s = 15
{{more}}
[[types]]
name = "{TEMPLATE}"
template = "{TEMPLATE}"
queues = ["{PARTITION}"]
memory_mb = {MEMORY_MIB}
image_mb = 16
"""


class Service:
    """`servers`: the table [machines] of each, without its libvirt."""

    def __init__(self, room: Servers, servers: Mapping[str, Mapping[str, int]]) -> None:
        self.room = room
        self.top = room.room.make("service")
        self.signers = Signers(self.top)
        self.signers.write("ann {ann}", 'machines@head namespaces="subord.machines" {queue}')
        (self.top / "policy.toml").write_text(POLICY)
        environment = {**ENVIRONMENT, "SLURM_CONF": room.room.environment["SLURM_CONF"]}
        batch = [f"{name}={value}" for name, value in environment.items()]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._configure(HEAD, {"batch": "slurm", "batch_environment": batch, "key": str(self.signers.key("queue"))})
        for name, table in servers.items():
            self._configure(name, {"uri": room.daemons[name].uri, **table})

    def start(self) -> None:
        for name in ADDRESSES:
            self._start(name, DAEMON, "run", "--config")
            self._start(name, AGENT, "--socket", "--config")
        until((self.top / HEAD / "control").exists, self.logs)
        self.do("wait", "--nodes", str(len(ADDRESSES)), "--timeout", "120")

    def stop(self) -> None:
        """Each nsenter waits for what it has started."""
        for process in self._processes:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            for each in children.read_text().split() if process.poll() is None else ():
                os.kill(int(each), 9)
            process.wait()

    def do(self, *words: str) -> str:
        environment = {**os.environ, "SUBORD_OPERATOR_KEY": str(self.signers.key("ann"))}
        command = [sys.executable, "-c", DAEMON, *words, "--socket", f"{self.top}/{HEAD}/control"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def publish(self, more: str = "") -> None:
        (self.top / "plan.toml").write_text(PLAN.format(more=more))
        self.do("machines", "plan", str(self.top / "plan.toml"))

    def machines(self) -> dict[str, dict[str, str]]:
        """The state of each machine of the plan, by server."""
        found: dict[str, Any] = json.loads(self.do("machines", "list", "--json", "--addresses"))
        names = {address: name for name, address in ADDRESSES.items()}
        return {
            names[server["address"]]: {each["name"]: each["state"] for each in server["machines"] if each["type"]}
            for server in found["servers"]
        }

    def logs(self) -> str:
        paths = sorted(self.top.glob("*/*.log"))
        return "\n".join(f"{path}: {path.read_text()[-6000:]}" for path in paths)

    def _configure(self, name: str, machines: Mapping[str, Any]) -> None:
        here = self.top / name
        for each in ("agent", "daemon"):
            (here / each).mkdir(parents=True, mode=0o700)
        table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in machines.items())
        (here / "subord.toml").write_text(
            f'[cluster]\nname = "{CLUSTER}"\nnetwork = "{NETWORK}.0/29"\ninsecure = true\ntiming = "lab"\n'
            f'[node]\naddress = "{ADDRESSES[name]}"\nseeds = ["{ADDRESSES[HEAD]}"]\n'
            f'operators = "{self.signers.file}"\n'
            f'control_socket = "{here}/control"\nstate_directory = "{here}/daemon"\n'
            f'[agent]\nsocket = "{here}/agent.sock"\npolicy = "{self.top}/policy.toml"\n'
            f'state_directory = "{here}/agent"\n'
            f"[machines]\n{table}"
        )

    def _start(self, name: str, program: str, *words: str) -> None:
        room = self.room
        enter = room.room.enter if name == HEAD else room.hosts.enter(name)
        command = [*enter, sys.executable, "-c", program, *words, str(self.top / name / "subord.toml")]
        with (self.top / name / f"{words[0].strip('-')}.log").open("ab") as file:
            self._processes.append(subprocess.Popen(command, stdout=file, stderr=file, cwd=self.top))
