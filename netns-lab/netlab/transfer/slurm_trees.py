"""A tree with a real cell of Slurm: as trees.py has one of Grid Engine.

The transfer host has slurmctld, and the slurmd of the transfer partition; all other nodes have a slurmd and run jobs.
All files of the cell are in the directory that its hosts share.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from netlab.elastic import files
from netlab.elastic.host import SHARED
from netlab.elastic.hosted import HEAD, HOME, NAMES, ROOT, USER
from netlab.errors import LabError
from netlab.transfer import agent as agents
from netlab.transfer.trees import METHODS, QUEUE, SOCKET, UP_S_MAX, TreeLab
from subord.services.transfer.cells.slurm import settings

PROGRAMS: Final = {"slurmctld": "slurmctld", "slurmd": "slurmd", "scontrol": "slurm-client", "munged": "munge"}
TOP: Final = f"{SHARED}/slurm"
PARTITION: Final = "batch"
MIB: Final = 1000
"""Memory of each node, as jobs may ask for it."""
AGAIN_S: Final = 20
"""So long a job that was put back waits at least, and a credential of a job is valid; Slurm has 120 s."""
MUNGE: Final = "/run/munge-lab"
CONFIGURATION: Final = """\
ClusterName={name}
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={munge}/socket,cred_expire={again}
StateSaveLocation={top}/state
SlurmdSpoolDir=/run/slurmd-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile={top}/slurmctld.log
SlurmdLogFile={top}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=100000,bf_interval=1
ReturnToService=2
MessageTimeout=60
KillWait=5
DebugFlags=NO_CONF_HASH
JobCompType=jobcomp/filetxt
JobCompLoc={top}/jobcomp
"""
MUNGED: Final = f"""
mkdir -m 755 -p {MUNGE}
cp {TOP}/key {MUNGE}/key
chmod 400 {MUNGE}/key
munged --key-file={MUNGE}/key --socket={MUNGE}/socket --pid-file={MUNGE}/pid --log-file={MUNGE}/log \
--seed-file={MUNGE}/seed
"""


def missing() -> list[str]:
    """Packages that have to be installed."""
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})


class SlurmTreeLab(TreeLab):
    """As TreeLab."""

    batch = "slurm"
    batch_environment: Mapping[str, str] = {"SLURM_CONF": f"{TOP}/slurm.conf"}

    def _begin(self, stack: ExitStack) -> None:
        shared = self._share()
        (shared / "slurm" / "state").mkdir(parents=True)
        (shared / "slurm" / "key").write_bytes(os.urandom(128))
        (shared / "slurm" / "slurm.conf").write_text(self._configuration())
        (shared / Path(METHODS).relative_to(SHARED)).mkdir()
        self._boot(stack, shared)
        for name in (NAMES[HEAD], *self.runs):
            self.run(name, "sh", "-c", MUNGED)
        self.start_master()
        for name in self.runs:
            self.slurm(name, "slurmd", "-N", name)
        self.await_that(self.is_up, "the nodes of the cell serve", UP_S_MAX, self.facts)

    def _configuration(self) -> str:
        nodes = "".join(f"NodeName={name} CPUs={self.slots} RealMemory={MIB}\n" for name in self.runs)
        partition = f"PartitionName={PARTITION} Nodes={','.join(self.runs)} Default=YES PriorityTier=2\n"
        text = CONFIGURATION.format(name=self.name, munge=MUNGE, top=TOP, again=AGAIN_S)
        transfer = settings.cell_lines(self.slurm_settings(40)).replace(" State=", f" RealMemory={MIB} State=", 1)
        return f"{text}{nodes}{partition}{transfer}"

    def slurm_settings(self, slots: int) -> settings.Settings:
        python = agents.python()
        values = (f"{name}={value}" for name, value in python.items() if name != "PYTHON")
        return settings.Settings(
            NAMES[HEAD],
            SOCKET,
            ("env", *values, python["PYTHON"], "-P", "-m", "subord", "transfer"),
            (QUEUE,),
            slots=slots,
            folder=METHODS,
            configuration=f"{TOP}/slurm.conf",
            spool=f"{TOP}/spool",
            log=f"{TOP}/transfer.log",
        )

    # -- the cell -------------------------------------------------------------------------------------------------

    def slurm(self, name: str, *words: str, user: str = "root", given: str = "") -> str:
        """A command of Slurm on a host. Raises LabError."""
        values = (f"{key}={value}" for key, value in self.batch_environment.items())
        return self.run(name, "env", *values, *words, user=user, given=given)

    def on_head(self, *words: str, user: str = "root", given: str = "") -> str:
        return self.slurm(NAMES[HEAD], *words, user=user, given=given)

    def is_up(self) -> bool:
        said = self.on_head("sinfo", "--noheader", "--Node", f"--partition={PARTITION}", "--format=%T")
        return said.split() == ["idle"] * len(self.runs)

    def set_up(self, **changed: Any) -> None:
        """The transfer partition. Raises LabError."""
        own = self.slurm_settings(changed["slots"])
        for path, (text, mode) in settings.files(own).items():
            self.run_on_head("sh", "-c", f"cat >{path}; chmod {mode:o} {path}", given=text)
        self.start_transfer_slurmd()

    def start_transfer_slurmd(self, *options: str) -> None:
        self.on_head("slurmd", "-N", settings.NODE, "-f", f"{METHODS}/slurm.conf", *options)
        self.await_that(self.is_open, "the transfer partition is open", UP_S_MAX, self.facts)

    def is_open(self) -> bool:
        said = self.on_head("sinfo", "--noheader", "--Node", f"--partition={QUEUE}", "--format=%T")
        return said.split() in (["idle"], ["mixed"], ["allocated"])

    def submit(self, script: str, *options: str, queue: str = QUEUE) -> str:
        """The id of a new job of USER, from its home."""
        words = ("sbatch", "--parsable", f"--chdir={HOME}", "--output=/dev/null", f"--partition={queue}", *options)
        return self.on_head(*words, user=USER, given=f"#!/bin/sh\n{script}\n").strip()

    def open_partition(self, *, is_up: bool) -> None:
        """Whether jobs start in the partition of this cluster."""
        self.on_head("scontrol", "update", f"PartitionName={PARTITION}", f"State={'UP' if is_up else 'DOWN'}")

    def await_written(self, seconds: float) -> None:
        """What jobs are is in the files of slurmctld, which it writes each 5 s. Raises LabError."""
        file = self.path / files.SHARED / "slurm" / "state" / "job_state"
        number = self.submit("true", "--hold", queue=PARTITION)
        before = file.stat().st_mtime_ns if file.exists() else 0
        written = lambda: file.exists() and file.stat().st_mtime_ns != before  # noqa: E731
        self.await_that(written, "slurmctld has written its jobs down", seconds, self.facts)
        self.on_head("scancel", number)

    def jobs(self) -> list[dict[str, Any]]:
        """Those that slurmctld knows."""
        found: list[dict[str, Any]] = json.loads(self.on_head("squeue", "--json"))["jobs"]
        return found

    def job(self, number: str) -> dict[str, Any]:
        """Raises LabError."""
        for each in self.jobs():
            if str(each["job_id"]) == number:
                return each
        raise LabError(f"Slurm of {self.name} does not know the job {number}.")

    def lists(self) -> int:
        """How often slurmctld was asked for all jobs since it began."""
        found = re.search(r"REQUEST_JOB_INFO +\( *\d+\) count:(\d+)", self.on_head("sdiag"))
        return int(found[1]) if found else 0

    def states(self) -> dict[str, str]:
        return {str(each["job_id"]): each["job_state"] for each in self.jobs()}

    def start_master(self) -> None:
        self.on_head("slurmctld")

    def revive_head(self) -> None:
        """All of its processes are others: its slurmd says that the host was started."""
        self.ask("revive", name=NAMES[HEAD])
        self.run_on_head("sh", "-c", MUNGED)
        self.start_master()
        self.start_transfer_slurmd("-b")
        self.await_placed((ROOT, HEAD))

    def facts(self) -> str:
        said = self.on_head("sh", "-c", "squeue; sinfo -N -l; tail -n 5 /srv/slurm/*.log")
        return f"{self.name}: {said} {self.agent_log()[-1500:]}"
