"""A cluster of servers with virtual machines for a batch queue, in a lab of real daemons, agents and libvirtds.

HEAD has the queue, and decides. All other nodes are servers, ROOT among them; each has a libvirtd with the test
driver (libvirtds.py). An observer reads all of these by itself (watching.py).
With `guests` the queue is a real Grid Engine at HEAD, and a machine that is on has an execd on a host of its own
(guests.py). Without them it is the lab's own batch system (batch.py), for more machines than there can be execds.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from netlab.common.results import replace_file
from netlab.elastic import files, gridengine
from netlab.elastic.hosted import HEAD, NAMES, USER, HostedLab
from netlab.errors import LabError
from netlab.lab import Lab
from netlab.machines import libvirtds
from netlab.machines.batch import BatchSystem
from netlab.machines.guests import Guests
from netlab.machines.journal import Change, Have
from netlab.machines.libvirtds import Definition, Libvirtds
from netlab.machines.watching import Watch
from netlab.services import processes
from subord.services.batch.records import Done, Host, HostState, Unavailable

OPERATOR: Final = "machines@lab"
NAMESPACES: Final = "subord.machines"
ALLOWED: Final = {"machines": "steps"}
AGENT: Final = "netlab.machines.agent"
SUPPLIER: Final = "netlab.machines.hypervisor"
BATCH: Final = "batch.sock"
"""Of the lab's own batch system, in the directory of the lab."""
LIBVIRT: Final = "libvirt"
PLAN: Final = "plan.toml"
NO_NAME: Final = ""
"""Of the cluster (cluster.name), as marks of machines have it."""
ACTIONS_SHOWN: Final = 4
RESERVE_MB: Final = 512
SLOTS: Final = 64
MEMORY_MB: Final = 3072
"""Of a server of the test driver."""


class Server(NamedTuple):
    """What a server has, and the machines that are there from the beginning. `templates`: machines that are not of
    the service, and off."""

    cores: int
    mhz: int = 2000
    machines: tuple[Definition, ...] = ()

    @property
    def have(self) -> Have:
        return Have(self.cores, MEMORY_MB - RESERVE_MB, SLOTS)


class Kind(NamedTuple):
    """A type of machines, with one queue of the same name. `seconds`: of its window."""

    name: str
    cores: int = 1
    memory_mb: int = 64
    slots: int = 1
    window_s: int = 0

    @property
    def template(self) -> Definition:
        return Definition(f"{self.name}-template", self.cores, self.memory_mb)

    def machine(self, number: int) -> Definition:
        """Called as the service calls its clones."""
        return Definition(f"{self.name}-{number:03}", self.cores, self.memory_mb, self.name)

    def document(self) -> dict[str, Any]:
        """In the plan."""
        about = {"name": self.name, "template": self.template.name, "queues": [self.name], "image_mb": 1}
        return about | {name: getattr(self, name) for name in ("cores", "memory_mb", "slots", "window_s")}


