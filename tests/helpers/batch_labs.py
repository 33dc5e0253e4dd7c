"""The two batch systems for the tests of their adapters: each with the hosts h1 and h2, of SLOTS, and room for more.

Only `ann` has jobs. Hosts have networks and processes of their own (room_hosts.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import gridengine_room
import slurm_room
from batch_room import Room, furnished, need, until
from room_hosts import Hosts, hosts_of

from subord.services.batch.adapter import Adapter
from subord.services.batch.gridengine import adapter as gridengine
from subord.services.batch.running import Commands
from subord.services.batch.slurm import adapter as slurm

SLOTS: Final = {"h1": 2, "h2": 4}
QUEUE: Final = "all.q"
OTHER_QUEUE: Final = "other.q"
LONG: Final = "exec sleep 1000"
MIB: Final = 1 << 20


class Lab(Protocol):
    room: Room
    hosts: Hosts
    has_reasons: bool
    """Whether it keeps why a host is drained."""

    @property
    def adapter(self) -> Adapter: ...

    def adapter_of(self, user: str = "root", **environment: str) -> Adapter:
        """One that runs its commands as this user, or with other settings."""

    def submit(self, script: str, *, slots: int = 1, tasks: str = "", is_held: bool = False, queue: str = "") -> str:
        """The id of a new job."""

    def submit_later(self) -> str:
        """One that waits for a time."""

    def fail(self) -> str:
        """A job that is in error soon."""

    def cancel(self, *jobs: str) -> None: ...

    def serve(self, host: str) -> None:
        """Start the daemon of a host."""

    def silent(self) -> Adapter:
        """One whose master or controller does not answer."""


class GridEngineLab:
    has_reasons = False

    def __init__(self, room: Room, hosts: Hosts) -> None:
        self.room, self.hosts = room, hosts
        self.engine = gridengine_room.mastered(room)
        room.environment |= gridengine.ENVIRONMENT
        # Without Debian's wrapper around each command, which takes ten times its processor time; the tests of epilogs
        # call it.
        room.environment["PATH"] = f"/usr/lib/gridengine:{room.environment['PATH']}"
        pe = gridengine_room.SHARE / "util/resources/pe" / gridengine_room.PARALLEL
        text = pe.read_text(encoding="utf-8").replace("$pe_slots", "$fill_up")
        room.run("qconf", "-Ap", room.write("ge/pe", text))
        gridengine_room.add(room, "-Ahgrp", "group", {"group_name": "@allhosts", "hostlist": "NONE"})
        gridengine_room.add_queue(room, QUEUE, hostlist="@allhosts", slots="1")
        gridengine_room.add_queue(room, OTHER_QUEUE, hostlist="@allhosts", slots="0")

    @property
    def adapter(self) -> Adapter:
        return self.adapter_of()

    def adapter_of(self, user: str = "root", **environment: str) -> Adapter:
        with_user = self.room.words(*(f"{name}={value}" for name, value in environment.items()), user=user)
        return gridengine.GridEngine(Commands({}, tuple(with_user)), QUEUE, parallel=(gridengine_room.PARALLEL,))

    def submit(
        self, script: str, *, slots: int = 1, tasks: str = "", is_held: bool = False, queue: str = QUEUE
    ) -> str:
        options = ["-pe", gridengine_room.PARALLEL, str(slots)] if slots > 1 else []
        options += ["-t", tasks] if tasks else []
        options += ["-h"] if is_held else []
        return self.engine.submit(script, "-N", "a<b>&'c", "-q", queue or QUEUE, *options)

    def submit_later(self) -> str:
        return self.engine.submit("exit 0", "-a", "203712312359")

    def fail(self) -> str:
        words = ("qsub", "-terse", "-q", QUEUE, "-j", "y", "-o", "/no/such/directory/x")
        return self.room.run(*words, user="ann", given="exit 0\n").strip()

    def cancel(self, *jobs: str) -> None:
        self.room.run("qdel", *jobs, user="ann", check=False)

    def serve(self, host: str) -> None:
        self.hosts.run(host, "sge_execd", environment={"SGE_EXECD_PIDFILE": "/run/execd.pid"})

    def silent(self) -> Adapter:
        return self.adapter_of(SGE_QMASTER_PORT="1")


class SlurmLab:
    has_reasons = True

    def __init__(self, room: Room, hosts: Hosts) -> None:
        self.room, self.hosts = room, hosts
        nodes = "".join(f"NodeName={host} CPUs={slots} RealMemory=500\n" for host, slots in SLOTS.items())
        quick = "SchedulerParameters=sched_interval=2,sched_min_interval=100000,bf_interval=1\n"
        dynamic = "MaxNodeCount=16\n"
        partitions = (
            f"PartitionName={QUEUE} Nodes=ALL Default=YES\nPartitionName={OTHER_QUEUE} Nodes=ALL State=DOWN\n"
        )
        self.controller = slurm_room.controlled(room, quick + dynamic + nodes + partitions)
        room.environment |= slurm.ENVIRONMENT

    @property
    def adapter(self) -> Adapter:
        return self.adapter_of()

    def adapter_of(self, user: str = "root", **environment: str) -> Adapter:
        with_user = self.room.words(*(f"{name}={value}" for name, value in environment.items()), user=user)
        return slurm.Slurm(Commands({}, tuple(with_user)), QUEUE)

    def submit(
        self, script: str, *, slots: int = 1, tasks: str = "", is_held: bool = False, queue: str = QUEUE
    ) -> str:
        options = [f"--array={tasks}"] if tasks else []
        options += ["--hold"] if is_held else []
        words = (f"--ntasks={slots}", '--job-name=a<b>&"c\n|é', f"--partition={queue or QUEUE}", *options)
        return self.controller.submit(script, *words)

    def submit_later(self) -> str:
        return self.controller.submit("exit 0", "--begin=2037-12-31")

    def fail(self) -> str:
        job = self.controller.submit(LONG)
        until(lambda: self.controller.state(job) == "RUNNING", lambda: "the job runs")
        self.room.run("scontrol", "requeuehold", "State=SpecialExit", job)
        return job

    def cancel(self, *jobs: str) -> None:
        self.room.run("scancel", "--full", "--signal=KILL", *jobs, check=False)
        self.room.run("scancel", *jobs, check=False)

    def serve(self, host: str) -> None:
        known = () if host in SLOTS else ("-Z",)
        self.hosts.run(host, "slurmd", "-N", host, "-f", self.room.environment["SLURM_CONF"], *known)

    def silent(self) -> Adapter:
        own = self.room.environment["SLURM_CONF"]
        text = self.room.run("cat", own).replace("MessageTimeout=60", "MessageTimeout=2") + "SlurmctldPort=1\n"
        return self.adapter_of(SLURM_CONF=str(self.room.write("silent.conf", text)))


@contextmanager
def gridengine_lab() -> Iterator[Lab]:
    need(gridengine_room.PROGRAMS)
    with furnished() as room, hosts_of(room) as hosts:
        for host in SLOTS:
            hosts.start(host)
        yield GridEngineLab(room, hosts)


@contextmanager
def slurm_lab() -> Iterator[Lab]:
    need(slurm_room.PROGRAMS)
    with furnished() as room, hosts_of(room) as hosts:
        for host in SLOTS:
            hosts.start(host)
        yield SlurmLab(room, hosts)
