"""A manager of an elastic cluster in a process of its own, for tests that kill it.

`python manager_process.py FILE` manages by the settings in a file of JSON. Machines come from the test, whose socket
is named there; commands of the batch system run with a prefix, such as one that enters a room. Its clock runs RATE
times as fast as that of the machine.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from subord.runtime.elastic.state import State
from subord.services.batch.adapter import adapter_of
from subord.services.elastic.clock import Clock
from subord.services.elastic.managing import Cluster, Manager
from subord.services.elastic.plan import decode_plan
from subord.services.elastic.records import Records
from subord.services.elastic.suppliers import Failed, Started
from subord.services.elastic.task import Result, Step

RATE: Final = 4.0


class Machines:
    """The supplier, and the nodes, as the test serves them."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def _ask(self, *words: str) -> Any:
        return await trio.to_thread.run_sync(partial(_asked, self._path, words))

    async def start(self, name: str, kind: str) -> Started | Failed:  # noqa: ARG002
        return Started(await self._ask("start", name))

    async def stop(self, name: str) -> Failed | None:
        await self._ask("stop", name)
        return None

    async def list(self) -> Mapping[str, str] | Failed | None:
        found: dict[str, str] = await self._ask("list")
        return found

    async def joined(self, address: str) -> str:  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return ""

    async def order(self, address: str, step: Step) -> Result | str:
        await self._ask("order", address, step)
        return Result()

    async def names(self, table: Mapping[str, str], must: Collection[str]) -> str:  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return ""

    async def export(self, addresses: Collection[str]) -> str:  # noqa: ARG002
        await trio.lowlevel.checkpoint()
        return ""

    unexport = export


def _asked(path: str, words: tuple[str, ...]) -> Any:
    """Blocks."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(words).encode() + b"\n")
        with connection.makefile("rb") as file:
            return json.loads(file.readline())


def _write(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


async def manage(settings: Mapping[str, Any]) -> None:
    """Until this process is killed."""
    machines = Machines(settings["socket"])
    states = Path(settings["states"])

    async def tell(state: State) -> None:
        await trio.to_thread.run_sync(_write, states, json.dumps([time.time(), state.fault, state.why]))

    plan = decode_plan(settings["plan"].encode())
    assert plan is not None
    assert plan.options is not None
    with closing(Records(settings["directory"])) as records:
        adapter = adapter_of("slurm", plan.options.queue, prefix=tuple(settings["prefix"]))
        cluster = Cluster(adapter, machines, machines, records, master=settings["master"], batch="slurm")
        await Manager(cluster, plan, tell, clock=Clock(rate=RATE, origin=settings["origin"])).run()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        trio.run(manage, json.loads(Path(sys.argv[1]).read_text()))
