"""A batch system in a directory for machines: it starts jobs on hosts that are open, in the order of the jobs.

`jobs.json` is written by the test: the queue of each job; `hosts.json` by the adapter; `runs.json` says where jobs
run. A host that is registered is up. `patch` puts it into an agent.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import trio

from subord.services.batch.records import (
    Done,
    History,
    Host,
    HostState,
    Job,
    JobState,
    NewHost,
    Outcome,
    Place,
    Queue,
    Refused,
)
from subord.services.machines.managing import role


def patch(top: str) -> None:
    """In the process of an agent."""
    made: Any = role
    made.make_adapter = lambda *_: QueueInFiles(Path(top))


class QueueInFiles:
    """A job has one slot, and its host is one of its queue: `long-` and a number are of the queue `long`."""

    def __init__(self, top: Path) -> None:
        self._top = top

    async def queue(self) -> Queue:
        await trio.lowlevel.checkpoint()
        jobs, runs = self._read("jobs"), self._read("runs")
        runs = {job: host for job, host in runs.items() if job in jobs}
        for job, queue in jobs.items():
            free = [name for name, is_open in self._read("hosts").items() if is_open and name.startswith(f"{queue}-")]
            free = [name for name in free if name not in runs.values()]
            if job not in runs and free:
                runs[job] = free[0]
        self._write("runs", runs)
        return Queue(tuple(_job(job, queue, runs.get(job, "")) for job, queue in jobs.items()), time.time())

    async def hosts(self) -> tuple[Host, ...]:
        await trio.lowlevel.checkpoint()
        runs = list(self._read("runs").values())
        return tuple(
            Host(name, 1, runs.count(name), runs.count(name), HostState.UP, not is_open, "up", 0.0, 1, None)
            for name, is_open in self._read("hosts").items()
        )

    async def history(self, since: float) -> History:
        await trio.lowlevel.checkpoint()
        return History((), since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002
        return await self._change(host, is_open=False)

    async def undrain(self, host: str) -> Outcome:
        return await self._change(host, is_open=True)

    async def add(self, host: NewHost) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._write("hosts", {**self._read("hosts"), host.name: False})
        return Done(is_changed=True)

    async def remove(self, host: str) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._write("hosts", {name: said for name, said in self._read("hosts").items() if name != host})
        return Done(is_changed=True)

    async def _change(self, host: str, *, is_open: bool) -> Outcome:
        await trio.lowlevel.checkpoint()
        hosts = self._read("hosts")
        if host not in hosts:
            return Refused(f"there is no host {host}")
        self._write("hosts", {**hosts, host: is_open})
        return Done(is_changed=True)

    def _read(self, name: str) -> dict[str, Any]:
        path = self._top / f"{name}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _write(self, name: str, said: dict[str, Any]) -> None:
        fresh = self._top / f"{name}.new"
        fresh.write_text(json.dumps(said))
        fresh.replace(self._top / f"{name}.json")


def _job(job: str, queue: str, host: str) -> Job:
    state = JobState.RUNNING if host else JobState.QUEUED
    places = (Place(host, 1),) if host else ()
    return Job(
        job, None, "ann", job, state, "", 1, 0.0, 1.0 if host else None, queue if host else "", (queue,), places
    )
