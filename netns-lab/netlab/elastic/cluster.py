"""A cluster that grows and shrinks with the queue of a real batch system, in a lab of real daemons and agents.

ROOT and HEAD are nodes of the cluster from the beginning: the root of the tree, and the node that has the queue. All
other positions of the lab are the stock of its supplier (supplier.py), whose commands stand in the configuration of
HEAD.
Each node has a host (host.py): name, hosts file, users and processes of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import trio

from netlab.common.results import replace_file
from netlab.common.waiting import wait_until
from netlab.elastic import files, gridengine
from netlab.elastic.hosted import GID, GROUP, HEAD, HOME, NAMES, ROOT, UID, USER, HostedLab
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.services import processes
from subord.runtime.elastic.state import Poll
from subord.services.batch.records import Done, NewHost
from subord.services.elastic import records
from subord.services.elastic.managing.manager import DECIDED
from subord.services.elastic.stages import Record, Stage

OPERATOR: Final = "elastic@lab"
NAMESPACES: Final = "subord.elastic,subord.hosts"
ALLOWED: Final = {"elastic": "steps", "hosts": "root"}
"""Which services as which user."""
PREFIX: Final = "node"
AGENT: Final = "netlab.elastic.agent"
SUPPLIER: Final = "netlab.elastic.supplier"


class Bought(NamedTuple):
    """A line of the bill: a node, from its start to its end; `ended_at` None: it exists."""

    name: str
    address: str
    kind: str
    began_at: float
    ended_at: float | None


class ElasticLab(HostedLab):
    """As long as the `with` block. `nodes`: positions, with ROOT and HEAD. `slots`: of each node. `rate`: so many
    seconds pass for the manager in one. `elastic`: further keys of the table of HEAD."""

    def __init__(
        self, nodes: int, *, rate: float = 1.0, slots: int = 1, elastic: dict[str, Any] | None = None, **options: Any
    ) -> None:
        settings: dict[str, Any] = {"timing": "lab", "agents": True, "fanout": 4, **options}
        super().__init__(Lab(nodes, stand_ins=range(1, nodes + 1), **settings))
        self.slots = slots
        self.rate = rate
        self._elastic = elastic or {}

    def _begin(self, stack: ExitStack) -> None:
        self._write_files()
        stock = [each for each in self.lab.positions if each not in NAMES]
        self._start_supplier(stack, stock, AGENT, SUPPLIER)
        etc = self._etc({name: self.lab.address(position) for position, name in NAMES.items()})
        for position in (ROOT, HEAD):
            self.ask("boot", name=NAMES[position], position=position, etc=etc)
        self.await_placed((ROOT, HEAD))
        self.engine.begin()
        self._add_head()

    # -- acting ---------------------------------------------------------------------------------------------------

    def submit(self, script: str, *options: str) -> str:
        """The id of a new job of USER."""
        return self.engine.submit(script, *options, user=USER)

    def kill_agent(self, position: int) -> None:
        """It is started again at once. Raises LabError: it does not run."""
        pid = processes.agents(self.lab).get(position)
        if pid is None:
            raise LabError(f"The agent of node {position} does not run.")
        os.kill(pid, signal.SIGKILL)

    def publish(self, *words: str) -> None:
        """`subord elastic set` with these options, for HEAD and its user. Raises LabError."""
        user = f"{USER}:{UID}:{GROUP}:{GID}:{HOME}"
        about = ("--manager", self.lab.address(HEAD), "--prefix", PREFIX, "--user", user)
        done = self.subord("elastic", "set", *about, *words)
        if done.returncode:
            raise LabError(f"`subord elastic set {' '.join(words)}`: {(done.stderr or done.stdout).strip()}")

    @contextmanager
    def held_at(self, stage: Stage, seconds: float, then: Callable[[], None] = lambda: None) -> Iterator[str]:
        """The manager has written that a node has come to this stage, and waits before its work until the end of the
        block; the name of the node. `then`: called when no node can pass the stage any more. Raises LabError."""
        own = self.lab.directory.node(HEAD)
        halt, halted = own / files.HALT, own / files.HALTED
        replace_file(halt, stage)
        try:
            then()
            if not wait_until(halted.exists, seconds, 0.02):
                raise LabError(f"It never happened within {seconds:g} s that a node comes to the stage {stage}.")
            yield halted.read_text()
        finally:
            halt.unlink()
            if not halted.exists() or not wait_until(lambda: not halted.exists(), 1.0, 0.02):
                halted.unlink(missing_ok=True)  # the agent was killed meanwhile

    # -- looking --------------------------------------------------------------------------------------------------

    def bill(self) -> list[Bought]:
        """In the order of the starts."""
        found: dict[str, Bought] = {}
        lines: list[Bought] = []
        for line in (self.path / files.BILL).read_text().splitlines():
            about = json.loads(line)
            if about["what"] == "started":
                found[about["name"]] = Bought(about["name"], about["address"], about["kind"], about["at"], None)
            else:
                lines.append(found.pop(about["name"])._replace(ended_at=about["at"]))
        return sorted([*lines, *found.values()], key=lambda each: each.began_at)

    @property
    def permanent(self) -> set[str]:
        """Names of nodes that were there from the beginning."""
        return set(NAMES.values())

    def supplied(self) -> dict[str, str]:
        """Nodes that exist and are paid for, with their addresses."""
        found: dict[str, str] = self.ask("list")
        return found

    def ended_of(self, job: str) -> list[dict[str, str]]:
        """The runs of a job that have ended, as the accounting of the batch system has them."""
        return [each for each in self.engine.ended() if each["jobnumber"] == job]

    def records(self) -> dict[str, Record]:
        """What the queue's node has written of the nodes that it adds and removes."""
        rows = self._rows("select name, body from node")
        return {name: msgspec.json.decode(body, type=Record) for name, body in rows}

    def counters(self) -> dict[str, int]:
        """How many nodes it has `added`, `removed` and `undone`."""
        none = {"added": 0, "removed": 0, "undone": 0}
        return next((none | json.loads(body) for (body,) in self._rows("select body from counted")), none)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        path = self.lab.directory.node(HEAD) / "agent" / records.FOLDER / records.FILE_NAME
        if not path.exists():
            return []
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0)) as database:
            try:
                return database.execute(query).fetchall()
            except sqlite3.OperationalError:  # it is being made
                return []

    def polls(self) -> list[Poll]:
        """Of the manager, since its begin."""
        found = self.lab.document(HEAD, "/v1/elastic/polls")
        return [Poll(**each) for each in found["polls"]]

    def decided(self) -> list[str]:
        """Why nodes were added and removed, by the log of the manager: each of its polls, however short it was."""
        log = (self.lab.directory.node(HEAD) / "agent.log").read_text(errors="replace")
        lines = [line.partition(DECIDED)[2] for line in log.splitlines()]
        return [sentence for line in lines if line for sentence in line.split("; ")]

    def _add_head(self) -> None:
        """The queue's node runs jobs, too."""
        added = trio.run(self.adapter().add, NewHost(NAMES[HEAD], self.slots))
        if not isinstance(added, Done):
            raise LabError(f"The host of the queue cannot be in the queue: {added}.")
        self.engine.start_execd()

    # -- files ----------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        self._write_key(OPERATOR, NAMESPACES, ALLOWED)
        self._write_command()
        gridengine.make(self._share(), NAMES[HEAD])
        for position in self.lab.positions:
            self._configure(position)

    def _write_command(self) -> None:
        text = Path(__file__).with_name("command.py").read_text(encoding="utf-8")
        command = self.path / files.COMMAND
        command.write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{text}")
        command.chmod(stat.S_IRWXU)

    def _configure(self, position: int) -> None:
        """The table of elastic growth, before the daemon and the agent are started."""
        own = self.lab.directory.node(position)
        table: dict[str, Any] = {"hosts_file": "/etc/hosts", "batch_daemon": [gridengine.EXECD]}
        if position == HEAD:
            call = [str(self.path / files.COMMAND), str(self.path / files.SOCKET)]
            table |= {name: [*call, name] for name in ("start", "stop", "list")}
            table |= {
                "batch": "gridengine",
                "batch_environment": [f"{key}={value}" for key, value in gridengine.ENVIRONMENT.items()],
                "key": str(self.path / files.KEY),
                "kinds": [f"small={self.slots}"],
                **self._elastic,
            }
            (own / files.TIME).write_text(json.dumps([self.rate, time.time()]))
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        text = (own / files.CONFIG).read_text()
        hosts_file = re.compile(r"(?<=\[elastic\]\n)hosts_file = .*\n")
        if not hosts_file.search(text):
            raise LabError(f"The table [elastic] of {own / files.CONFIG} is another one than it was.")
        replace_file(own / files.CONFIG, hosts_file.sub(lambda _: lines, text))
