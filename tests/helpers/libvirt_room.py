"""Servers of libvirt's test driver, and a real libvirtd, for tests of machines.

The test driver takes a server from a file, and each connection to the file has a server of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PACKAGES = "apt-get install libvirt-dev pkg-config gcc python3-dev"
NO_BINDING = f"no libvirt in this Python: {PACKAGES}, then ./dev setup"
NO_DAEMON = "no libvirtd here: apt-get install libvirt-daemon"
LIBVIRTD = "/usr/sbin/libvirtd"
CORES, MEMORY, MHZ = 18, 49152, 2400

HOST = """<node>
  <cpu><mhz>{mhz}</mhz><model>x86_64</model><active>{cores}</active>
    <nodes>1</nodes><sockets>1</sockets><cores>{cores}</cores><threads>1</threads></cpu>
  <memory>{memory}</memory>
  {domains}
  <pool type='dir'><name>images</name><target><path>/images</path></target>{volumes}</pool>
</node>
"""
VOLUME = """<volume><name>{name}</name><capacity unit='GiB'>{gib}</capacity>
  <allocation unit='GiB'>{gib}</allocation><target><format type='qcow2'/></target></volume>"""
TEMPLATE = """<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <name>{name}</name><memory unit='GiB'>2</memory><vcpu>{cores}</vcpu><os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'><source file='/images/{name}.qcow2'/><target dev='vda'/></disk>
    <disk type='file' device='cdrom'><source file='/iso/tools.iso'/><target dev='hdc'/><readonly/></disk>
    <interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/></interface>
  </devices>
  <test:runstate>5</test:runstate>
</domain>"""


def need_binding() -> Any:
    if find_spec("libvirt") is None:
        pytest.skip(NO_BINDING)
    from subord.services.machines.power import binding

    return binding.load()


def host_file(path: Path, *, mhz: int = MHZ, gib: int = 10) -> str:
    """A server with the template `alma`, whose image has so many GiB, in a pool of 100; its URI."""
    alma, image = TEMPLATE.format(name="alma", cores=2), VOLUME.format(name="alma.qcow2", gib=gib)
    path.write_text(HOST.format(mhz=mhz, cores=CORES, memory=MEMORY * 1024, domains=alma, volumes=image))
    return f"test://{path}"


class Daemon:
    """A libvirtd with nothing but the test driver and its remote protocol, in a folder of its own."""

    def __init__(self, folder: Path, drivers: str = "") -> None:
        self.folder = folder
        self.socket = folder / "libvirt-sock"
        self._drivers = drivers
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "none").mkdir(parents=True)
        (folder / "conf").write_text(
            f'unix_sock_dir = "{folder}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'
            f'log_outputs = "3:file:{folder}/log"\n'
        )

    @property
    def uri(self) -> str:
        return f"test+unix:///default?socket={self.socket}"

    @property
    def prefix(self) -> list[str]:
        """Before the words that start it."""
        return []

    def start(self) -> None:
        environment = {**os.environ, "LIBVIRT_DRIVER_DIR": self._drivers or str(self.folder / "none")}
        words = [*self.prefix, LIBVIRTD, "-f", str(self.folder / "conf"), "-p", str(self.folder / "pid")]
        self._process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not self._answers():
            assert time.monotonic() < until, "libvirtd has not started"
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
            client.connect(str(self.socket))
            return True
        return False

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.socket.unlink(missing_ok=True)


@contextmanager
def running(folder: Path) -> Iterator[Daemon]:
    need_binding()
    if shutil.which(LIBVIRTD) is None:
        pytest.skip(NO_DAEMON)
    daemon = Daemon(folder)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.stop()
