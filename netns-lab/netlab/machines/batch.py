"""The lab's own batch system: a scheduler (scheduling.py) that answers on a Unix socket, and its adapter.

It stands for Grid Engine and Slurm where there are more hosts than this machine can run daemons for. The adapter is
behind the same interface (subord/services/batch/adapter.py), and `take_the_place` puts it in the place of that of
Grid Engine, in the agent of the queue's node only. JSON lines: {"do": NAME, ...} -> {"ok": ...}.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import trio

from netlab.common.json_lines import Lines, Message
from netlab.machines.journal import Change, Ran
from netlab.machines.scheduling import Batch, Host, Work
from subord.services.batch import records
from subord.services.batch.gridengine import adapter as gridengine
from subord.services.batch.records import (
    Done,
    Fault,
    HostState,
    JobState,
    NewHost,
    Outcome,
    Place,
    Refused,
    Unavailable,
)

STEP_S: Final = 0.2
ANSWER_S_MAX: Final = 20.0


class BatchSystem:
    """As long as the `with` block. `boot_s`: of a machine, from when it is on until a job may start there."""

    def __init__(self, path: Path, boot_s: float) -> None:
        self.path = path
        self.boot_s = boot_s
        self.batch = Batch()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> BatchSystem:
        self._listener.bind(os.fspath(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._serve, name="batch", daemon=True).start()
        threading.Thread(target=self._turn, name="scheduler", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def hear(self, change: Change) -> None:
        """Of the observer."""
        with self._lock:
            if change.is_on:
                self.batch.came_on(change.machine, change.at + self.boot_s)
            else:
                self.batch.went_off(change.machine, change.at)

    def register(self, names: Iterable[str], queues: Iterable[str], slots: int) -> None:
        """Hosts that an administrator has made, and drained."""
        wanted = list(queues)
        with self._lock:
            for name in names:
                for queue in wanted:
                    self.batch.add(name, queue, slots)
                self.batch.hosts[name].is_drained = True

    def submit(self, queue: str, priority: int, lasts_s: float, slots: int = 1) -> int:
        with self._lock:
            return self.batch.submit(queue, priority, lasts_s, time.time(), slots)

    def ran(self) -> list[Ran]:
        with self._lock:
            return list(self.batch.ran())

    def jobs(self) -> list[Work]:
        with self._lock:
            return [Work(**vars(each)) for each in self.batch.jobs.values()]

    def facts(self) -> dict[str, int]:
        """How many jobs are in which state."""
        return Counter(
            "waits" if each.started is None else "runs" if each.ended is None else "ended" for each in self.jobs()
        )

    def _turn(self) -> None:
        while not self._is_over.wait(STEP_S):
            with self._lock:
                self.batch.step(time.time())

    def _serve(self) -> None:
        while not self._is_over.is_set():
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=(stream,), daemon=True).start()

    def _attend(self, stream: socket.socket) -> None:
        client = Lines(stream)
        with stream:
            for request in client:
                client.send(self._answer(request))
                return

    def _answer(self, request: Message) -> Message:
        do: Callable[..., Any] = getattr(self, f"_do_{request.pop('do')}")
        with self._lock:
            return {"ok": do(**request)}

    # -- what an adapter asks ---------------------------------------------------------------------------------------

    def _do_queue(self) -> list[dict[str, Any]]:
        left = (each for each in self.batch.jobs.values() if each.ended is None)
        return [vars(each) for each in sorted(left, key=lambda each: each.rank)]

    def _do_hosts(self) -> list[list[Any]]:
        now = time.time()
        known = (each for each in self.batch.hosts.values() if each.slots)
        return [[each.name, each.slots, self.batch.used(each), each.is_up(now), each.is_drained] for each in known]

    def _do_switch(self, name: str, is_drained: bool) -> bool | None:
        host = self._known(name)
        if host is None:
            return None
        is_changed = host.is_drained != is_drained
        host.is_drained = is_drained
        return is_changed

    def _do_add(self, name: str, queue: str, slots: int) -> bool:
        return self.batch.add(name, queue, slots)

    def _do_remove(self, name: str) -> list[Any]:
        was_there = self._known(name) is not None
        reason = self.batch.remove(name)
        return [was_there and not reason, reason]

    def _known(self, name: str) -> Host | None:
        host = self.batch.hosts.get(name)
        return host if host is not None and host.slots else None


class LabAdapter:
    """Behind the interface of adapter.py. `queue`: whose hosts have slots."""

    def __init__(self, path: str, queue: str) -> None:
        self._path = path
        self._queue = queue

    async def queue(self) -> records.Queue | Unavailable:
        now = time.time()
        found = await self._ask("queue")
        return found if isinstance(found, Unavailable) else records.Queue(tuple(map(_job, found)), now)

    async def hosts(self) -> tuple[records.Host, ...] | Unavailable:
        found = await self._ask("hosts")
        return found if isinstance(found, Unavailable) else tuple(self._host(*each) for each in found)

    async def history(self, since: float) -> records.History | Unavailable:
        return records.History((), since)

    async def drain(self, host: str, reason: str = "") -> Outcome:  # noqa: ARG002 - it keeps no reason
        return self._outcome(host, await self._ask("switch", name=host, is_drained=True))

    async def undrain(self, host: str) -> Outcome:
        return self._outcome(host, await self._ask("switch", name=host, is_drained=False))

    async def add(self, host: NewHost) -> Outcome:
        return self._outcome(host.name, await self._ask("add", name=host.name, queue=self._queue, slots=host.slots))

    async def remove(self, host: str) -> Outcome:
        found = await self._ask("remove", name=host)
        if isinstance(found, Unavailable):
            return found
        is_changed, reason = found
        return Refused(reason) if reason else Done(is_changed)

    def _outcome(self, host: str, found: Any) -> Outcome:
        if isinstance(found, Unavailable):
            return found
        return Refused(f"there is no host {host}; nothing was changed") if found is None else Done(found)

    def _host(self, name: str, slots: dict[str, int], used: int, is_up: bool, is_drained: bool) -> records.Host:
        return records.Host(
            name=name,
            slots=slots.get(self._queue, 0),
            used=used if self._queue in slots else 0,
            busy=used,
            state=HostState.UP if is_up else HostState.DOWN,
            is_drained=is_drained,
            word=("up" if is_up else "down") + ("-drained" if is_drained else ""),
            load=None,
            cpus=None,
            memory=None,
        )

    async def _ask(self, do: str, **fields: Any) -> Any:
        """Unavailable: it does not answer."""
        line = b""
        try:
            with trio.fail_after(ANSWER_S_MAX):
                async with await trio.open_unix_socket(self._path) as stream:
                    await stream.send_all(json.dumps({"do": do, **fields}).encode() + b"\n")
                    async for part in stream:
                        line += part
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            return Unavailable(Fault.SILENT, f"the batch system of the lab does not answer: {error}")
        if not line:
            return Unavailable(Fault.SILENT, "the batch system of the lab gave no answer")
        return json.loads(line)["ok"]


def take_the_place(path: Path) -> None:
    """In this process the adapter of Grid Engine is this one from now on. `path`: where the batch system answers."""
    patched: Any = gridengine
    patched.GridEngine = lambda _commands, queue, *_others: LabAdapter(os.fspath(path), queue)


def _job(about: dict[str, Any]) -> records.Job:
    is_running = about["started"] is not None
    return records.Job(
        id=str(about["number"]),
        task=None,
        owner="ann",
        name="job",
        state=JobState.RUNNING if is_running else JobState.QUEUED,
        word="r" if is_running else "qw",
        slots=about["slots"],
        submitted=about["submitted"],
        started=about["started"],
        queue=about["queue"] if is_running else "",
        queues=(about["queue"],),
        places=(Place(about["host"], about["slots"]),) if is_running else (),
    )
