"""The zygote has the daemon imported, and forks one copy of itself into each node's namespace.

Importing takes 0.3 s; each fork after that 4 ms and a few pages of memory. A copy runs the same entry as the service:
`main(["run", "--config", FILE])`.

The zygote forks, signals and reaps, so a pid it signals is still its own. It writes `lab_forked`, `lab_signalled` and
`lab_exited` into the event log, on the same clock as the daemons' events.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import mmap
import os
import runpy
import selectors
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from netlab.common import linux
from netlab.common.helper import fork
from netlab.common.json_lines import Lines, Message
from netlab.common.measure import memory_available_bytes
from netlab.eventlog.events import append_event
from netlab.processes import releases
from netlab.processes.agents import LISTEN_FD, Agent, Agents, pass_socket
from netlab.processes.clocks import WallClock
from netlab.processes.copies import leave_with
from netlab.processes.groups import GROUPS_READ_ONLY, cgroup_mounts
from netlab.processes.options import Options, config_text
from netlab.processes.rundir import RunDirectory
from subord.services import NAMES

if TYPE_CHECKING:
    from subord.config.schema import Config

Main = Callable[[list[str]], int | None]

PORTION_MIB = 8  # private memory of a daemon and its page tables
MEMORY_SHARE_MAX = 0.5
DAEMON_NICE = -10  # beside agents and what they run; as CPUWeight=1000 of the unit
OWN_FOLDER = "/srv"  # of each agent, so that orders that write files do not meet
PASSES = 4  # hello, hello and certificate, certificate, done
PRELOADED = (
    *("subord.daemon", "subord.cli", "subord.cli.run"),
    *("subord.api.handlers.metrics", "subord.sealing.authority", "h11", "encodings.utf_8_sig"),
    *(f"subord.services.{name}.core" for name in NAMES),
)
"""What a daemon needs, late imports included: every copy would import again what is missing here."""


def start(options: Options, directory: RunDirectory, tree: Path | None = None) -> Lines:
    """Fork the zygote; the connection to it. `tree`: the other release of subord that its copies run."""
    name = "lab-zygote" if tree is None else "lab-zygote-old"
    return fork(name, lambda: Zygote(options, directory, tree), lambda made, controller: made.run(controller))


class Zygote:
    """Answers {"start": [[address, namespace, position], ...]}, {"prepare": [position, ...]}, {"touch": nodes},
    {"signal": N, "to": address} and {"signal": N, "agent_of": address}.
    """

    def __init__(self, options: Options, directory: RunDirectory, tree: Path | None = None) -> None:
        self._tree = tree
        self._options = options
        self._directory = directory
        self._pids: dict[str, int] = {}
        self._addresses: dict[int, str] = {}
        self._events = os.open(directory.events, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._main: Main | None = None
        self._prepared: dict[int, tuple[int, Config]] = {}
        self._memory = MemoryPool()
        self._selector = selectors.DefaultSelector()
        self._agents = Agents(directory, self._selector, self._become_agent)
        self._wakeup, self._waker = socket.socketpair()
        self._clock = WallClock()

        if tree is not None:
            releases.enter(tree)
        if options.agents:
            self._clock.install()
        if not options.execute:
            self._main = _load(options.daemon, options.services)
            if options.agents:
                _load_agent()
            self._warm_up(self._main)
        self._waker.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()  # a collection in a copy would write to, and so duplicate, every page of objects

    def run(self, controller: Lines) -> None:
        """Until the controller closes the connection."""
        self._controller = controller
        with self._selector as selector:
            selector.register(self._controller, selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            while not self._controller.ended:
                for key, _ in selector.select():
                    if key.fileobj is self._controller:
                        for request in self._controller.receive():
                            self._answer(request)
                    elif isinstance(key.data, Agent):
                        self._agents.start(key.data)
                    else:
                        self._wakeup.recv(4096)
                        self._reap()

    def _warm_up(self, main: Main) -> None:
        """Let the daemon read a configuration once: what it compiles and caches for that, no copy has to (20 ms)."""
        if self._options.daemon is not None:
            return
        with contextlib.suppress(ModuleNotFoundError):  # the previous release has TLS elsewhere
            _seal_once()
        file = self._directory.path / f"warm-up-{os.getpid()}.toml"
        address, is_old = self._options.addresses[0], self._tree is not None
        file.write_text(config_text(self._options, address, file.parent, self._directory, is_old=is_old))
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
            main(["config", "check", str(file)])  # every daemon repeats a refusal, in its own log

    def _answer(self, request: Message) -> None:
        done: Message = {}
        if "start" in request:
            for address, namespace, position in request["start"]:
                if address not in self._pids:
                    self._fork(address, namespace, position)
            done = {address: self._pids[address] for address, *_ in request["start"] if address in self._pids}
        elif "prepare" in request:
            self._prepare(request["prepare"])
        elif "agent_of" in request:
            done = self._signal_agent(request["agent_of"], request["signal"])
        elif "touch" in request:
            done = {"mib": self._memory.fill(request["touch"])}
        else:
            done = self._signal(request["to"], request["signal"])
        self._controller.send({"done": done})

    def _signal(self, address: str, number: int) -> dict[str, int]:
        self._reap()
        pid = self._pids.get(address)
        if pid is None:
            return {}
        append_event(self._events, address, "lab_signalled", signal=number, pid=pid)
        os.kill(pid, number)
        if number == signal.SIGKILL:
            self._note_exit(pid, os.waitpid(pid, 0)[1])  # so that it can be started anew at once
        return {address: pid}

    def _signal_agent(self, address: str, number: int) -> Message:
        """0: the node has no agent from now on."""
        if number:
            return {"ran": self._agents.kill(address, number)}
        self._agents.remove(address)
        return {}

    def _prepare(self, positions: Iterable[int]) -> None:
        """Read every node's configuration, as `subord run` would: that costs each copy 2 MiB otherwise (measured)."""
        if self._options.daemon is not None or self._options.execute:
            return
        if self._tree is not None:
            return  # the previous release has its configuration elsewhere: its copies read it themselves
        from subord.config.load import load
        from subord.config.source import ConfigError

        for position in positions:
            file = self._directory.node(position) / "config.toml"
            with contextlib.suppress(ConfigError):  # the daemon refuses it again, in its own log
                self._prepared[position] = (file.stat().st_mtime_ns, load(str(file)))
        gc.collect()
        gc.freeze()

    def _entry(self, position: int, arguments: list[str]) -> int | None:
        """What `subord run --config FILE` does; from the configuration read already while the file is the same."""
        assert self._main is not None
        read_at, config = self._prepared.get(position, (0, None))
        if config is None or Path(arguments[-1]).stat().st_mtime_ns != read_at:
            return self._main(arguments)
        from subord import daemon

        return daemon.main(config)

    def _fork(self, address: str, namespace: str, position: int) -> None:
        zygote = os.getpid()
        if self._options.agents and self._tree is None and address not in self._options.stand_ins:
            self._agents.listen(address, namespace, position)
        self._memory.free_portion()
        mono = time.monotonic()
        pid = os.fork()
        if pid == 0:
            # Written by the copy, so that no event of the daemon can come before it.
            append_event(self._events, address, "lab_forked", mono=mono, pid=os.getpid())
            self._become(zygote, namespace, position)
        self._pids[address] = pid
        self._addresses[pid] = address

    def _become(self, zygote: int, namespace: str, position: int) -> NoReturn:
        """In the copy: enter the namespace, drop what is the zygote's, run the daemon."""
        leave_with(lambda: self._run_daemon(zygote, namespace, position))

    def _run_daemon(self, zygote: int, namespace: str, position: int) -> int | None:
        files = self._enter(zygote, namespace, position, "log")
        if self._options.agents:
            linux.favour(DAEMON_NICE)
        linux.close_all_but(keep=(0, 1, 2))
        arguments = ["run", "--config", str(files / "config.toml")]
        if self._main is None:
            command = daemon_command(self._options.daemon)
            os.execv(command[0], [*command, *arguments])  # noqa: S606  # no shell wanted
        linux.set_name(f"subord-{position}")
        sys.argv = ["subord", *arguments]
        gc.enable()
        return self._entry(position, arguments)

    def _enter(self, zygote: int, namespace: str, position: int, log: str) -> Path:
        """In a copy: enter the namespace of a node, and write to a log in its directory, which is returned."""
        linux.die_with(zygote, signal.SIGKILL)
        files = self._directory.node(position)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        linux.write_to(files / log, 1, 2)
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        linux.setns(descriptor, linux.CLONE_NEWNET)
        _reset_signals()
        os.setsid()
        os.chdir(files)
        self._clock.read(files)
        return files

    def _become_agent(self, agent: Agent) -> NoReturn:
        """In the copy: run `subord-agent`, as systemd does for a connection."""
        leave_with(lambda: self._run_agent(agent))

    def _run_agent(self, agent: Agent) -> int | None:
        files = self._enter(os.getppid(), agent.namespace, agent.position, "agent.log")
        pass_socket(agent.listener)
        linux.close_all_but(keep=(0, 1, 2, LISTEN_FD))
        if os.path.isdir(OWN_FOLDER):
            linux.own_folder(files / "srv", OWN_FOLDER)
        if (files / GROUPS_READ_ONLY).exists():
            linux.forbid_writing(*cgroup_mounts())
        linux.set_name(f"agent-{agent.position}")
        gc.enable()
        main: Main = importlib.import_module("subord.agent.main").main
        return main(["--config", str(files / "config.toml")])

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not self._agents.ended(pid):
                self._note_exit(pid, status)

    def _note_exit(self, pid: int, status: int) -> None:
        address = self._addresses.pop(pid)
        del self._pids[address]
        code = os.waitstatus_to_exitcode(status)
        self._controller.send({"exited": address, "pid": pid, "code": code})
        append_event(self._events, address, "lab_exited", pid=pid, code=code)