class MachinesLab(HostedLab):
    """As long as the `with` block. `guests`: names that machines may have, each with a host; (): no Grid Engine.
    `boot_s`: of a machine; `copy_s`: more, of the first boot of a clone."""

    def __init__(
        self,
        servers: Sequence[Server],
        kinds: Sequence[Kind],
        *,
        guests: Sequence[str] = (),
        boot_s: float = 1.0,
        copy_s: float = 0.0,
        **options: Any,
    ) -> None:
        nodes = 1 + len(servers) + len(guests)
        places = [each for each in range(1, 2 + len(servers)) if each != HEAD]
        self.guests = dict(zip(guests, range(2 + len(servers), nodes + 1), strict=True))
        settings: dict[str, Any] = {"timing": "lab", "agents": True, "fanout": 4, **options}
        super().__init__(Lab(nodes, stand_ins=(HEAD, *self.guests.values()), **settings))
        self.kinds = tuple(kinds)
        self.servers = dict(zip(places, servers, strict=True))
        """By position."""
        self._boot_s, self._copy_s = boot_s, copy_s

    @property
    def nodes(self) -> list[int]:
        """Positions that have a daemon."""
        return sorted((HEAD, *self.servers))

    @property
    def have(self) -> dict[str, Have]:
        """By the names of servers, which are their addresses."""
        return {self.lab.address(position): each.have for position, each in self.servers.items()}

    def _begin(self, stack: ExitStack) -> None:
        names = map(self.lab.address, self.servers)
        self.libvirtds = stack.enter_context(Libvirtds(names, self.path / LIBVIRT))
        self._write_files()
        self._define()
        self._start_supplier(stack, (), AGENT, SUPPLIER)
        etc = self._etc({NAMES[HEAD]: self.lab.address(HEAD), **self._guest_addresses()})
        if not self.guests:
            self.batch = stack.enter_context(BatchSystem(self.path / BATCH, self._boot_s))
        self.ask("boot", name=NAMES[HEAD], position=HEAD, etc=etc)
        self.lab.start(*self.servers)
        self.await_placed(self.nodes, 30.0 + len(self.servers))
        hears = [self.batch.hear] if not self.guests else []
        if self.guests:
            self.engine.begin(each.name for each in self.kinds)
            known = {each.name for server in self.servers.values() for each in server.machines}
            made = Guests(self.ask, self.guests, known, etc, boot_s=self._boot_s, copy_s=self._copy_s)
            self.hosts = stack.enter_context(made)
            hears.append(self.hosts.hear)

        def hear(change: Change) -> None:
            for each in hears:
                each(change)

        self._register()
        self.watch = stack.enter_context(Watch(self.libvirtds.of.values(), hear))

    # -- acting ---------------------------------------------------------------------------------------------------

    def publish(self, **plan: Any) -> None:
        """`subord machines plan`, for HEAD and all kinds. `plan`: further keys. Raises LabError."""
        body = {"manager": self.lab.address(HEAD), "store_mb": 100_000, **plan}
        tables = [("[waits]", body.pop("waits", {})), *(("[[types]]", each.document()) for each in self.kinds)]
        parts = [_lines(body), *(f"{head}\n{_lines(table)}" for head, table in tables)]
        file = self.path / PLAN
        replace_file(file, "\n".join(parts))
        self._do("plan", str(file))

    def await_deciding(self, seconds: float = 180.0) -> None:
        """The queue's node reaches all servers, and nothing hinders it. Raises LabError."""

        def decides() -> bool:
            with suppress(LabError):
                told = self.state()
                all_there = told["servers_all"] == len(self.servers) and not told["unreachable"]
                return bool(told["state"] == "manages" and told["life"] and all_there and not told["hindrance"])
            return False

        self.await_that(decides, "the queue's node decides", seconds, self.facts)

    def submit(self, kind: Kind, lasts_s: float, priority: int = 0, *, is_held: bool = False) -> str:
        """A job of USER, in the queue of the kind; its id. `priority`: 0, or below it. `is_held`: until it is
        released; of a real Grid Engine."""
        if self.guests:
            options = ("-p", str(priority), *(("-h",) if is_held else ()))
            return self.engine.submit(f"exec sleep {lasts_s:g}", *options, user=USER, queue=kind.name)
        return str(self.batch.submit(kind.name, priority, lasts_s))

    # -- by hand, as an operator does -----------------------------------------------------------------------------

    def turn_on(self, name: str) -> None:
        self._domain(name).create()

    def turn_off(self, name: str, *, is_deleted: bool = False) -> None:
        domain = self._domain(name)
        domain.destroy()
        if is_deleted:
            domain.undefine()
            self.hosts.forget(name)

    def open(self, kind: Kind, name: str) -> None:
        """For jobs."""
        outcome = trio.run(self.adapter(kind.name).undrain, name)
        if not isinstance(outcome, Done):
            raise LabError(f"{name} cannot be opened: {outcome}.")

    def is_closed(self, name: str) -> bool:
        """No job starts there; of a real Grid Engine."""
        return any(each.name == name and each.is_drained for each in self._batch_hosts())

    def await_up(self, *names: str, seconds: float = 60.0) -> None:
        """The batch system sees them."""

        self.await_that(
            lambda: set(names) <= self.up(), f"the batch system sees {' and '.join(names)}", seconds, self.facts
        )

    def up(self) -> set[str]:
        """Hosts that the batch system sees; of a real Grid Engine."""
        return {each.name for each in self._batch_hosts() if each.state == HostState.UP}

    def _batch_hosts(self) -> tuple[Host, ...]:
        found = trio.run(self.adapter(self.kinds[0].name).hosts)
        return () if isinstance(found, Unavailable) else found

    def _domain(self, name: str) -> Any:
        """Raises LabError."""
        for each in self.libvirtds.of.values():
            for domain in each.connection.listAllDomains():
                if domain.name() == name:
                    return domain
        raise LabError(f"No server has a machine {name}.")

    # -- faults ---------------------------------------------------------------------------------------------------

    def kill(self, *positions: int) -> None:
        """Daemons and agents of servers; the machines go on."""
        for position in positions:
            self.lab.kill(position)
            self.lab.kill_agent(position)

    def kill_head_agent(self) -> None:
        """It is started again at once. Raises LabError: it does not run."""
        pid = processes.agents(self.lab).get(HEAD)
        if pid is None:
            raise LabError("The agent of the queue's node does not run.")
        os.kill(pid, signal.SIGKILL)

    def state(self) -> dict[str, Any]:
        """What the queue's node tells of its last round. Raises LabError: it tells nothing."""
        found: dict[str, Any] | None = self.lab.document(HEAD, "/v1/machines/manager")["round"]
        if found is None:
            raise LabError("The queue's node has told nothing of machines.")
        return found

    def facts(self) -> str:
        """For a complaint."""
        try:
            told = self.state()
        except LabError as reason:
            told = {"fault": str(reason)}
        keys = ("state", "detail", "hindrance", "fault", "round", "unreachable", "notes")
        on = {server: sorted(machines) for server, machines in self.watch.on().items() if machines}
        jobs = self.engine.lines() if self.guests else self.batch.facts()
        hosts = self.hosts.faults if self.guests else []
        seen = {key: told.get(key) for key in keys} | {"actions": told.get("actions", ())[:ACTIONS_SHOWN]}
        return f"On: {on}; jobs: {jobs}; guests: {hosts}; the queue's node: {seen}"

    def _do(self, *words: str) -> str:
        done = self.subord("machines", *words)
        if done.returncode:
            raise LabError(f"`subord machines {' '.join(words)}`: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    # -- files ----------------------------------------------------------------------------------------------------

    def _write_files(self) -> None:
        key = self._write_key(OPERATOR, NAMESPACES, ALLOWED)
        shared = self._share()
        if self.guests:
            gridengine.make(shared, NAMES[HEAD])
        environment = [f"{name}={value}" for name, value in gridengine.ENVIRONMENT.items()]
        self._configure(HEAD, {"batch": "gridengine", "batch_environment": environment, "key": str(key)})
        for position, server in self.servers.items():
            own = self.libvirtds.of[self.lab.address(position)]
            about = {"uri": own.uri, "reserve_mb": RESERVE_MB, "slots": SLOTS}
            self._configure(position, about | {"cores": server.cores, "mhz": server.mhz})

    def _configure(self, position: int, table: Mapping[str, Any]) -> None:
        path = self.lab.directory.node(position) / files.CONFIG
        replace_file(path, f"{path.read_text()}\n[machines]\n{_lines(table)}")

    def _define(self) -> None:
        templates = [each.template for each in self.kinds]
        for position, server in self.servers.items():
            own = self.libvirtds.of[self.lab.address(position)]
            own.define([*templates, *server.machines], NO_NAME)

    def _guest_addresses(self) -> dict[str, str]:
        return {name: self.lab.address(position) for name, position in self.guests.items()}

    def _register(self) -> None:
        """An administrator has made the machines that are there hosts of the batch system, and drained them."""
        there = [each for server in self.servers.values() for each in server.machines]
        for kind in self.kinds:
            names = [each.name for each in there if each.type == kind.name]
            if self.guests:
                self.engine.register(names, kind.name, kind.slots)
            else:
                self.batch.register(names, [kind.name], kind.slots)


def missing() -> list[str]:
    """Packages that have to be installed, but for those of Grid Engine."""
    return libvirtds.missing()


def _lines(table: Mapping[str, Any]) -> str:
    """Of TOML; JSON is a subset for strings, numbers and lists of strings."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def lab_of(node: Path) -> Path:
    """The directory of the lab of a node's own directory."""
    return node.parent.parent
