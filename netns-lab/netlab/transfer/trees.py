"""A tree with a real cell of Grid Engine, in a lab of real daemons and agents: one side of a transfer.

ROOT and HEAD are as in other labs with hosts: the root of the tree, and the transfer host, which has the qmaster as
well. All other nodes run jobs. The transfer host has a second network interface, which leads to the other tree alone
(pair.py).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import trio

from netlab.common.results import replace_file
from netlab.elastic import files, gridengine
from netlab.elastic.hosted import HEAD, NAMES, ROOT, USER, HostedLab
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.services import processes
from netlab.transfer import agent as agents
from subord.services.batch.gridengine.adapter import ENVIRONMENT
from subord.services.batch.gridengine.registration import HOST
from subord.services.batch.records import Done, NewHost
from subord.services.batch.running import Commands
from subord.services.transfer.cells.gridengine import setup
from subord.services.transfer.cells.gridengine.settings import Settings
from subord.services.transfer.linking.certificate import Identity, ensured
from subord.services.transfer.plan import SENSED

AGENT: Final = "netlab.transfer.agent"
QUICK: Final = "netlab.transfer.quick_agent"
SUPPLIER: Final = "netlab.elastic.supplier"
QUEUE: Final = "transfer"
SOCKET: Final = "/run/subord-transfer.sock"
"""Of the agent, for the methods."""
METHODS: Final = "/srv/methods"
GIDS: Final = "40000-41999"
"""Of jobs in the transfer queue: Debian's configuration has 101, and each job of a host needs one."""
KEY: Final = "transfer.key"
PORT: Final = 9720
UP_S_MAX: Final = 60.0