class MemoryPool:
    """Portions of touched memory, invisible for forked copies, freed one by one before a daemon is forked.

    In a virtual machine the host lends a page when it is touched first and takes it back soon after it is freed: 3 s
    a GiB were measured, more than all the work of starting 500 daemons.
    """

    def __init__(self) -> None:
        self._portions: list[mmap.mmap] = []

    def fill(self, portions: int) -> int:
        """Touch so many portions, or as many as fit into half of the memory that is free; MiB held."""
        fitting = int(memory_available_bytes() * MEMORY_SHARE_MAX) // (PORTION_MIB << 20)
        for _ in range(min(portions, fitting)):
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
            portion = mmap.mmap(-1, PORTION_MIB << 20, flags=flags)
            portion.madvise(mmap.MADV_DONTFORK)
            self._portions.append(portion)
        return len(self._portions) * PORTION_MIB

    def free_portion(self) -> None:
        if self._portions:
            self._portions.pop().close()


def daemon_command(daemon: str | None) -> list[str]:
    """Command of a daemon started the ordinary way; `run --config FILE` follows."""
    if daemon is not None:
        return [sys.executable, daemon]
    return [str(Path(sys.executable).with_name("subord"))]


def _load(daemon: str | None, services: str | None) -> Main:
    """The daemon's entry with everything it needs imported, so that no copy has to import anything. `services`: a
    folder with further services."""
    gc.disable()  # enabled again in the copies
    _run_trio_once()
    if services is not None:
        _register(Path(services))
    if daemon is None:
        for name in PRELOADED:
            with contextlib.suppress(ModuleNotFoundError):  # the previous release has some elsewhere: late imports
                importlib.import_module(name)
        main: Main = importlib.import_module("subord.cli").main
        return main
    found: Main = runpy.run_path(daemon)["main"]
    return found


