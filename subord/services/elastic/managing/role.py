"""The part of the queue's node in a plan: runs a Manager, and tells each daemon that is connected its states.

Inputs are the plan, the configuration of the node, and connections of its daemon; outputs are states, with the polls
of the last hours for a daemon that has just come. Invariants: as those of services/role.py.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Final

import msgspec
import trio

from subord.config.kinds import kinds_of
from subord.runtime.elastic import state
from subord.runtime.elastic.state import POLLS_MAX, Poll, State
from subord.runtime.elastic.talk import encode_said, is_poll_soon
from subord.runtime.record_file import RecordsError
from subord.services import role
from subord.services.acting import Context, Handed
from subord.services.batch.adapter import adapter_of, environment_of
from subord.services.elastic.checking import managing_fault
from subord.services.elastic.clock import Clock, booted_at
from subord.services.elastic.managing.leftover import left_over
from subord.services.elastic.managing.manager import Manager
from subord.services.elastic.managing.nodes import DaemonNodes
from subord.services.elastic.managing.working import Cluster
from subord.services.elastic.plan import Plan
from subord.services.elastic.records import Records
from subord.services.elastic.suppliers import CommandSupplier

logger = logging.getLogger("subord")
POLLS_KEPT: Final = 2_000
"""As many as a daemon keeps."""
make_clock: Callable[[], Clock] = Clock
"""A lab has another one, by which an hour passes in a minute."""


class Role(role.Role):
    """From when this node begins to manage by a plan until another one takes over, or the daemon is gone."""

    NAME = "elastic"
    ALONE = "no node is added or removed until it is back"
    REVOKED = "the operator of the plan counts no more: no node is added or removed until there is another plan"

    def __init__(self, handed: Handed, plan: Plan, context: Context) -> None:
        super().__init__(handed)
        self._plan = plan
        self._context = context
        self._state = State(
            word=state.MANAGES, version=self.order.version, is_trial=plan.is_trial, batch=context.elastic.batch
        )
        self._polls: deque[Poll] = deque(maxlen=POLLS_KEPT)
        self._polls_told = 0
        """All that the Manager has told."""
        self._poll_soon: Callable[[], None] = lambda: None

    async def manage(self) -> str:
        """Until it is cancelled; the fault that hinders it."""
        context, config, plan = self._context, self._context.elastic, self._plan
        assert plan.options is not None
        if fault := await trio.to_thread.run_sync(managing_fault, config, plan):
            return f"{fault}; no node is added or removed"
        environment = environment_of(config.batch_environment)
        master = socket.gethostname()
        try:
            with closing(await trio.to_thread.run_sync(Records, context.directory)) as records:
                cluster = Cluster(
                    adapter=adapter_of(config.batch, plan.options.queue, environment),
                    supplier=CommandSupplier(config),
                    nodes=DaemonNodes(context, plan, self.order.version, master),
                    records=records,
                    master=master,
                    kinds=kinds_of(config.kinds),
                    wait_s=config.wait_s,
                    paid_since=await trio.to_thread.run_sync(booted_at),
                    batch=config.batch,
                )
                manager = Manager(cluster, plan, self._take, version=self.order.version, clock=make_clock())
                self._poll_soon = manager.poll_soon
                await manager.run()
        except RecordsError as error:
            return str(error)
        return ""

    async def leave(self) -> None:
        """No plan names this node until there is another one."""
        if left := await left_over(self._context, self._plan, make_clock()):
            logger.warning("elastic: %s", left)

    def fail(self, fault: str) -> None:
        self._state = msgspec.structs.replace(self._state, word=state.FAILED, detail=fault)

    def hear(self, data: bytes) -> None:
        if is_poll_soon(data):
            self._poll_soon()

    def news(self, sent: int) -> tuple[Iterator[bytes], int]:
        """All polls that are kept, and each state from now on."""
        since = self._polls_told - len(self._polls) if sent < 0 else sent
        return map(encode_said, self._states(since)), self._polls_told

    async def _take(self, found: State) -> None:
        """A state of the Manager, with the polls since the last one."""
        self._polls.extend(found.polls)
        self._polls_told += len(found.polls)
        self._state = msgspec.structs.replace(found, polls=())
        self.note()
        await self.check_revoked()

    def _states(self, sent: int) -> Iterator[State]:
        """The present state, behind as many others as polls need that have not been sent."""
        polls = list(islice(self._polls, max(0, len(self._polls) - (self._polls_told - sent)), None))
        for start in range(0, max(1, len(polls)), POLLS_MAX):
            yield msgspec.structs.replace(self._state, polls=tuple(polls[start : start + POLLS_MAX]))
