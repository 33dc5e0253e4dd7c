"""One process that has the daemon imported and warm, and becomes as many daemons as it is told to.

Intuition: a stamp. Cutting it costs 0.3 s (imports); every imprint after that 4 ms and a few pages of memory.
An imprint runs the same entry as the service does: `main(["run", "--config", FILE])`.

It forks, signals and reaps; so a pid it signals is still its own. What it does goes into the event log
as `lab_forked`, `lab_signalled` and `lab_exited`, on the same clock as the daemons' events.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from netlab import linux, rehearsal, releases
from netlab.events import append_event
from netlab.lines import Lines, Message
from netlab.options import Options, config_text
from netlab.reserve import Reserve
from netlab.rundir import RunDirectory

if TYPE_CHECKING:
    from subord.config.schema import Config

Main = Callable[[list[str]], int | None]

WARM_MODULES = ("subord.daemon", "subord.cli", "subord.cli.run", "subord.api.handlers.metrics", "encodings.utf_8_sig")
"""What a daemon needs, late imports included: whatever is missing here is imported by every copy again."""


def start(options: Options, directory: RunDirectory, tree: Path | None = None) -> Lines:
    """Fork the zygote; return our end of the conversation. It says {"ready": true} when warm.

    `tree`: where another release of subord is, which its copies are then of.
    """
    ours, theirs = socket.socketpair()
    controller = os.getpid()
    pid = os.fork()
    if pid:
        theirs.close()
        return Lines(ours)
    code = 1
    try:
        linux.die_with(controller, signal.SIGKILL)
        linux.set_name("lab-zygote" if tree is None else "lab-zygote-old")
        linux.close_all_but(keep=(0, 1, 2, theirs.fileno()))
        Zygote(options, directory, Lines(theirs), tree).run()
        code = 0
    except BaseException:  # nothing of the controller's stack may run in this copy
        traceback.print_exc()
    finally:
        os._exit(code)


class Zygote:
    """Answers {"start": [[address, namespace, position], ...]}, {"signal": N, "to": address}, {"touch": nodes}."""

    def __init__(
        self, options: Options, directory: RunDirectory, controller: Lines, tree: Path | None = None
    ) -> None:
        self._tree = tree
        self._options = options
        self._directory = directory
        self._controller = controller
        self._pids: dict[str, int] = {}
        self._addresses: dict[int, str] = {}
        self._events = os.open(directory.events, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._main: Main | None = None
        self._prepared: dict[int, tuple[int, Config]] = {}
        self._reserve = Reserve()
        self._wakeup, self._waker = socket.socketpair()

    def run(self) -> None:
        try:
            if self._tree is not None:
                releases.enter(self._tree)
            if not self._options.execute:
                self._main = _load(self._options.daemon)
                self._rehearse(self._main)
        except BaseException as reason:  # an import may fail in any way; whoever asked for the lab must read it
            traceback.print_exc()
            self._controller.send({"failed": f"The daemon cannot be imported: {type(reason).__name__}: {reason}"})
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the controller decides when we end
        self._waker.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()  # a collection in a copy would write to, and so duplicate, every page of objects
        self._controller.send({"ready": True})
        with selectors.DefaultSelector() as selector:
            selector.register(self._controller, selectors.EVENT_READ)
            selector.register(self._wakeup, selectors.EVENT_READ)
            while not self._controller.ended:
                for key, _ in selector.select():
                    if key.fileobj is self._controller:
                        for request in self._controller.receive():
                            self._answer(request)
                    else:
                        self._wakeup.recv(4096)
                        self._reap()

    def _rehearse(self, main: Main) -> None:
        """Let the daemon read a configuration once: what it compiles and caches for that, no copy has to (20 ms)."""
        if self._options.daemon is not None:
            return
        rehearsal.seal()
        file = self._directory.path / f"rehearsal-{os.getpid()}.toml"
        file.write_text(config_text(self._options, self._options.addresses[0], file.parent, self._directory))
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
            main(["config", "check", str(file)])  # a refusal is repeated by every daemon, in its own log

    def _answer(self, request: Message) -> None:
        if "start" in request:
            for address, namespace, position in request["start"]:
                if address not in self._pids:
                    self._fork(address, namespace, position)
            self._controller.send({"done": self._pids_of(node[0] for node in request["start"])})
        elif "prepare" in request:
            self._prepare(request["prepare"])
            self._controller.send({"done": {}})
        elif "touch" in request:
            self._controller.send({"done": {"mib": self._reserve.fill(request["touch"])}})
        else:
            self._reap()
            address, number = request["to"], request["signal"]
            pid = self._pids.get(address)
            if pid is not None:
                append_event(self._events, address, "lab_signalled", signal=number, pid=pid)
                os.kill(pid, number)
                if number == signal.SIGKILL:
                    self._bury(pid, os.waitpid(pid, 0)[1])  # so that it can be started anew at once
            self._controller.send({"done": {} if pid is None else {address: pid}})

    def _prepare(self, positions: Iterable[int]) -> None:
        """Read every node's configuration, as `subord run` would: that costs each copy 2 MiB otherwise (measured)."""
        if self._options.daemon is not None or self._options.execute:
            return
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

    def _pids_of(self, addresses: Iterable[str]) -> dict[str, int]:
        return {address: self._pids[address] for address in addresses if address in self._pids}

    def _fork(self, address: str, namespace: str, position: int) -> None:
        zygote = os.getpid()
        self._reserve.let_go()
        mono = time.monotonic()
        pid = os.fork()
        if pid == 0:
            # Written by the copy, so that no event of the daemon can come before it.
            append_event(self._events, address, "lab_forked", mono=mono, pid=os.getpid())
            self._become(zygote, namespace, position)
        self._pids[address] = pid
        self._addresses[pid] = address

    def _become(self, zygote: int, namespace: str, position: int) -> NoReturn:
        """In the copy: walk into the namespace, forget the zygote, run the daemon."""
        code: int | None = 1
        try:
            linux.die_with(zygote, signal.SIGKILL)
            files = self._directory.node(position)
            _redirect(files / "log")
            descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            linux.setns(descriptor, linux.CLONE_NEWNET)
            linux.close_all_but(keep=(0, 1, 2))
            _forget_signals()
            os.setsid()
            os.chdir(files)
            arguments = ["run", "--config", str(files / "config.toml")]
            if self._main is None:
                command = daemon_command(self._options.daemon)
                os.execv(command[0], [*command, *arguments])  # noqa: S606  # a shell has no business here
            linux.set_name(f"subord-{position}")
            sys.argv = ["subord", *arguments]
            gc.enable()
            code = self._entry(position, arguments)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            _leave(code or 0)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._bury(pid, status)

    def _bury(self, pid: int, status: int) -> None:
        address = self._addresses.pop(pid)
        del self._pids[address]
        code = os.waitstatus_to_exitcode(status)
        self._controller.send({"exited": address, "pid": pid, "code": code})
        append_event(self._events, address, "lab_exited", pid=pid, code=code)


def daemon_command(daemon: str | None) -> list[str]:
    """Command of a daemon started the ordinary way; `run --config FILE` goes behind it."""
    if daemon is not None:
        return [sys.executable, daemon]
    return [str(Path(sys.executable).with_name("subord"))]


def _load(daemon: str | None) -> Main:
    """The daemon's entry with everything it needs imported, so that no copy has to import anything."""
    gc.disable()  # enabled again in the copies
    _run_trio_once()
    if daemon is None:
        for name in WARM_MODULES:
            importlib.import_module(name)
        main: Main = importlib.import_module("subord.cli").main
        return main
    spec = importlib.util.spec_from_file_location("lab_daemon", daemon)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Main = module.main
    return found


def _run_trio_once() -> None:
    """Its first run costs 8 ms of making things ready, which the copies then find done (measured)."""
    import trio

    async def turn() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.001)

    trio.run(turn)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
