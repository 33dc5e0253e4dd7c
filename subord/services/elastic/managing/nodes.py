"""What the manager needs of the nodes of the cluster, by the daemon of the queue's node.

Inputs are addresses, steps, names and the plan; outputs are Results, or texts that say why not. Orders and tables
are signed with elastic.key (asking.py, services/hosts/publishing.py). Requests block, so they are made in threads, at
most AT_ONCE_MAX of them. Invariants: nothing is raised for what a node does; of hosts tables the newest call counts,
also for calls that still wait; exports take their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from threading import Lock
from typing import Final, TypeVar

import trio

from subord.services.acting import Context
from subord.services.elastic import asking
from subord.services.elastic.plan import Plan
from subord.services.elastic.preparing.exports import export, unexport
from subord.services.elastic.task import Result, Step, Task
from subord.services.hosts import publishing
from subord.services.hosts.table import Table, TableError, table_of

AT_ONCE_MAX: Final = 8
"""The daemon answers 16 requests at once, those of commands among them."""
JOINED_S: Final = 3.0
ORDER_S: Final = 120.0
"""Users, mounts, or a batch daemon; a step that takes longer is asked for again."""
THREAD_GRACE_S: Final = 20.0
"""For ssh-keygen, and for a daemon that does not answer."""
NAMES_S: Final = 30.0
NAMES_PAUSE_S: Final = 0.5
NO_FILE: Final = (
    "elastic.exports_file of the queue's node is empty; nothing was exported: name a file, or plan no mounts"
)
OWN_ADDRESS: Final = (
    "elastic.start gave {address}, which is that of the queue's node itself; nothing was changed: correct what "
    "starts nodes"
)
Found = TypeVar("Found")


class DaemonNodes:
    """`version`: of the document of the plan. `master`: the name of the queue's node."""

    def __init__(self, context: Context, plan: Plan, version: int, master: str) -> None:
        self._context = context
        self._plan = plan
        self._version = version
        self._master = master
        self._limiter = trio.CapacityLimiter(AT_ONCE_MAX)
        self._table = Table()
        self._publishing = Lock()
        """An older table is not published after a newer one."""

    async def joined(self, address: str) -> str:
        """Whether its daemon and its agent answer, and hold the plan."""
        if address == self._context.node:
            await trio.lowlevel.checkpoint()
            return OWN_ADDRESS.format(address=address)
        found = await self._asked(address, Step.LOOK, JOINED_S)
        return found if isinstance(found, str) else found.fault

    async def order(self, address: str, step: Step) -> Result | str:
        """What the node says of a step."""
        return await self._asked(address, step, ORDER_S)

    async def names(self, table: Mapping[str, str], must: Collection[str]) -> str:
        """Publish the table, and wait until nodes have it."""
        if not self._plan.has_hosts:
            await trio.lowlevel.checkpoint()
            return ""
        try:
            self._table = table_of({self._master: self._context.node, **table}.items())
        except TableError as error:
            await trio.lowlevel.checkpoint()
            return f"{error}; nothing was published"
        return await self._spread({self._context.node, *must})

    async def export(self, addresses: Collection[str]) -> str:
        """Export the directories of the plan."""
        if not self._context.elastic.exports_file:
            await trio.lowlevel.checkpoint()
            return NO_FILE if self._plan.mounts else ""
        return await export(self._context.elastic.exports_file, addresses, self._plan.mounts)

    async def unexport(self, addresses: Collection[str]) -> str:
        """Export them to no others."""
        if not self._context.elastic.exports_file:
            await trio.lowlevel.checkpoint()
            return ""
        return await unexport(self._context.elastic.exports_file, addresses, self._plan.mounts)

    # -- parts ----------------------------------------------------------------------------------------------------

    async def _asked(self, address: str, step: Step, time_s: float) -> Result | str:
        task = Task(step, self._version, self._context.node)
        late = f"{address} has not answered within {time_s:g} s: look at its daemon, and at that of this node"
        return await self._in_thread(partial(asking.step, task, address, self._context, time_s), time_s, late)

    async def _spread(self, must: Collection[str]) -> str:
        """Until the nodes have the table, or a newer one, or the time is over."""
        until = trio.current_time() + NAMES_S
        while True:
            late = "the daemon of this node does not answer"
            fault = await self._in_thread(partial(self._published, must), NAMES_S, late)
            if not fault:
                return ""
            if trio.current_time() >= until:
                return fault
            await trio.sleep(NAMES_PAUSE_S)

    def _published(self, must: Collection[str]) -> str:
        """Whether the nodes have the newest table; "": they have. Blocks."""
        with self._publishing:
            table = self._table
            fault = publishing.publish(table, self._context, self._context.elastic.key)
        return fault or publishing.unapplied(table, must, self._context)

    async def _in_thread(self, work: Callable[[], Found], time_s: float, late: str) -> Found | str:
        """A thread that hangs is left behind, and keeps its place among AT_ONCE_MAX."""
        with trio.move_on_after(time_s + THREAD_GRACE_S):
            return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        return late