class TreeLab(HostedLab):
    """As long as the `with` block. `name`: of the cluster. `runs`: how many nodes run jobs, with so many `slots`.
    `agent`: the module that runs the agents."""

    batch = "gridengine"
    batch_environment: Mapping[str, str] = gridengine.ENVIRONMENT

    def __init__(self, name: str, *, runs: int = 1, slots: int = 4, agent: str = AGENT, **options: Any) -> None:
        nodes = 2 + runs
        settings: dict[str, Any] = {"timing": "lab", "agents": True, "fanout": 4, **options}
        super().__init__(Lab(nodes, stand_ins=range(1, nodes + 1), **settings))
        self.name = name
        self.slots = slots
        self.agent = agent
        self.names = NAMES | {position: f"{name}-run{position - HEAD}" for position in range(HEAD + 1, nodes + 1)}

    @property
    def runs(self) -> list[str]:
        """Hosts that run jobs."""
        return [name for position, name in self.names.items() if position > HEAD]

    def _boot(self, stack: ExitStack, shared: Path) -> None:
        """All hosts, with daemons that have their places."""
        agents.make_folders(shared)
        self._configure()
        self._start_supplier(stack, (), self.agent, SUPPLIER)
        etc = self._etc({name: self.lab.address(position) for position, name in self.names.items()})
        for position, name in self.names.items():
            self.ask("boot", name=name, position=position, etc=etc)
        self.await_placed(self.names)

    def _begin(self, stack: ExitStack) -> None:
        shared = self._share()
        gridengine.make(shared, NAMES[HEAD])
        self._boot(stack, shared)
        self.engine.begin()
        self.engine.log_jobs()
        trio.run(self._add_hosts)
        for name in (NAMES[HEAD], *self.runs):
            self.run(name, gridengine.EXECD)
        self.await_that(self.is_up, "the hosts of the cell serve", UP_S_MAX, lambda: self.run_on_head("qhost"))

    # -- the cell -------------------------------------------------------------------------------------------------

    def is_up(self) -> bool:
        """Whether the execd of each host has reported."""
        rows = [line.split() for line in self.run_on_head("qhost").splitlines()[3:]]
        loads = {row[0].partition(".")[0]: row[-5] for row in rows}
        return all(loads.get(host, "-") != "-" for host in (NAMES[HEAD], *self.runs))

    def commands(self) -> Commands:
        """Of a manager of the cell, on the transfer host."""
        enter = ("nsenter", "--target", str(self.ask("pid", name=NAMES[HEAD])), "--all", "--")
        return Commands({**ENVIRONMENT, **gridengine.ENVIRONMENT}, enter)

    def settings(self, **changed: Any) -> Settings:
        python = agents.python()
        program = (
            "env",
            *(f"{name}={value}" for name, value in python.items() if name != "PYTHON"),
            python["PYTHON"],
        )
        command = (*program, "-P", "-m", "subord", "transfer")
        own = Settings(NAMES[HEAD], SOCKET, queue=QUEUE, folder=METHODS, program=command, gids=GIDS)
        return own._replace(**changed)

    def set_up(self, **changed: Any) -> None:
        """The transfer queue. Raises LabError."""
        done = trio.run(setup.set_up, self.commands(), self.settings(**changed))
        if not isinstance(done, Done):
            raise LabError(f"The cell of {self.name} cannot be set up: {done}.")
        self.restart_execd()

    def widen(self, slots: int, transfer_slots: int, threshold: int | None = None) -> None:
        """So many slots of the hosts that run jobs, and of the transfer queue. `threshold`: of its sensor; None: the
        queue is always open."""
        gate = "NONE" if threshold is None else f"{SENSED}={threshold}"
        for name in self.runs:
            self.run_on_head("qconf", "-mattr", "queue", "slots", str(slots), f"{gridengine.QUEUE}@{name}")
        self.run_on_head("qconf", "-rattr", "queue", "slots", str(transfer_slots), QUEUE)
        self.run_on_head("qconf", "-rattr", "queue", "load_thresholds", gate, QUEUE)

    def restart_execd(self) -> None:
        """That of the transfer host, so that it has the sensor; its jobs go on."""
        script = "pid=$(cat /run/execd.pid); kill $pid; while kill -0 $pid 2>&-; do sleep 0.1; done"
        self.run_on_head("sh", "-c", script)
        self.run_on_head(gridengine.EXECD)

    def submit(self, script: str, *options: str, queue: str = QUEUE) -> str:
        """The id of a new job of USER, from its home."""
        where = ("-q", queue) if queue else ()
        words = ("qsub", "-terse", "-wd", "/srv/ann", "-j", "y", "-o", "/dev/null", *where, *options)
        return self.run_on_head(*words, user=USER, given=f"{script}\n").strip().partition(".")[0]

    def states(self) -> dict[str, str]:
        """By the number of the job."""
        return {line[0]: line[4] for line in self.engine.lines()}

    def ended_of(self, job: str) -> list[dict[str, str]]:
        """Its runs that have ended, as the accounting has them."""
        return [each for each in self.engine.ended() if each["jobnumber"] == job]

    # -- agents and hosts -----------------------------------------------------------------------------------------

    def kill_agent(self, position: int = HEAD) -> None:
        """It is started again at once. Raises LabError: it does not run."""
        pid = processes.agents(self.lab).get(position)
        if pid is None:
            raise LabError(f"The agent of node {position} does not run.")
        os.kill(pid, signal.SIGKILL)

    def kill_head(self) -> None:
        """The transfer host, with the qmaster, as when its power fails."""
        self.ask("fail", name=NAMES[HEAD])

    def revive_head(self) -> None:
        self.ask("revive", name=NAMES[HEAD])
        self.start_master()
        self.engine.start_execd()
        self.await_placed((ROOT, HEAD))

    def kill_root(self) -> None:
        self.ask("fail", name=NAMES[ROOT])

    def revive_root(self) -> None:
        """It is in the tree again."""
        self.ask("revive", name=NAMES[ROOT])
        self.await_placed(self.names)

    def kill_master(self) -> None:
        """The qmaster alone. What runs goes on."""
        self.engine.kill_master()

    def start_master(self) -> None:
        self.run_on_head("rm", "-f", f"{gridengine.TOP}/qmaster/qmaster.pid")
        self.engine.start_master()

    # -- the agent ------------------------------------------------------------------------------------------------

    @property
    def key(self) -> Path:
        return self.lab.directory.node(HEAD) / KEY

    def identity(self) -> Identity:
        """With which its transfer host shows itself."""
        return ensured(str(self.key))

    def do(self, *words: str) -> str:
        """`subord transfer ...` of the operator on the transfer host. Raises LabError."""
        done = self.subord("transfer", *words)
        if done.returncode:
            raise LabError(f"`subord transfer {' '.join(words)}`: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def publish(self, plan: Mapping[str, Any]) -> None:
        """Raises LabError."""
        file = self.path / "plan.json"
        replace_file(file, json.dumps(plan))
        self.do("plan", str(file))

    def has_agent(self) -> bool:
        return HEAD in processes.agents(self.lab)

    def is_open(self) -> bool:
        """Whether jobs can leave: the sensor has told a load below the threshold."""
        lines = self.run_on_head("qstat", "-f", "-q", QUEUE).splitlines()
        found = [line.split()[-1] for line in lines if line.startswith(f"{QUEUE}@")]
        return found == ["lx-amd64"]

    def facts(self) -> str:
        return f"{self.name}: {self.run_on_head('qstat', '-f')} {self.agent_log()[-1500:]}"

    def agent_log(self) -> str:
        with suppress(FileNotFoundError):
            return (self.lab.directory.node(HEAD) / "agent.log").read_text(errors="replace")
        return ""

    # -- parts ----------------------------------------------------------------------------------------------------

    async def _add_hosts(self) -> None:
        adapter = self.adapter()
        text = f"hostname {NAMES[HEAD]}\n" + "".join(f"{each} NONE\n" for each in HOST)
        file = f"{gridengine.TOP}/host-{NAMES[HEAD]}"
        self.run_on_head("sh", "-c", f"cat >{file}; qconf -Ae {file}", given=text)  # without slots in its queue
        for name in self.runs:
            added = await adapter.add(NewHost(name, self.slots))
            if not isinstance(added, Done):
                raise LabError(f"{name} cannot be in the queue: {added}.")

    def _configure(self) -> None:
        """What the transfer host has in its configuration, before the daemon and the agent are started."""
        file = self.lab.directory.node(HEAD) / files.CONFIG
        table = {
            "batch": self.batch,
            "batch_environment": [f"{key}={value}" for key, value in self.batch_environment.items()],
            "key": str(self.key),
            "listen": f":{PORT}",
            "socket": SOCKET,
        }
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        replace_file(file, f"{file.read_text()}\n[transfer]\n{lines}")