def _load_agent() -> None:
    """The agent, and what it imports with the first order of each service: 20 ms for `files`."""
    importlib.import_module("subord.agent.main")
    from subord import services
    from subord.services.acting import has_effects

    for name in filter(has_effects, services.NAMES):  # with those of `_register`
        importlib.import_module(f"subord.services.{name}.agent")


def _register(folder: Path) -> None:
    """Add each package of a folder to the registry of services, before another module reads it."""
    from subord import services

    names = sorted(each.parent.name for each in folder.glob("*/__init__.py"))
    services.NAMES = (*services.NAMES, *names)  # type: ignore[misc]
    services.__path__.append(str(folder))


def _run_trio_once() -> None:
    """Its first run initialises for 8 ms what the copies then share (measured)."""
    import trio

    async def turn() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.001)

    trio.run(turn)


def _seal_once() -> None:
    """One handshake and one sealed datagram: two cryptographic libraries initialise 4 MiB at first use.

    The copies share that memory; the keys are thrown away.
    """
    from subord.runtime.security.tls import Tls, certificates_of
    from subord.sealing.keys import keyring_of, new_key
    from subord.sealing.sealer import Sealer

    ring = keyring_of(new_key())
    ends = ("127.0.0.1", 1), ("127.0.0.2", 1)
    sealers = [Sealer(ring, end, 1, bytes(32), 0.0) for end in ends]
    sealers[1].open(sealers[0].seal(bytes(32), ends[1]), ends[0], 0.0)
    _shake_hands(Tls(lambda: certificates_of(ring, "127.0.0.1")))


def _shake_hands(tls: object) -> None:
    contexts = tls.contexts()  # type: ignore[attr-defined]
    (name, client), (server,) = next(iter(contexts.clients.items())), contexts.servers.values()
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(here, there, server_hostname=f"{name}.subord"),
        server.wrap_bio(there, here, server_side=True),
    ]
    for _ in range(PASSES):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    sides[0].write(bytes(32))
    sides[1].read(32)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
