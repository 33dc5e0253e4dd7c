"""A real Slurm in a room of its own: a controller, two nodes, and the line of slurm.conf in docs/accounting.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from batch_room import ADDRESS, Room, furnished, need, sink, until

PROGRAMS: Final = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "scontrol": "slurm-client",
    "munged": "munge",
}
NODES: Final = ("n1", "n2")
CPUS: Final = 4
CONFIGURATION = """\
ClusterName=one
SlurmctldHost=head({address})
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/slurm/state
SlurmdSpoolDir={folder}/slurm/%n
SlurmctldPidFile={folder}/slurm/slurmctld.pid
SlurmdPidFile={folder}/slurm/%n.pid
SlurmctldLogFile={folder}/slurm/slurmctld.log
SlurmdLogFile={folder}/slurm/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MessageTimeout=60
"""
TWO = """\
NodeName=n[1-2] NodeHostname=head NodeAddr={address} Port=[17001-17002] CPUs={cpus}
PartitionName=batch Nodes=n[1-2] Default=YES
"""


class Slurm:
    def __init__(self, room: Room) -> None:
        self.room = room

    def submit(self, script: str, *options: str) -> str:
        """The id of a new job of ann."""
        words = ("sbatch", "--parsable", "--output=/dev/null", *options)
        return self.room.run(*words, user="ann", given=f"#!/bin/sh\n{script}\n").strip()

    def state(self, job: str) -> str:
        return self.room.run("squeue", "--noheader", "--jobs", job, "--format=%T", check=False).strip()

    def told(self, job: str) -> dict[str, str]:
        """What `scontrol show job` says of it; times are seconds since 1970."""
        said = self.room.run("env", "SLURM_TIME_FORMAT=%s", "scontrol", "--oneliner", "show", "job", job)
        (line,) = (line for line in said.splitlines() if line.startswith(f"JobId={job} "))  # an array: all its tasks
        return dict(re.findall(r"(\S+?)=(\S*)", line))

    def start(self, node: str, *options: str) -> None:
        """Its slurmd."""
        self.room.run("slurmd", "-N", node, "-f", self.room.environment["SLURM_CONF"], *options)

    def states(self) -> str:
        """Of its nodes."""
        return self.room.run("sinfo", "--noheader", "--Node", "--format=%N %T")


@contextmanager
def running(line: str) -> Iterator[Slurm]:
    """With this line in slurm.conf, which names the directory of deploy/epilog/slurm, and a sink beside it."""
    need(PROGRAMS)
    with furnished() as room, sink(room):
        folder = Path(re.sub(r"^Epilog=|/\*$", "", line))
        own = room.make(folder.name)
        room.epilog("slurm", f"{own.name}/subord")
        slurm = controlled(room, TWO.format(address=ADDRESS, cpus=CPUS) + line.replace(str(folder), str(own)))
        for node in NODES:
            slurm.start(node)
        until(lambda: slurm.states().count(" idle") == len(NODES), lambda: f"all are idle: {slurm.states()}")
        yield slurm


def controlled(room: Room, lines: str) -> Slurm:
    """A controller, with these lines in slurm.conf, without nodes that run."""
    room.make("slurm/state")
    room.make("munge")
    _start_munge(room)
    text = CONFIGURATION.format(address=ADDRESS, folder=room.folder)
    configuration = room.write("slurm.conf", f"{text}{lines}\n")
    room.environment["SLURM_CONF"] = str(configuration)
    room.run("slurmctld", "-f", configuration)
    return Slurm(room)


def _start_munge(room: Room) -> None:
    own = room.folder / "munge"
    key = own / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = {"key-file": key, "socket": own / "socket", "pid-file": own / "pid"}
    files |= {"log-file": own / "log", "seed-file": own / "seed"}
    room.run("munged", *(f"--{name}={path}" for name, path in files.items()))
