"""The part of the queue's node in a plan of machines: runs a Manager, and tells each daemon that is connected.

Inputs are the plan, the configuration of the node, and connections of its daemon; outputs are states. Invariants: as
those of services/role.py; of processes on this node one decides at a time (lives.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import msgspec
import trio

from subord.runtime.machines import state
from subord.runtime.machines.state import State
from subord.runtime.machines.talk import encode_said
from subord.services import role
from subord.services.acting import Context, Handed
from subord.services.batch.adapter import Adapter, adapter_of, environment_of
from subord.services.batch.queues import queues_of
from subord.services.machines.asking import DaemonServers
from subord.services.machines.managing.batching import SLURM, BatchSide
from subord.services.machines.managing.clock import steady
from subord.services.machines.managing.lives import Lives, LivesError
from subord.services.machines.managing.manager import Manager, Site
from subord.services.machines.plan import Plan
from subord.services.machines.servers import Servers

NO_BATCH = (
    "machines.batch is empty on this node, which the plan says has the queue: name its batch system and restart "
    "the agent"
)
NO_KEY = (
    "machines.key is empty on this node, which the plan says has the queue: name the key that signs orders and "
    "restart the agent"
)
make_servers: Callable[[Context], Servers] = DaemonServers
make_adapter: Callable[..., Adapter] = adapter_of


class Role(role.Role):
    NAME = "machines"
    ALONE = "no machine is started or stopped until it is back"
    REVOKED = "the operator of the plan counts no more: no machine is started or stopped until there is another plan"

    def __init__(self, handed: Handed, plan: Plan, context: Context) -> None:
        super().__init__(handed)
        self._plan = plan
        self._context = context
        self._state = State(
            word=state.MANAGES, version=self.order.version, is_trial=plan.is_trial, batch=context.machines.batch
        )

    async def manage(self) -> str:
        context, config, plan = self._context, self._context.machines, self._plan
        if not config.batch or not config.key:
            return NO_KEY if config.batch else NO_BATCH
        environment = environment_of(config.batch_environment)
        side = BatchSide(
            plan,
            lambda queue: make_adapter(config.batch, queue, environment),
            sees_all=config.batch == SLURM,
        )
        version, now = self.order.version, steady()
        try:
            with closing(await trio.to_thread.run_sync(Lives, context.directory)) as lives:
                life = await trio.to_thread.run_sync(lives.begin, version, now())
                queues = partial(queues_of, config.batch, environment)
                site = Site(make_servers(context), side, config.batch, queues)
                await Manager(site, plan, self._take, version=version, life=life, now=now).run()
        except LivesError as error:
            return str(error)
        return ""

    def fail(self, fault: str) -> None:
        self._state = msgspec.structs.replace(self._state, word=state.FAILED, detail=fault)

    def news(self, sent: int) -> tuple[Iterator[bytes], int]:  # noqa: ARG002 - the present state is all there is
        return iter((encode_said(self._state),)), 0

    async def _take(self, found: State) -> None:
        self._state = found
        self.note()
        await self.check_revoked()
