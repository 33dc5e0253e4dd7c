"""Follows the plan of transfer queues on one node: the transfer host sends and takes jobs, others do nothing.

Inputs are plans that operators have signed and the policy allows, and the daemon's connection; outputs are states for
the daemon, and the work of a Driver. The transfer host works as long as the plan counts and its daemon is connected,
or was within GRACE_S. Then the work ends, and records stay; jobs that are away run on. Invariants: a node has at most
one Driver, that of the newest plan; the same plan handed over again, by a daemon that was away, goes on without a
break.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from subord.core.carriage.documents import TRANSFER
from subord.core.carriage.engine.causes import FAILED, MALFORMED, of_verdict
from subord.runtime.transfer import state
from subord.runtime.transfer.state import State
from subord.runtime.transfer.talk import encode_said
from subord.services.acting import Context, Handed, Talk
from subord.services.newest import NotKeptError, accepted
from subord.services.role import Place
from subord.services.transfer.plan import Plan, PlanError, decode_plan

if TYPE_CHECKING:
    from subord.services.transfer.driving.role import Role

logger = logging.getLogger("subord")
FOLDER: Final = "transfer"
REPLAYED: Final = of_verdict("replayed")


async def attend(handed: Handed, context: Context, talk: Talk) -> str:
    """Follow a plan until another one takes over, or the daemon is gone; the cause why it was not followed."""
    plan = _plan_of(handed)
    if plan is None:
        return MALFORMED
    version = handed.document.version
    node = _nodes.setdefault(context.directory, Place())
    async with node.turn:
        try:
            if not await trio.to_thread.run_sync(accepted, handed, context.directory, FOLDER):
                return REPLAYED
        except NotKeptError as error:
            logger.error("transfer: %s", error)
            await talk.send(encode_said(State(word=state.FAILED, version=version, detail=str(error))))
            return FAILED
        hosts = not plan.is_off and plan.host == handed.position
        role, is_new = await node.role_in(handed, partial(_made, handed, plan, context) if hosts else None)
    if role is None:
        word = state.OFF if plan.is_off else state.OTHER_NODE
        logger.info("transfer: version %d of %s is followed: %s", version, handed.principal, state.SENTENCES[word])
        await talk.send(encode_said(State(word=word, version=version)))
        return ""
    if is_new:
        logger.info("transfer: version %d of %s is followed: this node is the host", version, handed.principal)
        return await role.run(talk)
    return await role.tell(talk)


def _plan_of(handed: Handed) -> Plan | None:
    """None: it cannot be followed."""
    if handed.document.name != TRANSFER:
        return None
    try:
        return decode_plan(handed.document.body)
    except PlanError as error:
        logger.error("transfer: version %d of %s: %s", handed.document.version, handed.principal, error)
        return None


def _made(handed: Handed, plan: Plan, context: Context) -> Role:
    from subord.services.transfer.driving.role import Role

    return Role(handed, plan, context)


_nodes: dict[str, Place] = {}
"""By the directory of the agent; a process has one."""
