"""A batch system in a directory, in the place of Grid Engine, and a supplier whose nodes run already.

`jobs.json` is written by the test: slots of each job, and where it runs, "": it waits. `hosts.json` is written by the
adapter. A host is up when the command `daemon` of its node has run. `patch` puts it into an agent, with a clock that
is faster than that of the machine.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any, Final

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
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing import role

START: Final = """#!/bin/sh
exec 9>{top}/lock
flock 9
if [ ! -e {top}/machines/$1 ]
then
  for address in {addresses}
  do
    if ! grep -qsx $address {top}/machines/*
    then
      echo $address > {top}/machines/$1
      break
    fi
  done
fi
echo started
cat {top}/machines/$1
"""
STOP: Final = """#!/bin/sh
rm -f {top}/machines/$1
echo $1 >> {top}/stopped
"""
LIST: Final = """#!/bin/sh
cd {top}/machines
for each in *
do
  if [ -e $each ]
  then
    echo $each $(cat $each)
  fi
done
"""


def prepare(top: Path, *addresses: str) -> None:
    """The directory, with the commands `start`, `stop`, `list` and, for each address, `daemon`."""
    (top / "machines").mkdir()
    (top / "jobs.json").write_text("[]")
    (top / "hosts.json").write_text("{}")
    for name, text in (("start", START), ("stop", STOP), ("list", LIST)):
        _program(top / name, text.format(top=top, addresses=" ".join(addresses)))
    for address in addresses:
        _program(top / f"daemon-{address}", f"#!/bin/sh\ntouch {top}/up-{address}\n")
        _program(top / f"end-{address}", f"#!/bin/sh\nrm -f {top}/up-{address}\n")


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def patch(top: str, rate: float, origin: float) -> None:
    """In the process of an agent."""
    made: Any = role
    made.adapter_of = lambda *_: BatchInFiles(Path(top))
    made.make_clock = lambda: Clock(rate=rate, origin=origin)


class BatchInFiles:
    """The queue's node is a host with one slot, on which a job runs."""

    def __init__(self, top: Path) -> None:
        self._top = top

    async def queue(self) -> Queue:
        await trio.lowlevel.checkpoint()
        return Queue(tuple(map(_job, self._jobs())), time.time())

    async def hosts(self) -> tuple[Host, ...]:
        await trio.lowlevel.checkpoint()
        master = Host(socket.gethostname(), 1, 1, 1, HostState.UP, False, "up", 0.5, 1, None)
        return (master, *(self._host(name, **said) for name, said in self._hosts().items()))

    def _host(self, name: str, slots: int, is_drained: bool) -> Host:
        used = sum(each["slots"] for each in self._jobs() if each["host"] == name)
        place = self._top / "machines" / name
        is_up = place.exists() and (self._top / f"up-{place.read_text().strip()}").exists()
        state = HostState.UP if is_up else HostState.DOWN
        return Host(name, slots, used, used, state, is_drained, state, 0.0, slots, None)

    async def history(self, since: float) -> History:
        await trio.lowlevel.checkpoint()
        return History((), since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002
        return await self._change(host, is_drained=True)

    async def undrain(self, host: str) -> Outcome:
        return await self._change(host, is_drained=False)

    async def _change(self, host: str, *, is_drained: bool) -> Outcome:
        await trio.lowlevel.checkpoint()
        hosts = self._hosts()
        if host not in hosts:
            return Refused(f"there is no host {host}")
        hosts[host]["is_drained"] = is_drained
        self._write(hosts)
        return Done(is_changed=True)

    async def add(self, host: NewHost) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._write({**self._hosts(), host.name: {"slots": host.slots, "is_drained": False}})
        return Done(is_changed=True)

    async def remove(self, host: str) -> Outcome:
        await trio.lowlevel.checkpoint()
        self._write({name: said for name, said in self._hosts().items() if name != host})
        return Done(is_changed=True)

    # -- files ----------------------------------------------------------------------------------------------------

    def _jobs(self) -> list[Any]:
        found: list[Any] = json.loads((self._top / "jobs.json").read_text())
        return found

    def _hosts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self._top / "hosts.json").read_text())
        return found

    def _write(self, hosts: dict[str, Any]) -> None:
        fresh = self._top / "hosts.new"
        fresh.write_text(json.dumps(hosts))
        fresh.replace(self._top / "hosts.json")


def _job(said: dict[str, Any]) -> Job:
    runs = bool(said["host"])
    return Job(
        id=said["id"],
        task=None,
        owner="ann",
        name="job",
        state=JobState.RUNNING if runs else JobState.QUEUED,
        word="r" if runs else "qw",
        slots=said["slots"],
        submitted=said["since"],
        started=said["since"] if runs else None,
        queue="all.q" if runs else "",
        places=(Place(said["host"], said["slots"]),) if runs else (),
    )
