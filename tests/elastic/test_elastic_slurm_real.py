"""The manager beside a real Slurm, whose power saving decides: nodes with State=CLOUD come and go as Slurm wants.

Slurm's ResumeProgram and SuspendProgram do nothing here: each notification is lost.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import slurm_room
from batch_room import REPOSITORY, Room, furnished, need, until
from room_hosts import Hosts, hosts_of

from subord.services.elastic.options import Options
from subord.services.elastic.plan import Plan, encode_plan
from subord.services.elastic.records import Records
from subord.services.elastic.stages import Stage
from subord.services.elastic.task import Step

pytestmark = pytest.mark.slow
LINES: Final = """\
NodeName=h1 CPUs=2 RealMemory=500
NodeName=c[1-2] CPUs=2 RealMemory=500 State=CLOUD
PartitionName=batch Nodes=h1,c[1-2] Default=YES
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=2
SuspendExcNodes=h1
SuspendTimeout=10
ResumeTimeout=60
SchedulerParameters=sched_interval=2,sched_min_interval=100000,bf_interval=1
"""
PLAN: Final = Plan(
    manager=1, has_hosts=False, options=Options(max_nodes=3, interval_s=5, queue="batch", decides="slurm")
)


class Site:
    """Machines for the manager: each is a host of the room. It answers one request after the other, also if the one
    that has asked is dead."""

    def __init__(self, room: Room, hosts: Hosts) -> None:
        self.room, self.hosts = room, hosts
        self.addresses: dict[str, str] = {}
        self.launched: list[str] = []
        self.ended: list[str] = []
        self.path = str(room.folder / "machines")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError, ValueError), connection, connection.makefile("rwb") as file:
                    answer = self._answer(*json.loads(file.readline()))
                    file.write(json.dumps(answer).encode() + b"\n")

    def _answer(self, verb: str, *words: str) -> Any:
        match verb:
            case "start":
                (name,) = words
                if name not in self.addresses:
                    self.launched.append(name)
                    self.addresses[name] = self.hosts.start(name)
                return self.addresses[name]
            case "stop":
                (name,) = words
                if self.addresses.pop(name, None) is not None:
                    self.hosts.kill(name)
                    self.ended.append(name)
            case "order":
                address, step = words
                (name,) = (each for each, known in self.addresses.items() if known == address)
                if step == Step.DAEMON and not self._has_daemon(name):
                    self.hosts.run(name, "slurmd", "-b", "-N", name)
            case "list":
                return self.addresses
        return None

    def _has_daemon(self, name: str) -> bool:
        return (self.room.folder / "slurm" / f"{name}.pid").exists()


class Manager:
    """The manager's process, which can be killed and started again."""

    def __init__(self, room: Room, site: Site, directory: Path) -> None:
        self.states = directory / "states"
        self._settings = directory / "settings"
        self._directory = directory
        settings = {
            "socket": site.path,
            "states": str(self.states),
            "plan": encode_plan(PLAN).decode(),
            "directory": str(directory),
            "prefix": room.words(),
            "master": "h1",
            "origin": time.time(),
        }
        self._settings.write_text(json.dumps(settings))
        self.start()

    def start(self) -> None:
        program = REPOSITORY / "tests/helpers/manager_process.py"
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(self._settings)], env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
        )

    def kill(self) -> None:
        assert self._process.poll() is None, "it had ended by itself"
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def stages(self) -> dict[str, Stage]:
        records = Records(str(self._directory))
        try:
            return {name: each.stage for name, each in records.all().items()}
        finally:
            records.close()

    def told(self) -> str:
        """The last states."""
        return "".join(self.states.read_text().splitlines(keepends=True)[-3:]) if self.states.exists() else ""


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[slurm_room.Slurm, Site, Manager]]:
    need(slurm_room.PROGRAMS)
    with furnished() as room, hosts_of(room) as hosts:
        hosts.start("h1")
        slurm = slurm_room.controlled(room, LINES)
        hosts.run("h1", "slurmd")
        site = Site(room, hosts)
        manager = Manager(room, site, directory)
        try:
            yield slurm, site, manager
        finally:
            manager.kill()
            site.close()


def test_nodes_come_and_go_as_slurm_wants_though_the_manager_is_killed(tmp_path: Path) -> None:
    with cluster(tmp_path) as (slurm, site, manager):
        job = slurm.submit("sleep 2", "--exclude=h1")
        until(lambda: site.launched, lambda: f"a machine starts: {slurm.states()}{manager.told()}")
        manager.kill_and_start()
        (name,) = site.launched
        serves = {name: Stage.SERVING}
        until(lambda: manager.stages() == serves, lambda: f"it serves: {manager.stages()}{manager.told()}")
        until(lambda: slurm.state(job) == "RUNNING", lambda: f"the job runs: {slurm.state(job)}{slurm.states()}")
        manager.kill_and_start()
        until(lambda: slurm.state(job) in ("", "COMPLETED"), lambda: f"the job ends: {slurm.state(job)}")
        assert slurm.told(job)["NodeList"] == name
        assert slurm.told(job)["JobState"] == "COMPLETED"
        until(lambda: site.ended, lambda: f"the machine ends: {manager.stages()}{manager.told()}{slurm.states()}")
        until(lambda: not manager.stages(), lambda: f"nothing is left: {manager.stages()}")
        assert (site.launched, site.ended) == ([name], [name])
