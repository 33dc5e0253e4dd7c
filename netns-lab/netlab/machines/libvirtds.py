"""A libvirtd for each server of a lab, with libvirt's test driver: its machines are kept apart from those of others,
and outlive the agent.

The test driver forgets its machines with its last connection, so a connection of each is held here. All servers of
the driver have the same hardware; what is theirs is said in the configuration of their agents. A libvirtd takes 5 MiB
of memory, and no processor time while nothing happens.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from netlab.errors import LabError
from subord.services.machines.power import binding
from subord.services.machines.power.marks import NAMESPACE, PREFIX, mark_text
from subord.services.machines.power.records import Mark, Unavailable

PROGRAM: Final = "/usr/sbin/libvirtd"
PACKAGE: Final = "libvirt-daemon"
BINDING: Final = "libvirt-dev pkg-config gcc python3-dev, then ./dev setup"
ANSWER_S_MAX: Final = 30.0
SOCKET: Final = "libvirt-sock"
DEFINITION: Final = """<domain type='test'>
  <name>{name}</name><uuid>{id}</uuid><memory unit='MiB'>{memory}</memory><vcpu>{cores}</vcpu>
  <metadata>{mark}</metadata><os><type>hvm</type></os>
</domain>"""
"""A machine that boots from the network, and so has no image."""


class Definition(NamedTuple):
    """A machine. `memory`: MiB. `type`: "": it is not of the service, as a template."""

    name: str
    cores: int
    memory: int
    type: str = ""


def missing() -> list[str]:
    """Packages that have to be installed."""
    found = [] if os.access(PROGRAM, os.X_OK) else [PACKAGE]
    return [*found, BINDING] if isinstance(binding.load(), Unavailable) else found


class Libvirtd:
    """`folder`: of this server."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.socket = folder / SOCKET
        self.connection: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"test+unix:///default?socket={self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """It may not answer yet."""
        (self.folder / "none").mkdir(parents=True)
        (self.folder / "conf").write_text(
            f'unix_sock_dir = "{self.folder}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'
            f'min_workers = 1\nprio_workers = 1\nlog_outputs = "3:file:{self.folder}/log"\n'
        )
        environment = {**os.environ, "LIBVIRT_DRIVER_DIR": str(self.folder / "none")}
        words = [PROGRAM, "-f", str(self.folder / "conf"), "-p", str(self.folder / "pid")]
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def connect(self) -> None:
        """And take away the machine that the driver begins with. Raises LabError."""
        until = time.monotonic() + ANSWER_S_MAX
        while not _answers(self.socket):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > until:
                log = self.folder / "log"
                raise LabError(f"libvirtd has not begun: {log.read_text() if log.exists() else 'it has no log'}")
            time.sleep(0.02)
        self.connection = binding.load().open(self.uri)
        for domain in self.connection.listAllDomains():
            if domain.isActive():
                domain.destroy()
            domain.undefine()

    def define(self, machines: Iterable[Definition], cluster: str) -> None:
        """Machines that are off."""
        for each in machines:
            id_ = str(uuid4())
            mark = _with_namespace(mark_text(Mark(id_, cluster, each.type))) if each.type else ""
            text = DEFINITION.format(name=each.name, id=id_, memory=each.memory, cores=each.cores, mark=mark)
            self.connection.defineXML(text)

    def end(self) -> None:
        if self.connection is not None:
            with suppress(Exception):
                self.connection.close()
            self.connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Libvirtds:
    """As long as the `with` block. Raises LabError."""

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        self.folder = folder
        self.of = {name: Libvirtd(name, folder / name) for name in names}

    def __enter__(self) -> Libvirtds:
        try:
            for each in self.of.values():
                each.start()
            for each in self.of.values():
                each.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.of.values():
            each.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def _with_namespace(mark: str) -> str:
    """In a whole definition; libvirt adds it where a mark is set alone."""
    return mark.replace("<machine", f'<{PREFIX}:machine xmlns:{PREFIX}="{NAMESPACE}"', 1)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
        client.connect(str(path))
        return True
    return False
